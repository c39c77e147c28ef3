// Files as model cards show them, run as mergekit 0.1.5 runs them: fixtures/mergekit/references.json has its results, which
// fixtures/mergekit/make_references.py made of the models that LAYERGRAFT_MERGEKIT_MODELS=FOLDER keeps.
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { writeSharded } from "../src/formats/safetensors/index.js";
import { type ReadTensor, readJson, seededTensor, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, layergraft, WRONG_USAGE } from "./support/command.js";
import { readFolder, toNumbers } from "./support/numbers.js";

const FIXTURES = join(import.meta.dirname, "fixtures/mergekit");
const files = readdirSync(join(FIXTURES, "files")).map((file) => basename(file, ".yml"));
const textOf = (name: string) => readFileSync(join(FIXTURES, "files", `${name}.yml`), "utf8");
/**
 * By file: of each tensor, in the order of `names` by how many there are, the sum of its elements x_k times cos(k). Only how
 * many there are where they are random.
 */
const { names, ...references } = readJson(FIXTURES, "references.json") as Record<string, number | number[]> & {
  names: Record<string, string[]>;
};

const root = process.env.LAYERGRAFT_MERGEKIT_MODELS ?? temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const WORDS = Array.from({ length: 24 }, (_, i) => (i < 2 ? ["<s>", "</s>"][i] : `w${i}`) as string);

beforeAll(async () => {
  for (const [i, name] of ["base", "a", "b", "c", "tied-a", "tied-b", "reversed"].entries()) {
    await writeTiny(at(name), { seed: i + 1, dtype: "F32", tied: name.startsWith("tied") });
    const words = name === "reversed" ? [...WORDS.slice(0, 2), ...WORDS.slice(2).reverse()] : WORDS;
    const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
    const added = [0, 1].map((id) => ({ id, content: words[id], ...plain }));
    const vocab = Object.fromEntries(words.map((word, id) => [word, id]));
    const model = { type: "WordLevel", vocab, unk_token: "w2" };
    writeFileSync(at(name, "tokenizer.json"), JSON.stringify({ version: "1.0", added_tokens: added, model }));
    const settings = { tokenizer_class: "PreTrainedTokenizerFast", bos_token: "<s>", eos_token: "</s>" };
    writeFileSync(at(name, "tokenizer_config.json"), JSON.stringify(settings));
  }
  cpSync(at("a"), at("G:/7B/expert-a"), { recursive: true });
  cpSync(at("b"), at("E:\\models\\expert-b"), { recursive: true });
  for (const [i, modules] of [["q_proj", "v_proj", "down_proj"], ["o_proj"]].entries()) {
    const folder = at(`lora-${i + 1}`);
    const sizes: Record<string, [number, number]> = {
      q_proj: [8, 8],
      v_proj: [4, 8],
      o_proj: [8, 8],
      down_proj: [8, 12],
    };
    const tensors = [0, 1, 2, 3].flatMap((layer) =>
      modules.flatMap((module, k) => {
        const block = module === "down_proj" ? "mlp" : "self_attn";
        const name = `base_model.model.model.layers.${layer}.${block}.${module}`;
        const [rows, columns] = sizes[module] as [number, number];
        const seed = 300 + 100 * i + 10 * layer + 2 * k;
        return [
          seededTensor(`${name}.lora_A.weight`, [2, columns], seed, "F32"),
          seededTensor(`${name}.lora_B.weight`, [rows, 2], seed + 1, "F32"),
        ];
      }),
    );
    mkdirSync(folder, { recursive: true });
    await writeSharded(folder, tensors);
    renameSync(join(folder, "model.safetensors"), join(folder, "adapter_model.safetensors"));
    const config = { peft_type: "LORA", task_type: "CAUSAL_LM", r: 2, lora_alpha: 4, target_modules: modules };
    writeFileSync(join(folder, "adapter_config.json"), JSON.stringify({ ...config, base_model_name_or_path: "a" }));
  }
});

it("are 46", () => {
  expect(files).toHaveLength(46);
  expect(Object.keys(references).sort()).toEqual(files.toSorted());
});

it.each(files)("%s", async (name) => {
  // As written, then in float32, as mergekit's results are rounded by each step otherwise.
  const text = textOf(name);
  const file = `${name}.yml`;
  const run = async (out: string, ...flags: string[]) =>
    layergraft(["merge", file, out, "--force", ...flags], { cwd: root });
  writeFileSync(at(file), text);
  const strict = await run(`${name}-strict`);
  const isStrict = text.startsWith("# strict: ");
  expect({
    status: strict.status,
    problem: /^ {2}- line \d+: .*; in mergekit it is ignored$|\? in mergekit it is ignored$/m.test(strict.stderr),
  }).toEqual({
    status: isStrict ? WRONG_USAGE : DONE,
    problem: isStrict,
  });
  writeFileSync(at(file), text.replace(/^((?:out_)?dtype: (?:&type )?).*$/gm, "$1float32"));
  const { status, stderr } = await run(name, "--as-mergekit");
  expect({ status, error: stderr.match(/^error: .*/s)?.[0] }).toEqual({ status: DONE });
  if (isStrict) expect(stderr).toMatch(/^note: .* is ignored, as in mergekit: /m);
  const tensors = await readFolder(at(name));
  const reference = references[name] ?? [];
  const expected = typeof reference === "number" ? [] : reference;
  const own = names[typeof reference === "number" ? reference : reference.length] ?? [];
  expect([...tensors.keys()].sort()).toEqual(own);
  const sums = own.map((tensor) =>
    toNumbers(tensors.get(tensor) as ReadTensor).reduce((sum, x, k) => sum + x * Math.cos(k), 0),
  );
  const far = expected.flatMap((sum, i) =>
    Math.abs((sums[i] ?? Number.NaN) - sum) > 2e-5 ? [[own[i], sums[i], sum]] : [],
  );
  expect(far).toEqual([]);
});
