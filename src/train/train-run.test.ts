// Runs as people write them, on a world small enough to be learned (test/support/world.ts): from base and data to experts
// that answer, adapters, partitions; and what is refused. Values of single steps: trainable.test.ts.
// @module-tag slow
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { writeTinyTokenizer } from "../../test/support/export-fixtures.js";
import { type Item, items, WORDS, writeBase, writeItems } from "../../test/support/world.js";
import { openEngine } from "../engine/index.js";
import { openSafetensors, readTensor } from "../formats/safetensors/index.js";
import { checkRun } from "./run/run-file.js";
import type { RunInput } from "./run/run-schema.js";
import { type PreparedRun, prepareRun, type RunResult, trainRun } from "./train-run.js";

let root: string;
let out: string;
let count = 0;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "layergraft-run-"));
  writeBase(join(root, "base"));
  writeItems(join(root, "data.jsonl"), items(900));
});
afterAll(() => rmSync(root, { recursive: true, force: true }));
beforeEach(() => {
  out = join(root, `run-${count++}`);
});

const map = { prompt: "{prompt}", response: " {response}" };
type Fields = Omit<RunInput, "base" | "out">;
const runOf = (fields: Fields & { base?: string }) =>
  checkRun({ base: "base", out, threads: 1, optimizer: { lr: 3e-3 }, data: { source: "data.jsonl", map }, ...fields });
const go = (fields: Fields & { base?: string }): Promise<RunResult> => trainRun({ run: runOf(fields), folder: root });

async function prepared<T>(fields: Fields & { base?: string }, look: (run: PreparedRun) => T): Promise<T> {
  return look(await prepareRun({ run: runOf(fields), folder: root }));
}

const logOf = ({ log }: RunResult) =>
  readFileSync(log, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { loss?: number; holdoutLoss?: number; samples: number; stream?: string });

async function floatsOf(folder: string, name = "model.safetensors"): Promise<Map<string, Float32Array>> {
  const file = await openSafetensors(join(folder, name));
  const entries = file.tensors.map(async (tensor) => {
    const bytes = await readTensor(file, tensor);
    return [tensor.name, new Float32Array(bytes.slice().buffer)] as const;
  });
  return new Map(await Promise.all(entries));
}

/** The largest distance of two lists of weights, by their names. */
function farthest(found: ReadonlyMap<string, Float32Array>, wanted: ReadonlyMap<string, Float32Array>): number {
  expect([...found.keys()].sort()).toEqual([...wanted.keys()].sort());
  let most = 0;
  for (const [name, values] of wanted)
    for (const [i, value] of values.entries()) {
      const apart = Math.abs(value - (found.get(name)?.[i] as number));
      if (!(apart <= most)) most = apart;
    }
  return most;
}

/** Greedy answers of a model, as text. */
async function answersOf(model: string, asked: readonly Item[]): Promise<string[]> {
  const engine = await openEngine(model, { threads: 1 });
  try {
    const tokenizer = await engine.tokenizer();
    const prompts = asked.map(({ prompt }) => [tokenizer.bos ?? 0, ...tokenizer.encode(prompt)]);
    const answers = await engine.generate(prompts, { maxNewTokens: 12, batch: 20 });
    return answers.map(({ text, finish }) => (finish === "stop" ? text.trim() : `${text} ...`));
  } finally {
    await engine.close();
  }
}

it("a Llama that knows nothing learns to follow instructions that it never saw", async () => {
  writeBase(join(root, "larger"), { hidden: 96, layers: 3 });
  const fields: Fields & { base: string } = {
    ...{ base: "larger", batch: 16, epochs: 2, holdout: { samples: 60, every_samples: 400 } },
    optimizer: { lr: 3e-3, decay: 0.01 },
    schedule: { kind: "cosine", warmup: "10%" },
  };
  const heldOut = await prepared(fields, ({ streams: [stream], settings }) => {
    expect(settings.steps).toBe(105); // 2 x 840 / 16
    const { heldOut: list } = stream?.data ?? {};
    return (list?.sets[0]?.examples ?? []).map(({ ids }): Item => {
      const words = [...ids].map((id) => WORDS[id]);
      const [prompt = "", response = ""] = words.slice(1, -1).join(" ").split(" > ");
      return { prompt: `${prompt} >`, response };
    });
  });
  expect(heldOut).toHaveLength(60);
  const result = await go(fields);
  const measured = logOf(result).flatMap(({ holdoutLoss }) => holdoutLoss ?? []);
  expect(measured[0]).toBeGreaterThan(0.5);
  expect(measured.at(-1)).toBeLessThan(0.05);
  expect(logOf(result)[0]?.loss).toBeGreaterThan(3.5);
  const before = await answersOf(join(root, "larger"), heldOut);
  const after = await answersOf(result.last, heldOut);
  const right = (answers: readonly string[]) => answers.filter((text, i) => text === heldOut[i]?.response).length;
  expect(right(before)).toBe(0);
  expect(right(after)).toBeGreaterThanOrEqual(57);
});

