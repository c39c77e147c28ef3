// What a token makes the engine read of a mixture of experts of Qwen3-30B-A3B's shape: the bytes of its file that it touches, and
// those that the system reads with its read-ahead, beside those of the experts that the router chooses. Experts and attention are holes of a
// sparse file, so a token's hidden state is its embedding in all layers. Linux only (fincore, of util-linux).
import { spawnSync } from "node:child_process";
import { closeSync, ftruncateSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openEngine } from "#engine";
import { layoutFolder } from "#formats/safetensors";
import { DATA } from "./checkpoints.js";
import { describeMachine } from "./measure.js";

const HIDDEN = 2048;
const [EXPERTS, CHOSEN, WIDTH] = [128, 8, 768];
const [HEADS, KEY_HEADS, HEAD_WIDTH] = [32, 4, 128];
const VOCABULARY = 4096; // of 151,936: a token reads a row of it, and all of the head
const EXPERT_BYTES = 3 * WIDTH * HIDDEN * 2;
const PUBLISHED_LAYERS = 48;

/** @param {number} layers @returns {[string, number[]][]} */
const tensorsOf = (layers) => [
  ["model.embed_tokens.weight", [VOCABULARY, HIDDEN]],
  ...Array.from({ length: layers }, (_, i) => `model.layers.${i}`).flatMap(
    (at) =>
      /** @type {[string, number[]][]} */ ([
        [`${at}.input_layernorm.weight`, [HIDDEN]],
        [`${at}.post_attention_layernorm.weight`, [HIDDEN]],
        [`${at}.self_attn.q_proj.weight`, [HEADS * HEAD_WIDTH, HIDDEN]],
        [`${at}.self_attn.k_proj.weight`, [KEY_HEADS * HEAD_WIDTH, HIDDEN]],
        [`${at}.self_attn.v_proj.weight`, [KEY_HEADS * HEAD_WIDTH, HIDDEN]],
        [`${at}.self_attn.o_proj.weight`, [HIDDEN, HEADS * HEAD_WIDTH]],
        ...["q_norm", "k_norm"].map((part) => [`${at}.self_attn.${part}.weight`, [HEAD_WIDTH]]),
        [`${at}.mlp.gate.weight`, [EXPERTS, HIDDEN]],
        ...Array.from({ length: EXPERTS }, (_, expert) => `${at}.mlp.experts.${expert}`).flatMap((expert) => [
          [`${expert}.gate_proj.weight`, [WIDTH, HIDDEN]],
          [`${expert}.up_proj.weight`, [WIDTH, HIDDEN]],
          [`${expert}.down_proj.weight`, [HIDDEN, WIDTH]],
        ]),
      ]),
  ),
  ["model.norm.weight", [HIDDEN]],
  ["lm_head.weight", [VOCABULARY, HIDDEN]],
];

/** Random values of a tensor that is no hole, in bfloat16, by its name. @param {string} name @param {number} count */
function valuesOf(name, count) {
  let state = [...name].reduce((hash, letter) => (Math.imul(hash, 31) + letter.charCodeAt(0)) >>> 0, 7) || 1;
  const values = Float32Array.from({ length: count }, () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state = (state ^ (state << 5)) >>> 0;
    return state / 2 ** 31 - 1;
  });
  return Uint16Array.from(new Uint32Array(values.buffer), (word) => word >>> 16);
}

/** @param {Uint16Array} values @param {number} row */
const rowOf = (values, row) =>
  new Float32Array(Uint32Array.from(values.subarray(row * HIDDEN, (row + 1) * HIDDEN), (word) => word << 16).buffer);

/** @param {string} folder @param {number} layers @returns the paths of its weight files */
function writeSparse(folder, layers) {
  mkdirSync(folder, { recursive: true });
  const layout = layoutFolder(
    tensorsOf(layers).map(([name, shape]) => ({ name, dtype: /** @type {const} */ ("BF16"), shape })),
  );
  for (const shard of layout.shards) {
    const descriptor = openSync(join(folder, shard.name), "w");
    writeSync(descriptor, shard.header);
    ftruncateSync(descriptor, shard.bytes);
    let at = shard.header.byteLength;
    for (const { name, shape } of shard.tensors) {
      const count = shape.reduce((a, b) => a * b, 1);
      const isNorm = name.includes("norm");
      if (isNorm || /embed_tokens|mlp\.gate\./.test(name)) {
        writeSync(descriptor, isNorm ? new Uint16Array(count).fill(0x3f80) : valuesOf(name, count), 0, 2 * count, at);
      }
      at += 2 * count;
    }
    closeSync(descriptor);
  }
  if (layout.index) writeFileSync(join(folder, layout.index.name), layout.index.content);
  const config = {
    architectures: ["Qwen3MoeForCausalLM"],
    model_type: "qwen3_moe",
    hidden_size: HIDDEN,
    num_hidden_layers: layers,
    num_attention_heads: HEADS,
    num_key_value_heads: KEY_HEADS,
    head_dim: HEAD_WIDTH,
    vocab_size: VOCABULARY,
    num_experts: EXPERTS,
    num_experts_per_tok: CHOSEN,
    moe_intermediate_size: WIDTH,
    norm_topk_prob: true,
    torch_dtype: "bfloat16",
  };
  writeFileSync(join(folder, "tokenizer.json"), "{}");
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  return layout.shards.map(({ name }) => join(folder, name));
}

