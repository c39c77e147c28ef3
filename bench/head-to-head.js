// layergraft, mergekit and fusion_bench on the families of the census: npm run bench -- head-to-head --python PYTHON. Writes docs/head-to-head.md.
// PYTHON has torch, transformers 5, mergekit and fusion-bench.
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { planMerge } from "layergraft";
import { Python } from "../test/census/python.js";
import { readRows } from "../test/census/rows.js";
import { DATA, SHAPES, writeCheckpoint } from "./checkpoints.js";
import { writePage } from "./head-to-head-page.js";
import { CLI, comparePeers, describeMachine, measure, median } from "./measure.js";

/** Recipes of the five methods; mergekit's and fusion_bench's are in test/census/other.py. @type {Record<string, (at: (name: string) => string) => any>} */
const RECIPES = {
  soup: (at) => ({ method: "soup", models: [at("a"), at("b")] }),
  "task arithmetic": (at) => ({ method: "task_arithmetic", ...experts(at), lambda: 0.5 }),
  TIES: (at) => ({ method: "ties", ...experts(at), density: 0.5, trim: "tensor", cutoff: "exact" }),
  SLERP: (at) => ({ method: "slerp", models: [at("a"), at("b")], t: 0.5 }),
  stack: (at) => ({ method: "passthrough", slices: ["0-2", "1-3"].map((layers) => ({ model: at("a"), layers })) }),
};
const experts = (/** @type {(name: string) => string} */ at) => ({ models: [at("a"), at("b")], base: at("base") });

/** Families that many use, chosen before a run: `--families all` takes all of the census. */
const SAMPLE =
  "llama,mistral,qwen2,qwen3,gemma2,gemma3,mixtral,gpt_oss,deepseek_v3,phi3,gpt2,qwen3_moe,llava,mamba,olmo2,cohere2," +
  "falcon,gpt_neox,opt,bloom,qwen2_5_vl,mllama,llama4_text,qwen2_moe,gemma,gemma3_text,phimoe,starcoder2,smollm3,jamba," +
  "granitemoe,deepseek_v2,glm4_moe,olmoe,qwen3_next,mamba2,falcon_h1,cohere,qwen2_vl,lfm2";

const PROGRAMS = ["layergraft", "mergekit", "mergekit, dtype: float32", "fusion_bench"];
const OTHER = fileURLToPath(new URL("../test/census/other.py", import.meta.url));
const RESULTS = fileURLToPath(new URL("../dist.head-to-head.jsonl", import.meta.url));

/** @param {string[]} args */
export async function benchmarkHeadToHead(args) {
  const { values } = parseArgs({
    args,
    options: {
      python: { type: "string", default: process.env.LAYERGRAFT_PYTHON ?? "python3" },
      families: { type: "string", default: SAMPLE },
      workers: { type: "string", default: "1" },
      rounds: { type: "string", default: "3" },
      whole: { type: "string", default: Object.keys(RECIPES).join() },
      model: { type: "string", default: "125m" },
      dtype: { type: "string", default: "bfloat16" },
      resume: { type: "boolean", default: false },
    },
  });
  const python = new Python(values.python);
  /** @type {{ id: string, family: string, class: string }[]} */
  const all = await python.ask("families", {});
  const versions = await python.ask("versions", {});
  python.close();
  const wanted = values.families === "all" ? all.map(({ id }) => id) : values.families.split(",");
  const sample = wanted.flatMap((id) => all.find((one) => one.id === id) ?? []);
  if (!values.resume) rmSync(RESULTS, { force: true });
  const done = new Set(existsSync(RESULTS) ? readRows(RESULTS).map(({ id }) => id) : []);
  const queue = sample.filter(({ id }) => !done.has(id));
  await Promise.all(Array.from({ length: Number(values.workers) }, () => work(queue, values)));
  const rows = readRows(RESULTS);
  const whole = Number(values.rounds) > 0 ? await wholeProcesses(values) : undefined;
  const about = {
    versions,
    machine: describeMachine(),
    date: new Date().toISOString().slice(0, 10),
    dtype: values.dtype,
    model: values.model,
  };
  writeFileSync(`${RESULTS}.run.json`, JSON.stringify({ ...about, rows, whole, known: all.length }));
  writePage({ ...about, rows, whole, known: all.length });
}

/**
 * Takes families until none is left.
 * @param {{ id: string, family: string, class: string }[]} queue @param {{ python: string, dtype: string }} options
 */
