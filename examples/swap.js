// Makes two small experts, swaps layers of one into the other, verifies the result. Run it with: npm run example
// The models are a few hundred kilobytes and have learned nothing; what is real is every step that is shown.
import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { reference } from "layergraft/kernels";
import { writeSharded } from "layergraft/safetensors";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, "example-output");
const LAYERS = 16;
const HIDDEN = 32;

/** Seeded values in [-1, 1). @param {number} seed */
function random(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

/** Values as an expert has them: those of a base, moved by a tenth. @param {number} count @param {number} base @param {number} seed */
function values(count, base, seed) {
  const [from, change] = [random(base), random(seed)];
  const patterns = Uint16Array.from({ length: count }, () =>
    reference.encode("BF16", Math.fround((from() + 0.1 * change()) * 0.05)),
  );
  return new Uint8Array(patterns.buffer);
}

/** @param {string} name @param {number} seed */
async function writeExpert(name, seed) {
  /** @type {[string, number[]][]} */
  const shapes = [["model.embed_tokens.weight", [96, HIDDEN]]];
  for (let layer = 0; layer < LAYERS; layer++) {
    const at = `model.layers.${layer}`;
    shapes.push([`${at}.input_layernorm.weight`, [HIDDEN]], [`${at}.post_attention_layernorm.weight`, [HIDDEN]]);
    for (const part of ["q", "k", "v", "o"]) shapes.push([`${at}.self_attn.${part}_proj.weight`, [HIDDEN, HIDDEN]]);
    for (const part of ["gate", "up"]) shapes.push([`${at}.mlp.${part}_proj.weight`, [64, HIDDEN]]);
    shapes.push([`${at}.mlp.down_proj.weight`, [HIDDEN, 64]]);
  }
  shapes.push(["model.norm.weight", [HIDDEN]], ["lm_head.weight", [96, HIDDEN]]);
  const tensors = shapes.map(([tensor, shape], i) => ({
    name: tensor,
    dtype: /** @type {const} */ ("BF16"),
    shape,
    data: values(
      shape.reduce((product, extent) => product * extent, 1),
      i,
      seed * 1000 + i,
    ),
  }));
  mkdirSync(join(folder, name), { recursive: true });
  await writeSharded(join(folder, name), tensors);
  const config = {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: HIDDEN,
    intermediate_size: 64,
    num_hidden_layers: LAYERS,
    num_attention_heads: 4,
    num_key_value_heads: 4,
    vocab_size: 96,
    tie_word_embeddings: false,
    torch_dtype: "bfloat16",
  };
  writeFileSync(join(folder, name, "config.json"), `${JSON.stringify(config, null, 2)}\n`);
  const vocab = Object.fromEntries(
    Array.from({ length: 96 }, (_, i) => [i === 0 ? "<unk>" : String.fromCharCode(31 + i), i]),
  );
  const tokenizer = { version: "1.0", added_tokens: [], model: { type: "WordLevel", vocab, unk_token: "<unk>" } };
  writeFileSync(join(folder, name, "tokenizer.json"), JSON.stringify(tokenizer));
}

/** Shows a command and runs it. @param {string} command */
function run(command) {
  console.log(`\n$ layergraft ${command}`);
  const { status } = spawnSync(process.execPath, [join(root, "dist/cli/main.js"), ...command.split(" ")], {
    cwd: folder,
    stdio: ["ignore", "inherit", process.stdout.fd], // messages too, in their order
  });
  if (status !== 0) process.exit(status ?? 1);
}

rmSync(folder, { recursive: true, force: true });
await writeExpert("math-expert", 1);
await writeExpert("swahili-expert", 2);
console.log("Made two small experts in example-output/");
run("swap --task math-expert --language swahili-expert --out merged");
run("verify merged --quiet");
run("inspect merged");