/** The experts of a token in each layer, by its embedding alone. @param {Uint16Array} embeddings @param {number} token @param {number} layers */
function expertsOf(embeddings, token, layers) {
  const embedding = rowOf(embeddings, token);
  return Array.from({ length: layers }, (_, layer) => {
    const router = valuesOf(`model.layers.${layer}.mlp.gate.weight`, EXPERTS * HIDDEN);
    const scores = Array.from({ length: EXPERTS }, (_, expert) =>
      rowOf(router, expert).reduce((sum, value, i) => sum + value * (embedding[i] ?? 0), 0),
    );
    const order = [...scores.keys()].sort((a, b) => (scores[b] ?? 0) - (scores[a] ?? 0));
    return order.slice(0, CHOSEN).map((expert) => `${layer} ${expert}`);
  }).flat();
}

/** @param {string[]} files */
function cachedBytes(files) {
  const { stdout } = spawnSync("fincore", ["--bytes", "--noheadings", "--output", "RES", ...files], {
    encoding: "utf8",
  });
  return stdout.split("\n").reduce((sum, line) => sum + Number(line), 0);
}

/** Bytes of files of this folder that this process has touched in its mappings. @param {string} folder */
function touchedBytes(folder) {
  const mappings = readFileSync("/proc/self/smaps", "utf8").split(/\n(?=[0-9a-f]+-[0-9a-f]+ )/);
  const own = mappings.filter((one) => one.split("\n")[0]?.includes(`${folder}/`));
  return own.reduce((sum, one) => sum + 1024 * Number(/^Rss: +(\d+)/m.exec(one)?.[1] ?? 0), 0);
}

/** @param {string[]} args */
export async function benchmarkExperts(args) {
  const { values } = parseArgs({
    args,
    options: { layers: { type: "string", default: "8" }, threads: { type: "string", default: "2" } },
  });
  const layers = Number(values.layers);
  const folder = join(DATA, "experts");
  const files = writeSparse(folder, layers);
  spawnSync("sync");
  for (const file of files) spawnSync("dd", [`if=${file}`, "iflag=nocache", "count=0"]);
  console.log(`machine: ${describeMachine()}`);
  console.log(`model: Qwen3-30B-A3B with ${layers} of ${PUBLISHED_LAYERS} layers and ${VOCABULARY} tokens, bfloat16\n`);
  const engine = await openEngine(folder, { threads: Number(values.threads) });
  const bytes = () => ({ cached: cachedBytes(files), touched: touchedBytes(folder) });
  const inMegabytes = (/** @type {number} */ count) => `${(count / 1e6).toFixed(0)} MB`;
  let before = bytes();
  console.log(`opened: ${inMegabytes(before.cached)} read`);
  const embeddings = valuesOf("model.embed_tokens.weight", VOCABULARY * HIDDEN);
  /** @type {Set<string>} */
  const read = new Set();
  for (const token of [100, 200, 300, 400, 100]) {
    await engine.topNext([[token]], { count: 1 });
    const after = bytes();
    const fresh = expertsOf(embeddings, token, layers).filter((expert) => !read.has(expert));
    for (const expert of fresh) read.add(expert);
    const touched = inMegabytes(after.touched - before.touched);
    const wanted = `${fresh.length} experts, not read before, of ${inMegabytes(fresh.length * EXPERT_BYTES)}`;
    console.log(`token ${token}: ${touched} touched, ${inMegabytes(after.cached - before.cached)} read; ${wanted}`);
    before = after;
  }
  const perToken = (layers * CHOSEN * EXPERT_BYTES) / 1e6;
  console.log(
    `\nexperts of a token: ${perToken.toFixed(0)} MB here, ${((perToken / layers) * PUBLISHED_LAYERS).toFixed(0)} MB in ${PUBLISHED_LAYERS} layers`,
  );
  console.log(`peak memory ${(process.resourceUsage().maxRSS / 1e6).toFixed(2)} GB, with pages of the files`);
  await engine.close();
  rmSync(folder, { recursive: true });
}
