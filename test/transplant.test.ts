// Transplanted tokenizers: rows of shared tokens as they were, others by a float64 reference of orthogonal matching pursuit.
// @module-tag slow
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { TensorData } from "../src/formats/safetensors/index.js";
import { planRecipe, type RecipeInput } from "../src/merge/index.js";
import { executePlan, verifyOutput } from "../src/merge/output/index.js";
import {
  decodeValues,
  encodeValues,
  readJson,
  seededFloats,
  temporaryFolder,
  writeTiny,
} from "./support/checkpoints.js";
import { expectRefused, layergraft, WRONG_USAGE } from "./support/command.js";
import { readFolder } from "./support/numbers.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const [OWN, DONOR] = [40, 70];
const WIDTH = 24;

/** Tokens by row: the model's in SentencePiece's form, the donor's in byte-level form and another order. */
const words = Array.from({ length: 30 }, (_, i) => `w${i}é`);
const own = ["<s>", "</s>", "<0x0A>", ...words.map((word) => `▁${word}`)];
const bytes = (text: string) =>
  [...Buffer.from(text, "latin1")]
    .map((byte) =>
      byte === 0xc3 ? "Ã" : byte === 0xa9 ? "©" : byte === 32 ? "Ġ" : byte === 10 ? "Ċ" : String.fromCharCode(byte),
    )
    .join("");
const theirs = [
  ...Array.from({ length: 30 }, (_, i) => `new${i}`),
  ...["Ċ", "Ġ"],
  ...words.toReversed().map((word) => bytes(Buffer.from(` ${word}`).toString("latin1"))),
  ...["<|begin|>", "<|end|>"],
];

function writeTokenizer(folder: string, tokens: readonly string[], bos: string, eos: string): void {
  const special = [bos, eos];
  const added_tokens = special.map((content) => ({ id: tokens.indexOf(content), content, special: true }));
  const vocab = Object.fromEntries(tokens.flatMap((token, i) => (special.includes(token) ? [] : [[token, i]])));
  writeFileSync(
    join(folder, "tokenizer.json"),
    JSON.stringify({ model: { type: "BPE", vocab, merges: [] }, added_tokens }),
  );
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ bos_token: bos, eos_token: { content: eos } }));
}

/** Embedding and head of another size, the rest as the tiny model has it. */
const widened = (rows: number, columns: number, seed: number) => (tensors: TensorData[]) =>
  tensors.map((tensor, i) => {
    if (!/embed|lm_head/.test(tensor.name)) return tensor;
    const values = seededFloats(rows * columns, seed + i);
    return { ...tensor, shape: [rows, columns], data: encodeValues(values, tensor.dtype as "F32") };
  });

beforeAll(async () => {
  for (const tied of [false, true]) {
    const name = tied ? "tied" : "model";
    await writeTiny(at(name), {
      dtype: "F32",
      tied,
      vocabulary: OWN,
      edit: widened(OWN, 8, 900),
      config: { eos_token_id: 1 },
    });
    writeTokenizer(at(name), own, "<s>", "</s>");
  }
  const donor = { dtype: "BF16", vocabulary: DONOR, layers: 2, edit: widened(DONOR, WIDTH, 77) } as const;
  await writeTiny(at("donor"), { ...donor, config: { eos_token_id: 63, bos_token_id: 62 } });
  writeTokenizer(at("donor"), theirs, "<|begin|>", "<|end|>");
});

let count = 0;
async function make(recipe: Partial<Extract<RecipeInput, { method: "transplant" }>> = {}, threads?: number) {
  const out = at(`out-${++count}`);
  const whole = { method: "transplant", task: "model", tokenizer: "donor", ...recipe } as RecipeInput;
  await executePlan(await planRecipe(whole, { folder: root }), { out, threads });
  expect((await verifyOutput(out)).deviations).toEqual([]);
  return { out, tensors: await readFolder(out) };
}

