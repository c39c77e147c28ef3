// Every family of the census (test/census), as it was placed and merged when transformers opened the results: without Python.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { seededTensor } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import { blockOf } from "../../families/index.js";
import { planRecipe } from "../../merge/index.js";
import { writeSharded } from "../safetensors/writer.js";
import { parseConfig } from "./config.js";
import { placeTensors } from "./placement.js";

interface Group {
  /** Configurations by family, the fields alone that say where layers are. */
  configs: Record<string, Record<string, unknown>>;
  /** By name, `*` for the number of the layer: the layers that have it, and its part; the part alone outside the layers. */
  places: Record<string, string>;
}

const groups = JSON.parse(
  readFileSync(join(import.meta.dirname, "../../../test/fixtures/census.json"), "utf8"),
) as Group[];
const families = groups.flatMap(({ configs, places }) =>
  Object.entries(configs).map(([family, config]) => ({ family, config, places })),
);

/** Layer and part by name. */
function placesOf({ places }: Pick<Group, "places">): Map<string, { layer: number | null; part: string }> {
  const all = Object.entries(places).flatMap(([pattern, place]): [string, { layer: number | null; part: string }][] => {
    const [layers = "", part] = place.split(" ");
    if (part === undefined) return [[pattern, { layer: null, part: layers }]];
    return [...layers].map((layer) => [pattern.replace("*", layer), { layer: Number(layer), part }]);
  });
  return new Map(all);
}

test("are more than 150 families", () => {
  expect(families.length).toBeGreaterThan(150);
});

test.each(families)("$family: its tensors are placed", ({ config, places }) => {
  const wanted = placesOf({ places });
  const { places: found } = placeTensors([...wanted.keys()], parseConfig(config, "config.json"));
  const plain = [...found].map(([name, { layer, part }]) => [name, { layer, part }] as const);
  expect(new Map(plain)).toEqual(wanted);
});

test("the half of a layer is that which the tensor's module names", () => {
  const halves: [RegExp, string][] = [
    [/\*\.(self_attn|self_attention|attention|attn)\.[^.]+\.(weight|bias)$/, "attention"],
    [/\*\.(mlp|feed_forward|block_sparse_moe)\.[^.]+\.(weight|bias)$/, "mlp"],
  ];
  const named = groups.flatMap(({ places }) => Object.entries(places)).filter(([, place]) => place.includes(" "));
  for (const [pattern, half] of halves) {
    const inside = named.filter(([name]) => pattern.test(name));
    expect(inside.length).toBeGreaterThan(50);
    for (const [name, place] of inside) {
      const block = blockOf(place.split(" ")[1] as Parameters<typeof blockOf>[0]);
      expect([name, block]).toEqual([name, half]);
    }
  }
});

/** One family of each layout that is planned without the slow tests. */
const USUAL = ["llama", "gemma2", "gpt2", "bloom", "mixtral", "qwen3_next", "deepseek_v3", "mamba", "opt", "qwen3_vl"];
const bench = new Bench();

async function plans({ config, places }: { config: Record<string, unknown>; places: Group["places"] }) {
  const wanted = placesOf({ places });
  const tensors = [...wanted.keys()].map((name, i) => seededTensor(name, [2], i, "F32"));
  const write = async () => {
    const folder = bench.next("model");
    mkdirSync(folder);
    await writeSharded(folder, tensors);
    writeFileSync(join(folder, "config.json"), JSON.stringify(config));
    return folder;
  };
  const [task, language] = [await write(), await write()];
  const swapped = planRecipe({ method: "swap", task, language, bottom: 1, top: 1 });
  if ([...wanted.values()].every(({ layer }) => layer === null)) {
    await expect(swapped).rejects.toThrow(/has no layers to choose: .*Use a method and rules that name none/);
    const { plan: soup } = await planRecipe({ method: "soup", models: [task, language] });
    return expect(soup.steps.map(({ tensor }) => tensor).sort()).toEqual([...wanted.keys()].sort());
  }
  const last = Math.max(...[...wanted.values()].map(({ layer }) => layer ?? 0));
  const { plan: swap } = await swapped;
  const both = ["task", "language"];
  expect(new Map(swap.steps.map(({ tensor, origin }) => [tensor, [...origin].sort().join()]))).toEqual(
    new Map(
      [...wanted].map(([name, { layer, part }]) => {
        if (layer === null) return [name, part === "mtp" ? "language" : both.sort().join()];
        return [name, layer === 0 || layer === last ? "language" : "task"];
      }),
    ),
  );
  const { plan: soup } = await planRecipe({ method: "soup", models: [task, language] });
  expect(soup.steps.map(({ tensor }) => tensor).sort()).toEqual([...wanted.keys()].sort());
}

describe("a swap and a soup have every tensor, of the right model:", () => {
  const [usual, others] = [true, false].map((isUsual) =>
    families.filter(({ family }) => USUAL.includes(family) === isUsual),
  );
  test.each(usual ?? [])("$family", plans);
  test.each(others ?? [])("$family", { tags: ["slow"] }, plans);
});