async function work(queue, { python: command, dtype }) {
  const scratch = mkdtempSync(join(tmpdir(), "layergraft-head-"));
  let python = new Python(command);
  for (let family = queue.shift(); family; family = queue.shift()) {
    const folder = join(scratch, family.id.replace(":", "-"));
    mkdirSync(folder);
    if (python.ended) python = new Python(command);
    const start = performance.now();
    const row = await headToHead(python, { family: family.family, kind: family.class, folder, dtype });
    rmSync(folder, { recursive: true, force: true });
    appendFileSync(RESULTS, `${JSON.stringify({ id: family.id, ...row })}\n`);
    console.error(`${family.id} ${((performance.now() - start) / 1000).toFixed(1)} s ${row.error ?? ""}`);
  }
  python.close();
  rmSync(scratch, { recursive: true, force: true });
}

/** @param {Python} python @param {{ family: string, kind: string, folder: string, dtype: string }} of */
async function headToHead(python, of) {
  const at = (/** @type {string} */ name) => join(of.folder, name);
  /** Outcomes by method and program. @type {Record<string, Record<string, any>>} */
  const merges = {};
  let made;
  try {
    made = await python.ask("make", of);
  } catch (error) {
    return { error: textOf(error) };
  }
  for (const [method, recipe] of Object.entries(RECIPES)) {
    if (method === "stack" && made.layers === 0) continue; // several stacks of layers
    /** @type {Record<string, any>} */
    const found = {};
    merges[method] = found;
    for (const program of PROGRAMS) {
      const out = at("out");
      try {
        const seconds =
          program === "layergraft"
            ? await write(recipe(at), out)
            : await python.ask("merge with", { ...of, program, method, out });
        found[program] = { seconds, ...(await python.ask("compare exactly", { ...of, program, method, out })) };
      } catch (error) {
        found[program] = { refused: textOf(error).slice(0, 300) };
      }
      rmSync(out, { recursive: true, force: true });
    }
  }
  return { layers: made.layers, parameters: made.parameters, merges };
}

/** @param {any} recipe @param {string} out */
async function write(recipe, out) {
  const start = performance.now();
  const plan = await planMerge(recipe);
  await plan.write({ out });
  return (performance.now() - start) / 1000;
}

/** @param {unknown} error */
const textOf = (error) => (error instanceof Error ? error.message : String(error));

/**
 * Whole commands on larger models: median, least and most seconds, and peak memory in MB, by method and program.
 * @param {{ python: string, rounds: string, whole: string, model: string }} options
 */
async function wholeProcesses({ python, rounds, whole, model }) {
  const shape = SHAPES[/** @type {keyof typeof SHAPES} */ (model)];
  const folder = join(DATA, `head-to-head-${model}`);
  const at = (/** @type {string} */ name) => join(folder, name);
  mkdirSync(folder, { recursive: true });
  for (const [seed, name] of ["a", "b", "base"].entries()) writeCheckpoint(at(name), shape, { seed: seed + 1 });
  const out = at("out");
  /** @type {import("./measure.js").Peers} */
  const peers = {};
  for (const [method, recipe] of Object.entries(RECIPES)) {
    if (!whole.split(",").includes(method)) continue;
    const file = at(`${method.replace(" ", "-")}.json`);
    writeFileSync(file, JSON.stringify(recipe(at)));
    peers[`${method}: layergraft`] = () => measure(process.execPath, [CLI, "merge", file, "--out", out, "--quiet"]);
    for (const program of PROGRAMS.slice(1)) {
      if (program === "mergekit, dtype: float32") continue;
      const command = [OTHER, program, method, folder, out, "LlamaForCausalLM", "bfloat16"];
      peers[`${method}: ${program}`] = () => measure(python, command);
    }
  }
  const results = await comparePeers(peers, Number(rounds), () => rmSync(out, { recursive: true, force: true }));
  const figures = (/** @type {number[]} */ values) => [median(values), Math.min(...values), Math.max(...values)];
  return Object.fromEntries(
    [...results].map(([name, { seconds, peak }]) => [name, { seconds: figures(seconds), peak: median(peak) }]),
  );
}

/** Writes the page again from what a run has found. @param {string[]} args */
export function headToHeadPage([file = `${RESULTS}.run.json`]) {
  writePage(JSON.parse(readFileSync(file, "utf8")));
}