async function matrix(folder: string, name: string): Promise<number[][]> {
  const tensor = (await readFolder(folder)).get(name);
  const [rows = 0, columns = 0] = tensor?.shape ?? [];
  const values = decodeValues(tensor?.data ?? new Uint8Array(), tensor?.dtype as "F32");
  return Array.from({ length: rows }, (_, i) => values.slice(i * columns, (i + 1) * columns));
}

/** Rows of the model by donor row, for shared tokens. */
const shared = new Map<number, number>([
  [30, 2],
  [62, 0],
  [63, 1],
  ...words.map((_, i): [number, number] => [32 + 29 - i, 3 + i]),
]);

const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, x, i) => sum + x * (b[i] as number), 0);

/** Coefficients of least squares, by the normal equations and Gauss elimination with pivots. */
function leastSquares(columns: readonly (readonly number[])[], target: readonly number[]): number[] {
  const system = columns.map((a) => [...columns.map((b) => dot(a, b)), dot(a, target)]);
  const n = columns.length;
  for (let i = 0; i < n; i++) {
    const pivot = system
      .slice(i)
      .reduce(
        (best, line, j) => (Math.abs(line[i] as number) > Math.abs(system[best]?.[i] as number) ? i + j : best),
        i,
      );
    [system[i], system[pivot]] = [system[pivot] as number[], system[i] as number[]];
    for (let r = 0; r < n; r++) {
      if (r === i) continue;
      const factor = (system[r]?.[i] as number) / (system[i]?.[i] as number);
      system[r] = (system[r] as number[]).map((x, c) => x - factor * (system[i]?.[c] as number));
    }
  }
  return system.map((line, i) => (line[n] as number) / (line[i] as number));
}

/** Orthogonal matching pursuit as the paper states it: the atom with the largest product, then least squares again. */
function reference(target: readonly number[], atoms: readonly (readonly number[])[], k: number) {
  const chosen: number[] = [];
  let coefficients: number[] = [];
  let residual = [...target];
  while (chosen.length < Math.min(k, atoms.length, target.length)) {
    const sizes = atoms.map((atom, i) => (chosen.includes(i) ? -1 : Math.abs(dot(atom, residual))));
    chosen.push(sizes.indexOf(Math.max(...sizes)));
    coefficients = leastSquares(
      chosen.map((i) => atoms[i] as number[]),
      target,
    );
    residual = target.map(
      (x, d) => x - chosen.reduce((sum, i, j) => sum + (coefficients[j] as number) * (atoms[i]?.[d] as number), 0),
    );
  }
  return { chosen, coefficients };
}

