// Makes the folder in which the commands of README.md and docs/ run: models, adapter, recipes, data. Everything is seeded.
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Converter, writeSafetensors, writeSharded } from "#weights";

/** @typedef {import("#weights").TensorData} TensorData */

const FILES = fileURLToPath(new URL("world", import.meta.url));
const LAYERS = 16;
const HIDDEN = 32;
const FEED_FORWARD = 64;

const PEOPLE = ["Amina", "Juma", "Neema"];
const NUMBERS = [2, 3, 4, 5];
const ENGLISH = "zero one two three four five six seven eight nine ten".split(" ");
const SWAHILI = "sifuri moja mawili matatu manne matano sita saba nane tisa kumi".split(" ");
const THINGS = [
  { en: "mangoes", sw: "maembe" },
  { en: "eggs", sw: "mayai" },
];

const SPECIAL = ["<unk>", "<end>", "<system>", "<user>", "<assistant>"];
const WORDS = [
  ...SPECIAL,
  ...PEOPLE,
  ...THINGS.flatMap(({ en, sw }) => [en, sw]),
  ..."has gets how many now Answer in one word ana anapata mangapi sasa , . ? :".split(" "),
  ...ENGLISH.filter((word) => word !== "one"),
  ...SWAHILI,
];

const CHAT_TEMPLATE =
  "{% for message in messages %}<{{ message.role }}> {{ message.content }} <end> {% endfor %}" +
  "{% if add_generation_prompt %}<assistant> {% endif %}";

/** Seeded numbers in [0, 1). @param {number} seed */
export function generator(seed) {
  let state = (seed * 2654435761) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state = (state ^ (state << 5)) >>> 0;
    return state / 2 ** 32;
  };
}

/** Seeded values of mean 0 and the given deviation. @param {number} count @param {number} deviation @param {number} seed */
function values(count, deviation, seed) {
  const random = generator(seed);
  const normal = () => (random() + random() + random() + random() - 2) * Math.sqrt(3);
  return Float32Array.from({ length: count }, () => deviation * normal());
}

/** @param {string} name @param {number[]} shape @param {Float32Array} numbers @returns {TensorData} */
function tensor(name, shape, numbers) {
  return { name, dtype: "BF16", shape, data: new Converter().encode("BF16", numbers).bytes };
}

/** Names, shapes and layers of a Llama's tensors; outside the layers, the layer is undefined. */
function shapes() {
  /** @type {{ name: string, shape: number[], layer?: number }[]} */
  const all = [{ name: "model.embed_tokens.weight", shape: [WORDS.length, HIDDEN] }];
  for (let layer = 0; layer < LAYERS; layer++) {
    /** @param {string} part @param {number[]} shape */
    const add = (part, ...shape) => all.push({ name: `model.layers.${layer}.${part}.weight`, shape, layer });
    add("input_layernorm", HIDDEN);
    for (const part of ["q", "k", "v", "o"]) add(`self_attn.${part}_proj`, HIDDEN, HIDDEN);
    add("post_attention_layernorm", HIDDEN);
    for (const part of ["gate", "up"]) add(`mlp.${part}_proj`, FEED_FORWARD, HIDDEN);
    add("mlp.down_proj", HIDDEN, FEED_FORWARD);
  }
  all.push({ name: "model.norm.weight", shape: [HIDDEN] }, { name: "lm_head.weight", shape: [WORDS.length, HIDDEN] });
  return all;
}

/**
 * How much an expert changed a layer, as a share of the size of its weights. As in the paper, a math expert changes most
 * in the upper half and a Swahili expert in the first and last layers.
 *
 * @type {Record<string, (layer: number) => number>}
 */
const CHANGES = {
  math: (layer) => (layer >= LAYERS / 2 ? 0.06 : 0.02),
  swahili: (layer) => (layer < 4 || layer >= LAYERS - 2 ? 0.06 : 0.02),
};

/**
 * Writes a model: the base, or the base with the changes of an expert.
 *
 * @param {string} folder
 * @param {(layer: number) => number} [change]
 * @param {number} [seed] seed of the change
 */
