// Rows of new tokens as mergekit-tokensurgeon 0.1.5 makes them: fixtures/mergekit/transplants.json has its results, which
// fixtures/mergekit/make_transplants.py made of the models that LAYERGRAFT_MERGEKIT_MODELS=FOLDER keeps.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import type { TensorData } from "../src/formats/safetensors/index.js";
import { encodeValues, type ReadTensor, seededFloats, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, layergraft } from "./support/command.js";
import { readFolder, toNumbers } from "./support/numbers.js";

const FIXTURE = join(import.meta.dirname, "fixtures/mergekit/transplants.json");
/** By name: flags of both programs, and for each tensor the sums of the elements of each row times 1, 2, .... */
const references = JSON.parse(readFileSync(FIXTURE, "utf8")) as Record<
  string,
  { flags: string[]; rows: Record<string, number[]> }
>;

const root = process.env.LAYERGRAFT_MERGEKIT_MODELS ?? temporaryFolder();
const LETTERS = [..."abcdefghijklmnopqrstuvwxyz"];

/** A byte-level tokenizer of the letters and of merges, each written as the two tokens that it joins. */
function writeTokenizer(folder: string, merges: readonly string[], special: readonly string[]): void {
  const pairs = merges.map((merge) => merge.split("|"));
  const tokens = [...special, "Ġ", ...LETTERS, ...pairs.map((pair) => pair.join(""))];
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  writeFileSync(
    join(folder, "tokenizer.json"),
    JSON.stringify({
      version: "1.0",
      added_tokens: special.map((content, id) => ({ id, content, ...plain })),
      pre_tokenizer: byteLevel,
      decoder: byteLevel,
      model: { type: "BPE", vocab, merges: pairs },
    }),
  );
  const settings = { tokenizer_class: "PreTrainedTokenizerFast", bos_token: special[0], eos_token: special[1] };
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(settings));
}

const widened = (rows: number, columns: number, seed: number) => (tensors: TensorData[]) =>
  tensors.map((tensor, i) => {
    if (!/embed|lm_head/.test(tensor.name)) return tensor;
    const values = seededFloats(rows * columns, seed + i).map((x, at) => x * (1 + (at % 7) / 4));
    return { ...tensor, shape: [rows, columns], data: encodeValues(values, "F32") };
  });

beforeAll(async () => {
  const common = ["t|h", "th|e", "i|n", "in|g", "Ġ|the", "a|n", "an|d"];
  const models = {
    own: {
      merges: [...common, "o|n", "e|r", "Ġ|a"],
      special: ["<s>", "</s>", "<reserved_special_token_1>"],
      unused: 3,
    },
    tied: { merges: [...common, "o|n", "e|r", "Ġ|a"], special: ["<s>", "</s>"], unused: 0 },
    donor: {
      merges: [...common, "Ġthe|r", "Ġ|and", "s|t", "st|and", "r|e", "re|ading", "l|l", "e|ll", "Ġ|ing"].filter(
        (one) => one !== "re|ading",
      ),
      special: ["<|begin|>", "<|end|>", "<reserved_special_token_9>", "<|turn|>"],
      unused: 0,
    },
    // Three tokens of each have no row.
    beyond: { merges: [...common, "o|n", "e|r", "r|e"], special: ["<|begin|>", "<|end|>"], unused: -3 },
    short: { merges: [...common, "o|n", "Ġ|a", "e|r"], special: ["<s>", "</s>"], unused: -3 },
  };
  for (const [i, [name, { merges, special, unused }]] of Object.entries(models).entries()) {
    const rows = special.length + 1 + LETTERS.length + merges.length + unused;
    const edit = widened(rows, 8, 40 + 100 * i);
    await writeTiny(join(root, name), { dtype: "F32", layers: 2, vocabulary: rows, tied: name === "tied", edit });
    writeTokenizer(join(root, name), merges, special);
  }
});

it("are 17", () => {
  expect(Object.keys(references)).toHaveLength(17);
});

it.each(Object.entries(references))("%s", async (name, { flags, rows }) => {
  const task = ["tied", "short"].find((one) => name.startsWith(one)) ?? "own";
  const donor = name.includes("beyond") ? "beyond" : "donor";
  const args = ["transplant", task, "--tokenizer", donor, "--out", `to-${name}`, "--force", ...flags];
  const { status, stderr } = await layergraft(args, { cwd: root });
  expect({ status, error: stderr.match(/^error: .*/s)?.[0] }).toEqual({ status: DONE });
  const tensors = await readFolder(join(root, `to-${name}`));
  expect([...tensors.keys()].filter((tensor) => /embed|lm_head/.test(tensor)).sort()).toEqual(Object.keys(rows).sort());
  for (const [tensor, expected] of Object.entries(rows)) {
    const values = toNumbers(tensors.get(tensor) as ReadTensor);
    const sums = expected.map((_, row) =>
      values.slice(8 * row, 8 * row + 8).reduce((sum, x, d) => sum + x * (d + 1), 0),
    );
    expect(values).toHaveLength(8 * expected.length);
    const far = expected.flatMap((sum, row) =>
      Math.abs((sums[row] as number) - sum) > 1e-3 ? [[row, sums[row], sum]] : [],
    );
    expect({ tensor, far }).toEqual({ tensor, far: [] });
  }
});