describe("a transplanted tokenizer", () => {
  it.each([
    ["model", 5, ["model.embed_tokens.weight", "lm_head.weight"]],
    ["model", 64, ["model.embed_tokens.weight", "lm_head.weight"]],
    ["tied", 12, ["model.embed_tokens.weight"]],
  ] as const)("keeps rows of shared tokens of %s, and makes others of at most %i", async (task, k, names) => {
    const { out, tensors } = await make({ task, k });
    const donorAtoms = [...shared.keys()].sort((a, b) => a - b);
    for (const name of names) {
      const [before, after, donor] = [
        await matrix(at(task), name),
        await matrix(out, name),
        await matrix(at("donor"), name),
      ];
      expect(after).toHaveLength(DONOR);
      for (const [row, from] of shared) expect(after[row]).toEqual(before[from]);
      const atoms = donorAtoms.map((row) => donor[row] as number[]);
      for (let row = 0; row < DONOR; row++) {
        if (shared.has(row)) continue;
        const { chosen, coefficients } = reference(donor[row] as number[], atoms, k);
        const wanted = Array.from({ length: 8 }, (_, d) =>
          chosen.reduce(
            (sum, i, j) =>
              sum +
              (coefficients[j] as number) * (before[shared.get(donorAtoms[i] as number) as number]?.[d] as number),
            0,
          ),
        );
        for (const [d, x] of wanted.entries())
          expect(Math.abs((after[row]?.[d] as number) - x)).toBeLessThan(1e-4 * (1 + Math.abs(x)));
      }
    }
    const whole = await readFolder(at(task));
    for (const [name, { data }] of whole)
      if (!/embed|lm_head/.test(name)) expect(tensors.get(name)?.data).toEqual(data);
    expect([...tensors.keys()].sort()).toEqual([...whole.keys()].sort());
    expect(readJson(out, "config.json")).toMatchObject({
      vocab_size: DONOR,
      eos_token_id: 63,
      bos_token_id: 62,
      num_hidden_layers: 4,
    });
    expect(readFileSync(join(out, "tokenizer.json"))).toEqual(readFileSync(at("donor", "tokenizer.json")));
  });

  it("has the same bytes with any number of threads", async () => {
    const bytesOf = (folder: string) => readFileSync(join(folder, "model.safetensors"));
    const [one, three] = [await make({}, 1), await make({}, 3)];
    expect(bytesOf(one.out).equals(bytesOf(three.out))).toBe(true);
  });

  it("lets experts with different tokenizers be merged", async () => {
    await writeTiny(at("other"), { dtype: "F32", seed: 5, vocabulary: DONOR });
    writeTokenizer(at("other"), theirs, "<|begin|>", "<|end|>");
    const moved = { method: "transplant", task: "model", tokenizer: "donor" };
    const soup = { method: "soup", models: ["other", moved] } as RecipeInput;
    await executePlan(await planRecipe(soup, { folder: root }), { out: at("soup") });
    expect((await verifyOutput(at("soup"))).deviations).toEqual([]);
    const name = "model.embed_tokens.weight";
    const [a, b, mean] = [
      await matrix(at("other"), name),
      await matrix((await make()).out, name),
      await matrix(at("soup"), name),
    ];
    for (const [i, line] of mean.entries()) {
      for (const [d, x] of line.entries())
        expect(x).toBeCloseTo(((a[i]?.[d] as number) + (b[i]?.[d] as number)) / 2, 5);
    }
  });
});

describe("layergraft transplant", () => {
  it("writes the model and says how many rows are approximated", async () => {
    const outcome = await layergraft(["transplant", "model", "--tokenizer", "donor", "--k", "4", "--out", "cli"], {
      cwd: root,
    });
    expect(outcome).toMatchObject({ status: 0 });
    expect(outcome.stderr).toMatch(/task: 33 rows of tokens that both have, 37 rows approximated by up to 4 of these/);
    expect(readFileSync(at("cli", "README.md"), "utf8")).toMatch(/model, of 4 layers, with the tokenizer of donor/);
  });

  it("refuses what has no tokens or rows in common", async () => {
    await writeTiny(at("foreign"), { vocabulary: 4 });
    writeTokenizer(at("foreign"), ["x", "y", "bos", "eos"], "bos", "eos");
    writeFileSync(at("foreign", "tokenizer_config.json"), "{}");
    const args = ["transplant", "model", "--dry-run", "--tokenizer"];
    await expectRefused([...args, "foreign"], root, 1, /no token in common/);
    const aligned = { method: "soup", models: ["model", { method: "transplant", task: "model", tokenizer: "donor" }] };
    const recipe = { ...aligned, vocabulary: "models[0]" } as RecipeInput;
    await expect(planRecipe(recipe, { folder: root })).rejects.toThrow(/cannot exchange rows/);
    await writeTiny(at("bare"));
    await expectRefused([...args, "bare"], root, 1, /the donor \(bare\) has no tokenizer\.json with a vocabulary/);
    await expectRefused(
      ["transplant", "model", "--tokenizer", "donor", "--k", "0", "--dry-run"],
      root,
      WRONG_USAGE,
      /k/,
    );
  });
});
