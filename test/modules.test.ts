// Modules that sentence-transformers saves beside a model (2_Dense) are merged as its tensors outside the layers.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { FileDigests } from "../src/experiment/steps/file-digests.js";
import { openCheckpoint } from "../src/formats/checkpoint/index.js";
import { writeSafetensors } from "../src/formats/safetensors/index.js";
import { planMerge, type RecipeInput, verify } from "../src/index.js";
import { decodeValues, readAll, readJson, seededTensor, temporaryFolder, writeTiny } from "./support/checkpoints.js";

const root = temporaryFolder();
const DENSE = { "linear.weight": [10, 8], "linear.bias": [10] };
const PLAIN = { ...DENSE, "linear.bias": undefined };

/** @param prefix of the module's tensors: of a folder, or of a module within the model */
async function write(folder: string, seed: number, prefix: string, shapes: object = DENSE): Promise<string> {
  const path = await writeTiny(join(root, folder), {
    ...{ seed, layers: 1, dtype: "F32", shardBytes: 2000, config: { of: folder } },
    edit: (tensors) => [
      ...tensors,
      ...Object.entries(shapes).flatMap(([name, shape], i) =>
        shape ? [seededTensor(`${prefix}${name}`, shape, 50 * seed + i, "F32", -7 - i)] : [],
      ),
    ],
  });
  const types = { "1_Pooling": "Pooling", ...(shapes === PLAIN ? {} : { "2_Dense": "Dense" }) };
  const modules = Object.entries(types).map(([at, type]) => ({
    path: at,
    type: `sentence_transformers.models.${type}`,
  }));
  writeFileSync(join(path, "modules.json"), JSON.stringify(modules));
  return path;
}

/** Sources base, 1 and 2 of a recipe. */
type Sources = (name: string) => string;
const RECIPES: readonly [string, (of: Sources) => RecipeInput][] = [
  [
    "soup",
    (of) => ({
      method: "soup",
      models: [
        { model: of("1"), weight: 1 },
        { model: of("2"), weight: 3 },
      ],
    }),
  ],
  ["swap", (of) => ({ method: "swap", task: of("1"), language: of("2"), outside: "average" })],
  ["ties", (of) => ({ method: "ties", base: of("base"), models: [of("1"), of("2")], density: 0.4 })],
  ["dare", (of) => ({ method: "dare_linear", base: of("base"), models: [of("1"), of("2")], density: 0.5, seed: 3 })],
  ["bfloat16", (of) => ({ method: "soup", models: [of("1"), of("2")], dtype: "bfloat16" })],
];

it.each(RECIPES)("%s merges a module as a tensor outside the layers", async (name, recipe) => {
  const made = await Promise.all(
    ["2_Dense/", "dense."].map(async (prefix) => {
      const of = (one: string) => join(root, `${name}${prefix.length}-${one}`);
      for (const [seed, one] of ["base", "1", "2"].entries()) {
        await write(`${name}${prefix.length}-${one}`, seed + 1, prefix);
      }
      const out = join(root, `${name}${prefix.length}`);
      await (await planMerge({ ...recipe(of), shard_size: 1000 })).write({ out });
      return out;
    }),
  );
  const [modules = "", inside = ""] = made;
  const found = await readAll(join(modules, "2_Dense"), ["model.safetensors"]);
  const map = readJson(inside, "model.safetensors.index.json").weight_map as Record<string, string>;
  const wanted = await readAll(inside, [...new Set(Object.values(map))]);
  expect([...found.keys()].sort()).toEqual(Object.keys(DENSE).sort());
  if (name !== "dare") for (const [tensor, one] of found) expect(one).toEqual(wanted.get(`dense.${tensor}`));
  const named = Object.keys(readJson(modules, "model.safetensors.index.json").weight_map as object);
  expect(named.sort()).toEqual(
    Object.keys(map)
      .filter((tensor) => !tensor.startsWith("dense."))
      .sort(),
  );
  expect((await verify({ model: modules })).verified).toBe(true);
  if (name !== "soup") return;
  const values = await Promise.all(
    [1, 2].map(async (one) => {
      const dense = join(root, `soup8-${one}`, "2_Dense");
      return decodeValues(
        (await readAll(dense, ["model.safetensors"])).get("linear.bias")?.data ?? new Uint8Array(),
        "F32",
      );
    }),
  );
  const mean = values[0]?.map((a, i) => Math.fround(Math.fround(a * 0.25) + Math.fround((values[1]?.[i] ?? 0) * 0.75)));
  expect(decodeValues(found.get("linear.bias")?.data ?? new Uint8Array(), "F32")).toEqual(mean);
});

it("refuses modules of other shapes, and takes them from the models that have some", async () => {
  const models = [await write("a", 1, "2_Dense/"), await write("plain", 2, "2_Dense/", PLAIN)];
  const wide = await write("wide", 3, "2_Dense/", { "linear.weight": [12, 8], "linear.bias": [12] });
  await expect(planMerge({ method: "soup", models: [models[0] ?? "", wide] })).rejects.toThrow(
    "2_Dense/linear.weight [10, 8] against [12, 8], 2_Dense/linear.bias [10] against [12]",
  );
  const some = await planMerge({ method: "soup", models });
  expect(some.notes).toContain(
    "1 tensor beside the decoder (2_Dense/linear.bias) come from models[0], as others lack them",
  );
  const lead = await planMerge({ method: "soup", models: models.toReversed() });
  await lead.write({ out: join(root, "of-a") });
  // The model with the module describes the result.
  expect(readJson(root, "of-a", "config.json").of).toBe("a");
  const dense = (folder: string) => readAll(join(root, folder, "2_Dense"), ["model.safetensors"]);
  expect((await dense("of-a")).get("linear.bias")).toEqual((await dense("a")).get("linear.bias"));
});

it("names modules whose weights are pickled", async () => {
  const [whole, pickled] = [await write("whole", 1, "2_Dense/"), await write("pickled", 2, "2_Dense/", {})];
  mkdirSync(join(pickled, "2_Dense"));
  writeFileSync(join(pickled, "2_Dense/pytorch_model.bin"), "not read");
  const plan = await planMerge({ method: "soup", models: [pickled, whole] });
  expect(plan.notes).toContain(
    "weights of 2_Dense of pickled are not in safetensors, so they are neither merged nor copied; open the model in Python and save it again",
  );
});

it("modules are part of what a model is", async () => {
  const [one, other] = [await write("one", 1, "2_Dense/"), await write("other", 1, "2_Dense/")];
  const digest = async (folder: string) => new FileDigests().ofModel(await openCheckpoint(folder));
  const config = readFileSync(join(one, "config.json"), "utf8");
  writeFileSync(join(other, "config.json"), config);
  expect(await digest(one)).toBe(await digest(other));
  await writeSafetensors(join(other, "2_Dense/model.safetensors"), [seededTensor("linear.bias", [10], 9, "F32")]);
  expect(await digest(one)).not.toBe(await digest(other));
});