describe("sparse fine-tuning", () => {
  const fields: Fields = {
    ...{ save_dtype: "float32", sequence_length: 32, batch: 8, steps: 6 },
    optimizer: { lr: 3e-3 },
  };

  it("resumes to the same weights, and refuses masks of another first run", async () => {
    const { last: first } = await go(fields);
    const [base, mask] = [await floatsOf(join(root, "base")), { from: first, share: 0.05 }];
    out = join(root, "sparse");
    const whole = await floatsOf((await go({ ...fields, mask })).last);
    const pairs = [...base].flatMap(([name, values]) =>
      Array.from(values, (x, i) => [x, whole.get(name)?.[i]] as const),
    );
    expect(pairs.filter(([before, after]) => before !== after)).toHaveLength(Math.floor(0.05 * pairs.length));

    out = join(first, "..");
    const replacing = trainRun({ run: runOf({ ...fields, mask }), folder: root, force: true });
    await expect(replacing).rejects.toThrow(/is inside the output folder/);
    out = join(root, "sparse-stopped");
    const run = runOf({ ...fields, mask });
    const controller = new AbortController();
    const onProgress = ({ step }: { readonly step: number }) => step === 3 && controller.abort();
    const stopped = trainRun({ run, folder: root, signal: controller.signal, onProgress });
    await expect(stopped).rejects.toThrow(/stopped after step 3 of 6/);
    const weights = join(first, "model.safetensors");
    const bytes = readFileSync(weights);
    const changed = Buffer.from(bytes);
    changed[changed.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    writeFileSync(weights, changed);
    await expect(trainRun({ run, folder: root, resume: true })).rejects.toThrow(/mask .* has changed since/);
    writeFileSync(weights, bytes);
    const { last } = await trainRun({ run, folder: root, resume: true });
    expect(farthest(await floatsOf(last), whole)).toBe(0);
  });

  it("is refused where the first run is of the base itself, or another model", async () => {
    await expect(go({ ...fields, mask: { from: "base" } })).rejects.toThrow(
      "mask.from: it does not differ from the base in what is trained",
    );
    await expect(go({ ...fields, mask: { from: "base", share: 1e-9 } })).rejects.toThrow(/keeps none/);
    expect(() => runOf({ ...fields, method: "lora", mask: { from: "base" } })).toThrow(
      /mask: cannot be used with method: lora/,
    );
  });
});

describe("LoRA", () => {
  const fields: Fields = {
    ...{ method: "lora", train: "q_proj and o_proj and down_proj of layers 1", batch: 16, steps: 12 },
    lora: { rank: 4, alpha: 8, rank_stabilised: true, merge: true, dropout: 0.1 },
    optimizer: { lr: 1e-2 },
  };

  it("resumes with the date of its start, which its template writes", async () => {
    cpSync(join(root, "base"), join(root, "dated"), { recursive: true });
    writeFileSync(
      join(root, "dated", "chat_template.jinja"),
      "{% if strftime_now('%m') == '01' %}{{ messages[0].content }}{% endif %}{% for m in messages %} {{ m.content }}{% endfor %}",
    );
    const run = runOf({ base: "dated", sequence_length: 32, batch: 8, samples: 16 });
    const [first, later] = [new Date(2026, 0, 31), new Date(2026, 2, 1)];
    const seen: (string | undefined)[] = [];
    const onReady = ({ streams }: PreparedRun) => seen.push(streams[0]?.data.train.digest);
    await trainRun({ run, folder: root, started: first, onReady });
    await trainRun({ run, folder: root, started: later, onReady, resume: true });
    await trainRun({ run, folder: root, started: later, onReady, force: true });
    expect(seen[1]).toBe(seen[0]);
    expect(seen[2]).not.toBe(seen[0]);
  });

  it("does not resume on a base with other weights", async () => {
    cpSync(join(root, "base"), join(root, "edited"), { recursive: true });
    const run = runOf({ base: "edited", sequence_length: 32, batch: 8, samples: 16 });
    await trainRun({ run, folder: root });
    const weights = join(root, "edited", "model.safetensors");
    const bytes = readFileSync(weights);
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
    writeFileSync(weights, bytes);
    await expect(trainRun({ run, folder: root, resume: true })).rejects.toThrow(/base edited has changed since/);
  });

  it("writes an adapter that opens on its base, and the base with it folded in", async () => {
    const { last, merged } = await go(fields);
    const config = JSON.parse(readFileSync(join(last, "adapter_config.json"), "utf8")) as Record<string, unknown>;
    expect(config).toMatchObject({ r: 4, lora_alpha: 8, use_rslora: true, layers_to_transform: [1] });
    expect(config.base_model_name_or_path).toBe(join(root, "base"));
    const [base, factors, folded] = await Promise.all([
      floatsOf(join(root, "base")),
      floatsOf(last, "adapter_model.safetensors"),
      floatsOf(merged ?? ""),
    ]);
    expect([...factors.keys()]).toHaveLength(6);
    const wanted = new Map(base);
    for (const module of ["self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj"]) {
      const of = (part: string) =>
        factors.get(`base_model.model.model.layers.1.${module}.lora_${part}.weight`) ?? new Float32Array();
      const [a, b, name] = [of("A"), of("B"), `model.layers.1.${module}.weight`];
      expect(b.some((value) => Math.abs(value) > 1e-3)).toBe(true);
      const weights = Float64Array.from(base.get(name) ?? []);
      const [wide, high] = [a.length / 4, b.length / 4];
      for (let i = 0; i < high; i++)
        for (let j = 0; j < wide; j++)
          for (let r = 0; r < 4; r++)
            weights[i * wide + j] = (weights[i * wide + j] ?? 0) + 4 * (b[i * 4 + r] ?? 0) * (a[r * wide + j] ?? 0);
      wanted.set(name, Float32Array.from(weights));
    }
    expect(farthest(folded, wanted)).toBeLessThan(1e-6);
    const asked = items(20, 7);
    expect(await answersOf(merged ?? "", asked)).toEqual(await answersOf(`${join(root, "base")}+${last}`, asked));

    // An adapted base is trained on as it is with the adapter, and its own is folded in before more factors are.
    const both = `${join(root, "base")}+${last}`;
    out += "-more";
    const more = await go({ base: both, train: "norms", steps: 1, optimizer: { lr: 1e-3 } });
    const trained = await floatsOf(more.last);
    expect(
      farthest(
        new Map([...trained].filter(([name]) => !name.includes("norm"))),
        new Map([...wanted].filter(([name]) => !name.includes("norm"))),
      ),
    ).toBeLessThan(1e-6);
    expect(trained.get("model.norm.weight")).not.toEqual(base.get("model.norm.weight"));
    out += "-refused";
    await expect(go({ ...fields, base: both })).rejects.toThrow(/lora\.merge needs a base without an adapter/);
  });
});

describe("the same step", () => {
  // Six sequences, of which every variant makes one step.
  const few = () => ({ source: "few.jsonl", map });
  const weightsOf = async (fields: Fields) => {
    out += "-";
    const result = await go({ steps: 1, optimizer: { lr: 1e-2, clip: 0.5 }, data: few(), ...fields });
    return { loss: result.loss ?? 0, tokens: result.tokens, weights: await floatsOf(result.last) };
  };

  it("comes of sequences that are padded, packed, or of which some go first", async () => {
    writeItems(join(root, "few.jsonl"), items(6));
    const padded = await weightsOf({ batch: 6 });
    const variants: Fields[] = [
      { batch: 1, packing: true, sequence_length: 100 },
      { batch: 2, packing: true, sequence_length: 64 },
      { batch: 2, accumulation: 3 },
      { batch: 1, accumulation: 6 },
    ];
    for (const variant of variants) {
      const other = await weightsOf(variant);
      expect(other.tokens).toBe(padded.tokens);
      expect(Math.abs(other.loss - padded.loss)).toBeLessThan(1e-5);
      expect(farthest(other.weights, padded.weights)).toBeLessThan(1e-4);
    }
    const base = await floatsOf(join(root, "base"));
    expect(farthest(padded.weights, base)).toBeGreaterThan(5e-3);
    // What is learned of the prompts, too, is another step.
    expect(Math.abs((await weightsOf({ batch: 6, loss_on: "all" })).loss - padded.loss)).toBeGreaterThan(1e-3);
  });
});

describe("a partition", () => {
  it("takes its streams in turn, each for its own part, as long as the longest lasts", async () => {
    writeItems(join(root, "small.jsonl"), items(16, 3));
    writeItems(join(root, "large.jsonl"), items(40, 4));
    const fields: Fields = {
      partition: [
        { name: "outer", train: "layers 0 and embeddings", data: { source: "small.jsonl", map } },
        { name: "inner", train: "mlp of layers 1", data: { source: "large.jsonl", map } },
      ],
      ...{ batch: 8, data: undefined },
    };
    const result = await go(fields);
    // Five steps of eight for the longer stream, and as many for the other.
    expect(result.steps).toBe(10);
    expect(logOf(result).map(({ stream }) => stream)).toEqual(
      Array.from({ length: 5 }, () => ["outer", "inner"]).flat(),
    );
    expect(Object.keys(result.counts)).toEqual(["outer", "inner"]);
    const [base, trained] = await Promise.all([floatsOf(join(root, "base")), floatsOf(result.last)]);
    for (const [name, values] of base) {
      const learns = /embed_tokens|layers\.0\.|layers\.1\.(mlp|post_attention)/.test(name);
      expect(Buffer.from(values.buffer).equals(Buffer.from(trained.get(name)?.buffer as ArrayBuffer)), name).toBe(
        !learns,
      );
    }
  });
});

it("leaves constants of a model as they are, as transformers does", async () => {
  cpSync(join(import.meta.dirname, "../../test/fixtures/decoders/gemma4"), join(root, "gemma4"), { recursive: true });
  for (const name of ["tokenizer.json", "tokenizer_config.json"]) {
    cpSync(join(root, "base", name), join(root, "gemma4", name));
  }
  writeItems(join(root, "short.jsonl"), [{ prompt: "say that amina >", response: "yes , amina" }]);
  const data = { source: "short.jsonl", map };
  const { trained, notes } = await prepared({ base: "gemma4", data, train: "all" }, (run) => run);
  expect(trained.has("model.embed_tokens_per_layer.weight")).toBe(true);
  expect([...trained].filter((name) => name.endsWith("layer_scalar"))).toEqual([]);
  expect(notes).toContain("not trained: 4 tensors of train, as they are constants");
});

describe("data", () => {
  it("is counted: what is empty, held out, cut, twice there", async () => {
    const rows = [
      ...items(20),
      { prompt: "say that >", response: "" },
      { prompt: "", response: " yes ." },
      items(1)[0],
    ];
    writeItems(join(root, "mixed.jsonl"), rows as Item[]);
    const data = { sets: [{ source: "mixed.jsonl", map }], deduplicate: true };
    await prepared({ data, holdout: { samples: 4 }, sequence_length: 14 }, ({ streams, settings, notes }) => {
      const [counts] = streams[0]?.counts ?? [];
      expect(counts).toMatchObject({ rows: 23, emptyRows: 2, duplicates: 1, kept: 20, heldOut: 4 });
      expect(counts?.cut).toBeGreaterThan(3);
      expect(settings.steps).toBe(2);
      expect(notes).toEqual([]);
    });
  });

  it("must have the columns that are named, and tokens that the model knows", async () => {
    const other = { source: "data.jsonl", map: { prompt: "{question}", response: "{response}" } };
    await expect(prepared({ data: other }, () => 0)).rejects.toThrow(/question.*prompt, response/s);
    await expect(prepared({ data: { source: "nowhere.jsonl", map } }, () => 0)).rejects.toThrow(/nowhere\.jsonl/);
    // A tokenizer with a word more than the model has embeddings.
    const folder = join(root, "wordy");
    cpSync(join(root, "base"), folder, { recursive: true });
    const path = join(folder, "tokenizer.json");
    const tokenizer = readFileSync(path, "utf8").replace('"amina"', `"quagga": ${WORDS.length},\n"amina"`);
    writeFileSync(path, tokenizer);
    writeItems(join(root, "wordy.jsonl"), [...items(3), { prompt: "say quagga >", response: "yes" }]);
    expect(await prepared({ base: "wordy" }, ({ streams }) => streams.length)).toBe(1);
    await expect(prepared({ base: "wordy", data: { source: "wordy.jsonl", map } }, () => 0)).rejects.toThrow(
      new RegExp(
        `has the token ${WORDS.length} \\("quagga"\\), but the model has embeddings for 0 to ${WORDS.length - 1}`,
      ),
    );
  });

  it("is named by a loss that is not a number", async () => {
    const folder = join(root, "broken");
    cpSync(join(root, "base"), folder, { recursive: true });
    const path = join(folder, "model.safetensors");
    const table = (await openSafetensors(path)).tensors.find(({ name }) => name === "model.embed_tokens.weight");
    const bytes = readFileSync(path);
    bytes.writeFloatLE(Number.NaN, (table?.offset ?? 0) + 4 * 64 * WORDS.indexOf("mango"));
    writeFileSync(path, bytes);
    const [odd] = items(900).filter(({ prompt }) => prompt.includes("mango"));
    const plain = items(900).filter(({ prompt }) => !prompt.includes("mango"));
    writeItems(join(root, "odd.jsonl"), [...plain.slice(0, 7), odd as Item]);
    await expect(go({ base: "broken", batch: 1, data: { source: "odd.jsonl", map } })).rejects.toThrow(
      new RegExp(`^at step \\d the loss is NaN, in batch \\d of data \\("${odd?.prompt} .*"\\); the step was not made`),
    );
  });
});

describe("mixtures of experts", () => {
  const data = { source: "letters.jsonl", map: { prompt: "{prompt}", response: "{response}" }, eos: false };
  beforeAll(() => {
    cpSync(join(import.meta.dirname, "../../test/fixtures/decoders/glm4_moe"), join(root, "mixture"), {
      recursive: true,
    });
    writeTinyTokenizer(join(root, "mixture"));
    const rows = Array.from({ length: 8 }, () => JSON.stringify({ prompt: "abc", response: "def" }));
    writeFileSync(join(root, "letters.jsonl"), rows.join("\n"));
  });

  it("LoRA leaves routers out, with a note, and merges what it trains of experts", async () => {
    const run = { base: "mixture", data, method: "lora", train: "layers", sequence_length: 8 } as const;
    await prepared(run, ({ lora, notes }) => {
      const names = lora?.modules.flatMap(({ tensors }) => tensors) ?? [];
      expect(names.filter((name) => name.includes(".experts."))).toHaveLength(18);
      expect(names).toContain("model.layers.1.mlp.shared_experts.up_proj.weight");
      expect(notes).toContain(
        "not trained: 2 tensors of train, as PEFT has no factors for routers and out_proj of Mamba",
      );
    });
    const { merged, last } = await go({ ...run, steps: 2, optimizer: { lr: 1e-2 }, lora: { rank: 2, merge: true } });
    const [before, after] = [await floatsOf(join(root, "mixture")), await floatsOf(merged ?? "")];
    const factors = await floatsOf(last, "adapter_model.safetensors");
    // Of PEFT's A [6 experts x 2, 8] and B [gate and up of 4, 2 x 6 experts].
    const [a, b] = ["A", "B"].map((side) =>
      factors.get(`base_model.model.model.layers.1.mlp.experts.base_layer.lora_${side}.weight`),
    ) as [Float32Array, Float32Array];
    const [expert, scale] = [3, 16 / Math.sqrt(2)];
    const wanted = before.get(`model.layers.1.mlp.experts.${expert}.up_proj.weight`)?.map((weight, at) => {
      const [row, column] = [4 + Math.floor(at / 8), at % 8];
      const product = (rank: number) =>
        (b[row * 12 + rank * 6 + expert] ?? 0) * (a[(expert * 2 + rank) * 8 + column] ?? 0);
      return weight + scale * (product(0) + product(1));
    });
    const found = after.get(`model.layers.1.mlp.experts.${expert}.up_proj.weight`);
    expect(found).not.toEqual(before.get(`model.layers.1.mlp.experts.${expert}.up_proj.weight`));
    for (const [at, value] of wanted?.entries() ?? []) expect(found?.[at]).toBeCloseTo(value, 5);
  });

  it("full training leaves out what only corrects the choice of experts", async () => {
    const run = { base: "mixture", data, method: "full", train: "layers", sequence_length: 8 } as const;
    await prepared(run, ({ trained, notes }) => {
      expect(trained).toContain("model.layers.1.mlp.experts.0.up_proj.weight");
      expect(trained).toContain("model.layers.1.mlp.gate.weight");
      expect(trained).not.toContain("model.layers.1.mlp.gate.e_score_correction_bias");
      expect(notes).toContain("not trained: 1 tensor of train, as they are constants");
    });
    const result = await go({ ...run, steps: 1, optimizer: { lr: 1e-3 } });
    expect(logOf(result).every(({ loss = 0 }) => Number.isFinite(loss))).toBe(true);
  });
});