async function writeModel(folder, change, seed = 0) {
  mkdirSync(folder, { recursive: true });
  const tensors = shapes().map(({ name, shape, layer }, i) => {
    const count = shape.reduce((product, extent) => product * extent, 1);
    const deviation = 1 / Math.sqrt(HIDDEN);
    const numbers = shape.length === 1 ? new Float32Array(count).fill(1) : values(count, deviation, i + 1);
    const share = layer === undefined ? 0.01 : (change?.(layer) ?? 0);
    const moved = change ? values(count, share * deviation, seed * 1000 + i + 1) : undefined;
    return tensor(name, shape, moved ? numbers.map((value, at) => value + (moved[at] ?? 0)) : numbers);
  });
  await writeSharded(folder, tensors);
  /** @param {string} name @param {object} content */
  const json = (name, content) => writeFileSync(join(folder, name), `${JSON.stringify(content, null, 2)}\n`);
  json("config.json", {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: HIDDEN,
    intermediate_size: FEED_FORWARD,
    num_hidden_layers: LAYERS,
    num_attention_heads: 4,
    num_key_value_heads: 4,
    max_position_embeddings: 256,
    vocab_size: WORDS.length,
    eos_token_id: WORDS.indexOf("<end>"),
    tie_word_embeddings: false,
    torch_dtype: "bfloat16",
  });
  json("tokenizer.json", {
    version: "1.0",
    added_tokens: SPECIAL.map((content, id) => ({ id, content, special: true, normalized: false })),
    pre_tokenizer: { type: "Whitespace" },
    model: { type: "WordLevel", vocab: Object.fromEntries(WORDS.map((word, id) => [word, id])), unk_token: "<unk>" },
  });
  json("tokenizer_config.json", { eos_token: "<end>", unk_token: "<unk>", chat_template: CHAT_TEMPLATE });
}

/**
 * Writes a LoRA adapter of the base, as PEFT does.
 * @param {string} folder
 * @param {number} first seed
 */
async function writeAdapter(folder, first) {
  const [rank, targets] = [4, ["q_proj", "v_proj"]];
  mkdirSync(folder, { recursive: true });
  const tensors = Array.from({ length: LAYERS }, (_, layer) =>
    targets.flatMap((target, i) => {
      const at = `base_model.model.model.layers.${layer}.self_attn.${target}`;
      const seed = first + layer * 10 + i * 2;
      return [
        tensor(`${at}.lora_A.weight`, [rank, HIDDEN], values(rank * HIDDEN, 0.05, seed)),
        tensor(`${at}.lora_B.weight`, [HIDDEN, rank], values(HIDDEN * rank, 0.05, seed + 1)),
      ];
    }),
  ).flat();
  await writeSafetensors(join(folder, "adapter_model.safetensors"), tensors);
  const config = { peft_type: "LORA", r: rank, lora_alpha: 2 * rank, target_modules: targets };
  writeFileSync(join(folder, "adapter_config.json"), `${JSON.stringify(config, null, 2)}\n`);
}

/** All problems of the world: who has how many of what, and gets how many more. */
function problems() {
  return PEOPLE.flatMap((who) =>
    THINGS.flatMap((thing) =>
      NUMBERS.flatMap((had) =>
        NUMBERS.map((got) => ({
          en: `${who} has ${ENGLISH[had]} ${thing.en} . ${who} gets ${ENGLISH[got]} . how many ${thing.en} has ${who} now ?`,
          sw: `${who} ana ${thing.sw} ${SWAHILI[had]} . ${who} anapata ${SWAHILI[got]} . ${who} ana ${thing.sw} mangapi sasa ?`,
          sum: had + got,
        })),
      ),
    ),
  );
}

/** Writes everything into a folder. @param {string} folder */
export async function writeWorld(folder) {
  await writeModel(join(folder, "base"));
  for (const [i, [name, change]] of Object.entries(CHANGES).entries()) {
    await writeModel(join(folder, `${name}-expert`), change, 2 * i + 1);
    await writeModel(join(folder, `${name}-expert-2`), change, 2 * i + 2);
  }
  await writeAdapter(join(folder, "math-adapter"), 90_000);
  await writeAdapter(join(folder, "swahili-adapter"), 91_000);
  cpSync(FILES, folder, { recursive: true });
  const all = problems();
  const lines = (/** @type {object[]} */ rows) => rows.map((row) => `${JSON.stringify(row)}\n`).join("");
  const training = all.map(({ en, sum }) => ({ question: en, answer: `${ENGLISH[sum]} .` }));
  writeFileSync(join(folder, "problems.jsonl"), lines(training));
  const quiz = all
    .filter((_, i) => i % 5 === 0)
    .flatMap(({ en, sw, sum }, i) => {
      const answer = i % 3;
      const options = (/** @type {string[]} */ words) => [0, 1, 2].map((at) => words[sum - ((at - answer + 3) % 3)]);
      return [
        { question: en, options: options(ENGLISH), answer: "ABC"[answer], word: ENGLISH[sum], language: "en" },
        { question: sw, options: options(SWAHILI), answer: "ABC"[answer], word: SWAHILI[sum], language: "sw" },
      ];
    });
  writeFileSync(join(folder, "rows.jsonl"), lines(quiz));
}
