// layergraft neurons against the steps of the paper in PyTorch, and what it refuses.
import { cpSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { openSafetensors, readTensor, writeSharded } from "../src/formats/safetensors/index.js";
import { findLanguageNeurons } from "../src/merge/analysis/index.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { expectRefused, FAILED, layergraft, WRONG_USAGE } from "./support/command.js";

const FIXTURES = join(import.meta.dirname, "fixtures/lape");
const WANTED: {
  readonly threshold: number;
  readonly chosen: readonly { layer: number; neuron: number; entropy: number; languages: number[] }[];
} = JSON.parse(readFileSync(join(FIXTURES, "chosen.json"), "utf8"));
const LANGUAGES = ["en", "es", "sw"];
const root = temporaryFolder();
const flags = LANGUAGES.flatMap((name) => ["--language", `${name}=${name}`]);

beforeAll(async () => {
  await writeTiny(join(root, "model"), { layers: 3 });
  const file = await openSafetensors(join(FIXTURES, "probabilities.safetensors"));
  for (const [k, language] of LANGUAGES.entries()) {
    const folder = join(root, language);
    cpSync(join(root, "model/config.json"), join(folder, "config.json"));
    const tensors = file.tensors
      .filter(({ name }) => name.startsWith(`${k}.`))
      .map((tensor) => ({
        name: `model.layers.${tensor.name.slice(2)}.mlp.gate_proj.weight`,
        dtype: "F32" as const,
        shape: tensor.shape,
        data: readTensor(file, tensor),
      }));
    await writeSharded(folder, tensors.toReversed(), { metadata: { statistics: "activations" } });
  }
});

it("chooses the neurons that PyTorch chooses, with their entropy and languages", async () => {
  const found = await findLanguageNeurons(Object.fromEntries(LANGUAGES.map((name) => [name, join(root, name)])), {
    share: 0.05,
  });
  expect(found).toMatchObject({ languages: LANGUAGES, layers: 3, neurons: 600, threshold: WANTED.threshold });
  expect(found.chosen).toHaveLength(30);
  for (const [i, { layer, neuron, entropy, languages }] of WANTED.chosen.entries()) {
    expect(found.chosen[i]).toMatchObject({ layer, neuron, languages: languages.map((k) => LANGUAGES[k]) });
    expect(found.chosen[i]?.entropy).toBeCloseTo(entropy, 12);
  }
  expect(found.chosen.some(({ layer, neuron }) => layer === 2 && neuron === 3)).toBe(false);
});

it("prints the neurons of each layer and language", async () => {
  const { stdout, status } = await layergraft(["neurons", ...flags, "--share", "0.05"], { cwd: root });
  expect(status).toBe(0);
  const counts = (layer: number | undefined) =>
    LANGUAGES.map(
      (_, k) => WANTED.chosen.filter((one) => (layer ?? one.layer) === one.layer && one.languages.includes(k)).length,
    ).join(" ");
  const rows = stdout.split("\n").map((line) => line.trim().replace(/ +/g, " "));
  expect(rows[0]).toMatch(/^30 of 600 neurons, active at more than \d\d\.\d% of a language's tokens:$/);
  expect(rows.slice(2, 7)).toEqual([
    `layer ${LANGUAGES.join(" ")}`,
    ...[0, 1, 2].map((layer) => `${layer} ${counts(layer)}`),
    `all ${counts(undefined)}`,
  ]);
  const json = await layergraft(["neurons", ...flags, "--json"], { cwd: root });
  expect(JSON.parse(json.stdout).chosen).toHaveLength(6);
});

it.each([
  ["half-precision", "F16", 2],
  ["NaN", "F32", Number.NaN],
  ["more than all", "F32", 1.5],
] as const)("refuses activations that are no shares: %s", async (label, dtype, value) => {
  const folder = join(root, label);
  await writeTiny(folder, { layers: 1 });
  const data = new Uint8Array(Float32Array.of(0.5, value).buffer);
  const tensor = { name: "model.layers.0.mlp.gate_proj.weight", dtype, shape: [dtype === "F16" ? 4 : 2], data };
  await writeSharded(folder, [tensor], { metadata: { statistics: "activations" } });
  await expect(findLanguageNeurons({ one: folder, two: folder })).rejects.toThrow(
    /other values than shares.*gate_proj/,
  );
});

it("refuses one language, and folders without activations or of another model", async () => {
  await expectRefused(["neurons", "--language", "en=en"], root, WRONG_USAGE, /two or more/);
  await expectRefused(["neurons", ...flags, "--share", "2"], root, WRONG_USAGE, /0 to 1/);
  await expectRefused(["neurons", ...flags, "--language", "x=model"], root, WRONG_USAGE, /--kind activations/);
  const missing =
    /^error: none does not exist\. Write them with: layergraft measure MODEL --kind activations --on TEXTS --out none$/m;
  await expectRefused(["neurons", ...flags, "--language", "x=none"], root, WRONG_USAGE, missing);
  await writeTiny(join(root, "small"), { layers: 1 });
  const data = new Uint8Array(8);
  const name = "model.layers.0.mlp.gate_proj.weight";
  const metadata = { statistics: "activations" };
  await writeSharded(join(root, "small"), [{ name, dtype: "F32", shape: [2], data }], { metadata });
  await expectRefused(["neurons", ...flags, "--language", "x=small"], root, FAILED, /models of different sizes/);
});
