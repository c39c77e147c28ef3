// mergekit's configurations run as they are: every method, parameters of every form, slices; and what cannot be done is
// refused by name. test/reference/check_with_mergekit.py compares the results with mergekit's own.
// @module-tag slow
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import { type ReadTensor, readJson, seededTensor, writeTiny } from "../../../test/support/checkpoints.js";
import { DONE, expectReadable, expectRefused, layergraft, sha256, WRONG_USAGE } from "../../../test/support/command.js";
import { Bench, expectClosely, readFolders, type Tensors, valuesOf } from "../../../test/support/merging.js";
import { readFolder, roundTo, spacingOf, toNumbers } from "../../../test/support/numbers.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { writeSharded } from "../../formats/safetensors/index.js";
import { RecipeError } from "../../kit/index.js";
import { METHODS } from "../methods/index.js";
import type { Method } from "../methods/method.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { parseRecipe, recipeProblems } from "../recipe/recipe-file.js";
import { parseMergekit } from "./read-mergekit.js";

const LAYERS = 4;
const bench = new Bench();
const root = bench.folder;
const at = (...names: string[]) => join(root, ...names);

beforeAll(async () => {
  for (const [i, name] of ["base", "a", "b", "c"].entries()) {
    await writeTiny(at(name), { layers: LAYERS, seed: i + 1, dtype: "F32" });
  }
  const target = "base_model.model.model.layers.1.self_attn.q_proj";
  mkdirSync(at("adapter"));
  await writeSharded(at("adapter"), [
    seededTensor(`${target}.lora_A.weight`, [2, 8], 91, "F32"),
    seededTensor(`${target}.lora_B.weight`, [8, 2], 92, "F32"),
  ]);
  renameSync(at("adapter", "model.safetensors"), at("adapter", "adapter_model.safetensors"));
  writeFileSync(at("adapter", "adapter_config.json"), JSON.stringify({ peft_type: "LORA", r: 2, lora_alpha: 4 }));
});

let count = 0;

/** Runs a configuration on the command line, from the folder of the models. */
async function merge(text: string): Promise<{ out: string; tensors: Tensors; notes: string[] }> {
  const [file, out] = [`${++count}.yml`, `out-${count}`];
  writeFileSync(at(file), text);
  const outcome = await layergraft(["merge", file, "--out", out], { cwd: root });
  expect(outcome.stderr.match(/error:.*/s)?.[0]).toBeUndefined();
  expect(outcome.status).toBe(DONE);
  expectReadable(outcome.stderr);
  const notes = [...outcome.stderr.matchAll(/^note: (.*)/gm)].map((match) => match[1] as string);
  return { out: at(out), tensors: await readFolder(at(out)), notes };
}

/** Slices put the norm and the head before the layers; the comparison wants the order of the models. */
const inOrder = (tensors: Tensors): Tensors => new Map([...tensors].sort(([a], [b]) => rankOf(a) - rankOf(b)));
const rankOf = (name: string) => ["model.norm.weight", "lm_head.weight"].indexOf(name);

const recipeOf = async (text: string, layers?: number) => (await parseMergekit(text, { layers }))?.recipe;
const weightsOf = (folder: string) => sha256(join(folder, "model.safetensors"));

/** A recipe's models by their absolute paths. */
function placed(recipe: RecipeInput): RecipeInput {
  const names = ["base", "a", "b", "c"];
  return JSON.parse(JSON.stringify(recipe), (_, value: unknown) =>
    typeof value === "string" && names.includes(value) ? at(value) : value,
  ) as RecipeInput;
}

/** The YAML documents of a file of cases. */
const casesOf = (file: string) =>
  readFileSync(join(import.meta.dirname, "cases", file), "utf8")
    .replace(/^# .*\n/, "")
    .split(/^---\n/m);

const methods = casesOf("methods.yml").flatMap((text, i, all): [method: string, text: string, recipe: string][] =>
  i % 2 === 0 ? [[/merge_method: (.*)/.exec(text)?.[1] ?? "", text, all[i + 1] ?? ""]] : [],
);

describe("every method, on the command line", () => {
  it.each(methods)("%s: %#", async (_, text, written) => {
    const recipe = parseYaml(written) as RecipeInput;
    expect(await recipeOf(text)).toEqual(recipe);
    const { out } = await merge(text);
    const { plan } = await planRecipe(recipe, { folder: root });
    expect(readJson(out, "layergraft.json")).toMatchObject(
      JSON.parse(JSON.stringify({ recipe: plan.recipe, steps: plan.steps })),
    );
  });

  it("covers what mergekit 0.1.5 has", () => {
    expect(new Set(methods.map(([method]) => method)).size).toBe(20);
  });
});

// ---- parameters, as mergekit's documentation says, in float64 ----

type Spread = number | number[];
type Setting = Spread | { filter?: string; value: Spread }[];

/** Value of settings for a tensor of a slice; the closest setting wins. */
function lookUp(settings: readonly (Setting | undefined)[], name: string, layers = LAYERS, first = 0): number {
  const layer = /layers\.(\d+)\./.exec(name)?.[1];
  const position = layer === undefined ? 0 : layers > 1 ? (Number(layer) - first) / (layers - 1) : 1;
  for (const setting of settings) {
    if (setting === undefined) continue;
    const rules = Array.isArray(setting) && typeof setting[0] === "object" ? setting : [{ value: setting }];
    for (const { filter, value } of rules as { filter?: string; value: Spread }[]) {
      if (filter !== undefined && filter !== "*" && !name.includes(filter)) continue;
      if (typeof value === "number") return value;
      const place = position * (value.length - 1);
      const [low, high] = [value[Math.floor(place)], value[Math.ceil(place)]] as [number, number];
      return low + (place - Math.floor(place)) * (high - low);
    }
  }
  throw new Error(`nothing is set for ${name}`);
}

const yaml = (value: unknown) => JSON.stringify(value);

describe("parameters", () => {
  const own: Setting = [
    { filter: "self_attn", value: [0.25, 1, 0.5] },
    { filter: "norm", value: 0.75 },
  ];
  const whole: Setting = [
    { filter: "mlp", value: [0.125, 1] },
    { filter: "*", value: [0.5, 1] },
  ];

  it.each([true, false])(
    "are looked up from the model outwards; gradients, filters; normalize: %s",
    async (normalize) => {
      const { tensors } = await merge(`
merge_method: linear
models:
  - { model: a, parameters: { weight: ${yaml(own)} } }
  - { model: b, parameters: { weight: [1, 0.125] } }
  - { model: c }
parameters: { weight: ${yaml(whole)}, normalize: ${normalize ? "yes" : "no"} }
`);
      const sources = await readFolders([at("a"), at("b"), at("c")]);
      expectClosely(inOrder(tensors), sources, (name) => {
        const weights = [lookUp([own, whole], name), lookUp([[1, 0.125]], name), lookUp([whole], name)];
        const sum = normalize ? weights.reduce((total, weight) => total + weight) : 1;
        return (...x) => x.reduce((total, value, i) => total + value * (weights[i] as number), 0) / sum;
      });
    },
  );

  it("may be set in modules and slices; a single layer gets the end of a gradient", async () => {
    const [ofSlice, ofModule]: [Setting, Setting] = [[{ filter: "q_proj", value: 0.5 }], [1, 0.25]];
    const sources = (first: number, end: number, parameters: string) =>
      `      - sources: [{ model: a, layer_range: [${first}, ${end}], parameters: { weight: 1 } }, { model: b, layer_range: [${first}, ${end}] }]\n${parameters}`;
    const { tensors } = await merge(
      `merge_method: linear\nmodules:\n  default:\n    parameters: { weight: ${yaml(ofModule)} }\n    slices:\n` +
        sources(0, 3, `        parameters: { weight: ${yaml(ofSlice)} }\n`) +
        sources(3, 4, ""),
    );
    expectClosely(inOrder(tensors), await readFolders([at("a"), at("b")]), (name) => {
      const isLast = name.includes("layers.3.") || name === "model.norm.weight" || name === "lm_head.weight";
      const weight = isLast ? lookUp([ofModule], name, 1) : lookUp([ofSlice, ofModule], name, 3);
      return (a, b) => ((a as number) + weight * (b as number)) / (1 + weight);
    });
  });

  it("need no default where their filters match all tensors", async () => {
    const all: Setting = ["self_attn", "mlp", "norm", "embed", "lm_head"].map((filter, i) => ({
      filter,
      value: [i / 8, 0.5],
    }));
    const text = (weight: Setting) =>
      `merge_method: linear\nmodels:\n  - { model: a, parameters: { weight: 1 } }\n  - { model: b, parameters: { weight: ${yaml(weight)} } }`;
    const { tensors } = await merge(text(all));
    expectClosely(inOrder(tensors), await readFolders([at("a"), at("b")]), (name) => {
      const weight = lookUp([all], name);
      return (a, b) => ((a as number) + weight * (b as number)) / (1 + weight);
    });
    writeFileSync(at("some.yml"), text(all.slice(1)));
    await expectRefused(
      ["merge", "some.yml", "--out", "no"],
      root,
      WRONG_USAGE,
      /weight.* is set for some tensors only; add \{ value: \.\.\. \} without a filter for the others/,
    );
  });

  it("of task vectors: each density and weight by tensor, models that are the base left out", async () => {
    const text = `
merge_method: ties
base_model: base
models:
  - { model: base, parameters: { weight: 5 } }
  - { model: a, parameters: { weight: 1, density: [1, 0.25] } }
  - { model: b, parameters: { weight: [{ filter: mlp, value: 0.5 }, { value: 0 }], density: 1.5 } }
parameters: { lambda: [{ filter: lm_head, value: 2 }], normalize: [true] }
`;
    expect(await recipeOf(text)).toEqual({
      method: "ties",
      models: [
        { model: "a", weight: 1, density: { gradient: [1, 0.25] } },
        { model: "b", weight: [{ tensors: "*mlp*", value: 0.5 }, { value: 0 }], density: 1 },
      ],
      ...{ base: "base", trim: "tensor", cutoff: "exact", normalize: true, tokenizer_from: "base" },
      lambda: [{ tensors: "*lm_head*", value: 2 }, { value: 1 }],
    });
    const { tensors } = await merge(text);
    const [base, a] = (await readFolders([at("base"), at("a")])) as [Tensors, Tensors];
    // Where b has no weight, a agrees with itself, and its largest changes are what is left.
    for (const name of ["model.layers.1.self_attn.q_proj.weight", "lm_head.weight", "model.norm.weight"]) {
      const [before = [], after = []] = valuesOf(name, [base, a]);
      const changes = before.map((value, i) => (after[i] as number) - value);
      const kept = Math.floor(lookUp([[1, 0.25]], name) * changes.length);
      const least = changes.map(Math.abs).sort((x, y) => y - x)[kept - 1] as number;
      const factor = name === "lm_head.weight" ? 2 : 1;
      valuesOf(name, [tensors])[0]?.forEach((value, i) => {
        const change = changes[i] as number;
        const wanted = (before[i] as number) + factor * (Math.abs(change) >= least ? change : 0);
        expect(Math.abs(value - wanted)).toBeLessThanOrEqual(2 ** -22);
      });
    }
  });

  it("whose filter matches no tensor are an error before weights are read", async () => {
    const text =
      "merge_method: slerp\nbase_model: a\nmodels: [{ model: b }]\nparameters: { t: [{ filter: atn, value: 1 }, { value: 0 }] }";
    writeFileSync(at("filter.yml"), text);
    await expectRefused(
      ["merge", "filter.yml", "--out", "no"],
      root,
      WRONG_USAGE,
      /line 4: parameters\.t\[0\]: the filter "atn" matches no tensor of the models, .*; in mergekit it is ignored\nPass --as-mergekit to ignore what mergekit ignores\./,
    );
  });
});

// ---- slices ----

/** Spherical interpolation, from its definition. */
function slerp(v: readonly number[], w: readonly number[], t: number): number[] {
  const dot = (x: readonly number[], y: readonly number[]) =>
    x.reduce((sum, value, i) => sum + value * (y[i] as number), 0);
  const cosine = dot(v, w) / Math.sqrt(dot(v, v) * dot(w, w));
  const angle = Math.acos(cosine);
  const [p, q] =
    Math.abs(cosine) > 0.9995
      ? [1 - t, t]
      : [Math.sin((1 - t) * angle) / Math.sin(angle), Math.sin(t * angle) / Math.sin(angle)];
  return v.map((value, i) => p * value + q * (w[i] as number));
}

describe("slices", () => {
  const t: Setting = [{ filter: "mlp", value: [0, 1] }, { value: [0.25, 0.5, 0.75] }];
  const slices = `
  - sources: [{ model: a, layer_range: [0, 2] }, { model: b, layer_range: [1, 3] }]
  - sources: [{ model: c, layer_range: [2, 3] }]
  - sources: [{ model: b, layer_range: [1, 4] }, { model: c, layer_range: [0, 3] }]
    base_model: c
    parameters: { t: 0.125 }
`;

  it("of several models are merged one by one; tensors outside the layers come from the first and the last", async () => {
    const { tensors, out } = await merge(
      `merge_method: slerp\nbase_model: b\nparameters: { t: ${yaml(t)} }\ndtype: float32\nout_dtype: bfloat16\nslices:${slices}`,
    );
    const [a, b, c] = (await readFolders([at("a"), at("b"), at("c")])) as [Tensors, Tensors, Tensors];
    expect(readJson(out, "config.json")).toMatchObject({ num_hidden_layers: 6, torch_dtype: "bfloat16" });
    expect(readJson(out, "tokenizer.json")).toEqual({ made_for: 3 });
    expect([...tensors.keys()].filter((name) => name.includes("q_proj"))).toHaveLength(6);
    for (const [name, tensor] of tensors) {
      const layer = Number(/layers\.(\d+)\./.exec(name)?.[1] ?? Number.NaN);
      const of = (model: Tensors, by: number) =>
        valuesOf(name.replace(/layers\.\d+/, `layers.${layer + by}`), [model])[0] ?? [];
      const isFirst = layer < 2 || name === "model.embed_tokens.weight";
      const wanted = isFirst
        ? slerp(of(b, 1), of(a, 0), lookUp([t], name, 2))
        : layer === 2
          ? of(c, 0)
          : slerp(of(c, -3), of(b, -2), 0.125);
      expect(tensor.dtype).toBe("BF16");
      toNumbers(tensor).forEach((value, i) => {
        const exact = wanted[i] as number;
        if (Math.abs(value - roundTo("BF16", exact)) > spacingOf("BF16", exact))
          expect.fail(`${name}[${i}]: ${value}, not ${exact}`);
      });
    }
  });

  it("that cover all layers of all models are one merge if the depth is known", async () => {
    const text = (parameters: string) => `
merge_method: slerp
base_model: a
parameters: ${parameters}
slices:
  - sources: [{ model: a, layer_range: [0, 1] }, { model: b, layer_range: [0, 1] }]
  - sources: [{ model: a, layer_range: [1, 4] }, { model: b, layer_range: [1, 4] }]
`;
    const plain = { method: "slerp", models: ["a", "b"], t: 0.5, tokenizer_from: "a" };
    expect(await recipeOf(text("{ t: 0.5 }"), LAYERS)).toEqual(plain);
    expect(await recipeOf(text("{ t: 0.5 }"), 5)).toMatchObject({ method: "passthrough" });
    expect(await recipeOf(text("{ t: [0, 1] }"), LAYERS)).toMatchObject({ method: "passthrough" });
    const unjoined = (await recipeOf(text("{ t: 0.5 }"))) as RecipeInput;
    expect(unjoined).toMatchObject({ method: "passthrough", slices: [{ model: { method: "slerp" } }, {}] });
    const { out } = await merge(text("{ t: 0.5 }"));
    expect(readJson(out, "layergraft.json").recipe).toMatchObject(plain);
    const { tensors } = await bench.merge(placed(unjoined));
    expect(inOrder(await readFolder(out))).toEqual(inOrder(tensors));
  });

  it("with the base alone are the base's; a gradient of scales is one over the slice", async () => {
    const text = `
merge_method: task_arithmetic
base_model: base
slices:
  - sources: [{ model: base, layer_range: [0, 2] }]
  - sources: [{ model: a, layer_range: [2, 4], parameters: { weight: 0.5 } }, { model: base, layer_range: [2, 4] }]
`;
    const { tensors } = await merge(text);
    expectClosely(inOrder(tensors), await readFolders([at("base"), at("a")]), (name) => {
      const isBase = /layers\.[01]\./.test(name) || name.includes("embed");
      return (base, a) => (isBase ? (base as number) : ((base as number) + (a as number)) / 2);
    });
    const graded = await merge(
      "merge_method: passthrough\nslices: [{ sources: [{ model: a, layer_range: [1, 4], parameters: { scale: [1, 0.5] } }] }]",
    );
    const [a] = (await readFolders([at("a")])) as [Tensors];
    for (const [layer, scale] of [1, 0.75, 0.5].entries()) {
      const [stored = []] = valuesOf(`model.layers.${layer + 1}.mlp.up_proj.weight`, [a]);
      expect(valuesOf(`model.layers.${layer}.mlp.up_proj.weight`, [graded.tensors])[0]).toEqual(
        stored.map((x) => Math.fround(x * scale)),
      );
    }
  });
});

// ---- what else a configuration says ----

/** Two experts, each with these parameters, on a base. */
const experts = (parameters: string) =>
  `base_model: base\nmodels: [{ model: a, parameters: { ${parameters} } }, { model: b, parameters: { ${parameters} } }]\n`;

describe("models, dtype and tokenizer", () => {
  it("rows of single tokens, and rows up to a multiple", async () => {
    const text = `
merge_method: linear
base_model: a
models: [{ model: b, parameters: { weight: 1 } }, { model: a, parameters: { weight: 1 } }]
tokenizer:
  source: union
  pad_to_multiple_of: 64
  tokens:
    x: { source: { kind: zero } }
    y: { source: a, force: true }
    z: { source: { kind: model_token, model: b, token: w } }
    w: { source: { kind: model_token, model: b, token_id: 3 } }
`;
    expect((await recipeOf(text))?.vocabulary).toEqual({
      from: "union",
      tokens: {
        x: { source: "zero" },
        y: { source: "models[1]", force: true },
        z: { source: "models[0]", token: "w" },
        w: { source: "models[0]", row: 3 },
      },
      multiple_of: 64,
    });
    expect((await recipeOf(text.replace(/pad_to.*$/s, "")))?.vocabulary).toBe("union");
  });

  it("a LoRA adapter after a plus sign, or in a mapping", async () => {
    const text = (model: string) =>
      `merge_method: linear\nmodels: [{ model: ${model}, parameters: { weight: 1 } }, { model: b, parameters: { weight: 1 } }]`;
    const recipe = await recipeOf(text("a+adapter"));
    expect(recipe).toMatchObject({ models: [{ model: "a+adapter" }, { model: "b" }] });
    expect(await recipeOf(text("{ model: { path: a, revision: main }, lora: adapter }"))).toEqual(recipe);
    const { out } = await merge(text("a+adapter@main"));
    const adapted: RecipeInput = { method: "soup", models: [`${at("a")}+${at("adapter")}`, at("b")] };
    expect(weightsOf(out)).toBe(weightsOf((await bench.merge(adapted)).out));
  });

  it("dtype and out_dtype; one note on float32 arithmetic", async () => {
    const text = (more: string) =>
      `merge_method: ties\n${experts("weight: 1, density: 0.5")}parameters: { int8_mask: true, t: 1 }\n${more}`;
    expect(await recipeOf(text("dtype: bfloat16"))).toMatchObject({ dtype: "bfloat16" });
    expect(await recipeOf(text("dtype: torch.float32\nout_dtype: float16"))).toMatchObject({ dtype: "float16" });
    expect(await recipeOf(text(""))).not.toHaveProperty("dtype");
    const { notes } = await merge(text("dtype: bfloat16\nrandom_seed: 1"));
    expect(notes).toEqual([
      "random_seed is ignored: mergekit does not use it",
      "int8_mask is ignored; the memory that it saves is not needed here",
      "t is ignored: it has no meaning for ties",
      "arithmetic is in float32, with one rounding at the end; mergekit computes in bfloat16",
      expect.stringMatching(/^rounding to bfloat16 keeps \d+\.\d% of the changed elements/),
    ]);
    expect((await parseMergekit(text("dtype: float32")))?.notes).toHaveLength(2);
  });

  it("the base's tokenizer by default", async () => {
    const { out } = await merge(`merge_method: task_arithmetic\n${experts("weight: 1")}`);
    expect(readJson(out, "tokenizer.json")).toEqual({ made_for: 1 });
    const donor =
      "merge_method: passthrough\nbase_model: c\nslices: [{ sources: [{ model: a, layer_range: [0, 2] }] }]";
    expect((await parseMergekit(donor))?.notes.join()).toMatch(/base_model c is not among the sources/);
  });

  it("tokenizer_source: rows are combined by token", async () => {
    const text = (more: string) => `merge_method: task_arithmetic\n${experts("weight: 1")}${more}`;
    const fields = { vocabulary: "base" };
    expect(await recipeOf(text("tokenizer_source: base"))).toMatchObject(fields);
    expect(await recipeOf(text("tokenizer_source: base"))).not.toHaveProperty("tokenizer_from");
    expect(await recipeOf(text("tokenizer: { source: b, tokens: {} }"))).toMatchObject({ vocabulary: "models[1]" });
    expect(await recipeOf(text("tokenizer: {}"))).toMatchObject({ vocabulary: "union" });
    const sliced = "slices: [{ sources: [{ model: a, layer_range: [0, 2] }, { model: b, layer_range: [0, 2] }] }]";
    expect(
      await recipeOf(`merge_method: slerp\nbase_model: b\nparameters: { t: 1 }\ntokenizer_source: a\n${sliced}`),
    ).toMatchObject({ vocabulary: "models[1].slices[0]" });
    for (const [name, vocab] of Object.entries({ x: { p: 0, q: 1 }, y: { q: 0, p: 1 } })) {
      await writeTiny(at(name), { layers: LAYERS, seed: 7, dtype: "F32", vocabulary: 2 });
      writeFileSync(at(name, "tokenizer.json"), JSON.stringify({ model: { type: "BPE", vocab, merges: [] } }));
    }
    const both = "models: [{ model: x }, { model: y }]\nparameters: { weight: 1 }";
    const { out, tensors } = await merge(`merge_method: linear\n${both}\ntokenizer_source: y\n`);
    expect(readJson(out, "tokenizer.json")).toMatchObject({ model: { vocab: { q: 0, p: 1 } } });
    const [rows = []] = valuesOf("lm_head.weight", await readFolders([at("x")]));
    const mean = (row: number) =>
      rows.slice(row * 8, row * 8 + 8).map((x, i) => (x + (rows[8 - row * 8 + i] as number)) / 2);
    expect(valuesOf("lm_head.weight", [tensors])[0]).toEqual([...mean(1), ...mean(0)].map(Math.fround));
    const plain = `merge_method: linear\n${both}\n`;
    writeFileSync(at("plain.yml"), plain);
    await expectRefused(["merge", "plain.yml", "--out", "no"], root, 1, /2 rows to different tokens/);
  });
});

describe("a file of several merges", () => {
  const linear = (models: string) => `merge_method: linear\nmodels: [${models}]\nparameters: { weight: 1 }\n`;
  const model = (name: string, more = "") => `{ model: ${name}${more} }`;
  const [first, second] = [
    `name: one\n${linear([model("a"), model("b")].join())}dtype: float32\n`,
    "merge_method: slerp\nbase_model: one\nmodels: [{ model: c }]\nparameters: { t: 0.25 }\ndtype: float32\n",
  ];

  it("is one recipe, whatever the order, with the merge that has no name outside", async () => {
    for (const text of [`${first}---\n${second}`, `# both\n---\n${second}--- # the first\n${first}`]) {
      expect(await recipeOf(text)).toEqual({
        method: "slerp",
        models: [
          {
            method: "soup",
            models: [
              { model: "a", weight: 1 },
              { model: "b", weight: 1 },
            ],
          },
          "c",
        ],
        t: 0.25,
        dtype: "float32",
        tokenizer_from: "models[0]",
      });
    }
    // The same as one after the other, to the rounding of float32.
    const { tensors, notes } = await merge(`${first}---\n${second}`);
    expect(notes.join()).toMatch(/computed as one: nothing between them is written/);
    const one = await merge(first.replace("name: one\n", ""));
    const two = await merge(second.replace("one", one.out));
    for (const [name, tensor] of tensors) {
      const wanted = toNumbers(two.tensors.get(name) as typeof tensor);
      toNumbers(tensor).forEach((x, i) => {
        expect(Math.abs(x - (wanted[i] as number))).toBeLessThan(1e-6);
      });
    }
  });

  it("uses the last where all have names, and is refused where they go in a circle or one is no merge", async () => {
    const last = await recipeOf(`${first}---\nname: two\n${linear([model("one"), model("c")].join())}`);
    expect(last).toMatchObject({ method: "soup", models: [{ model: { method: "soup" } }, { model: "c" }] });
    const circle = `${first.replace("model: b", "model: two")}---\nname: two\n${linear([model("one"), model("c")].join())}`;
    await expect(parseMergekit(circle)).rejects.toThrow(/use each other in a circle/);
    await expect(parseMergekit(`${first}---\nmethod: soup\nmodels: [a]\n`)).rejects.toThrow(/several documents/);
    await expect(parseMergekit(`${first}---\n${second.replace("t: 0.25", "t: 2")}`)).rejects.toThrow(
      /line 10: parameters.t/,
    );
  });
});

describe("convert", () => {
  it("prints a recipe that gives the same bytes", async () => {
    const text = `merge_method: della\n${experts("weight: 1, density: [0.5, 0.7]")}dtype: bfloat16\n`;
    const { out } = await merge(text);
    writeFileSync(at("della.yml"), text);
    const printed = await layergraft(["convert", "della.yml"], { cwd: root });
    expect(printed.stderr).toMatch(/note: arithmetic .*\nnote: the random choice/);
    expect(printed.stdout).toContain("  gradient: [0.5, 0.7]\n");
    expect(await parseRecipe(printed.stdout)).toMatchObject({ method: "della", base: "base" });
    writeFileSync(at("della.recipe.yaml"), printed.stdout);
    const again = await layergraft(["merge", "della.recipe.yaml", "--out", "again", "--quiet"], { cwd: root });
    expect(again.status).toBe(DONE);
    expect(weightsOf(at("again"))).toBe(weightsOf(out));
    expect(readFileSync(at("again", "config.json"))).toEqual(readFileSync(join(out, "config.json")));
    const json = await layergraft(["convert", "della.yml", "--json", "--quiet"], { cwd: root });
    expect(JSON.parse(json.stdout)).toMatchObject({ recipe: { method: "della" }, notes: [{}, {}] });
    expect(json.stderr).toBe("");
  });

  it("prints the recipe shown in the guide", async () => {
    const guide = readFileSync(join(import.meta.dirname, "../../../docs/coming-from-mergekit.md"), "utf8");
    const [configuration = "", recipe] = [...guide.matchAll(/^```yaml\n(.*?)^```/gms)].map(
      (match) => match[1] as string,
    );
    for (const [seed, name] of ["math-expert", "swahili-expert"].entries())
      await writeTiny(at(name), { layers: 8, seed });
    writeFileSync(at("guide.yml"), configuration);
    expect((await layergraft(["convert", "guide.yml"], { cwd: root })).stdout).toBe(recipe);
    const { tensors } = await merge(configuration);
    expect(tensors.get("model.norm.weight")?.dtype).toBe("BF16");
  });

  it("writes the chat template that a configuration names", async () => {
    for (const [name, tokens] of [
      ["chatml", "<|im_start|>"],
      ["llama3", "<|start_header_id|>"],
      ["mistral", "[INST]"],
      ["alpaca", "### Instruction:"],
      ["exaone", "[|endofturn|]"],
      ['"{% for m in messages %}{{ m.content }}{% endfor %}"', "m.content"],
    ]) {
      const { out } = await merge(`merge_method: passthrough\nmodels: [{ model: a }]\nchat_template: ${name}\n`);
      expect(readFileSync(join(out, "chat_template.jinja"), "utf8")).toContain(tokens);
    }
    const { notes } = await merge("merge_method: passthrough\nmodels: [{ model: a }]\nchat_template: auto\n");
    expect(notes.join()).toMatch(/chat_template: auto is the template of the tokenizer/);
    const other = await merge("merge_method: passthrough\nmodels: [{ model: a }]\nchat_template: vicuna\n");
    expect(other.notes.join()).toMatch(/chat_template: vicuna is ignored: it is none of alpaca, chatml/);
  });

  it("rejects other files", async () => {
    writeFileSync(at("recipe.yaml"), "method: soup\nmodels: [a, b]\n");
    await expectRefused(["convert", "recipe.yaml"], root, WRONG_USAGE, /recipe\.yaml is already a recipe/);
    await expectRefused(["convert", "none.yml"], root, WRONG_USAGE, /none\.yml does not exist/);
    writeFileSync(at("broken.yml"), "merge_method: [\n");
    await expectRefused(["convert", "broken.yml"], root, WRONG_USAGE, /not valid YAML:\n {2}- line \d/);
    expect(await parseMergekit("method: soup\nmodels: [a]")).toBeUndefined();
  });
});

describe("is rejected, by name and line:", () => {
  it.each(casesOf("refused.yml").map((text) => [/^# (.*)/.exec(text)?.[1] ?? "no message", text]))(
    "%s",
    async (message, text) => {
      await expect(parseMergekit(text)).rejects.toThrow(RecipeError);
      await expect(parseMergekit(text)).rejects.toThrow(message);
    },
  );

  it("a parameter that is a word is one problem, and a word of another case or length leads to the right one", async () => {
    const refused = (text: string) => parseMergekit(text).then(String, String);
    const half = await refused("merge_method: linear\nmodels: [{ model: a, parameters: { weight: half } }]");
    expect(half).toContain("models[0].parameters.weight: must be a number");
    expect(half).not.toContain("is missing");
    expect(await refused("merge_method: TIES\nmodels: [{ model: a }]")).toContain("; did you mean ties?");
    expect(await refused("merge_method: linear\nmodels: []\ndtype: bf16")).toContain("; did you mean bfloat16?");
  });

  it.each(
    (METHODS as readonly Pick<Method, "name" | "mergekit">[]).flatMap(({ name, mergekit: of }) =>
      of ? [...of.own, ...of.common].map((parameter) => [of.name ?? name, parameter] as const) : [],
    ),
  )("a value of %s that is out of bounds, by the field in the file: %s", async (method, parameter) => {
    const others = { t: 0.5, weight: 1 };
    const bases =
      /linear|karcher|passthrough|multislerp/.test(method) && !/dare|della/.test(method) ? {} : { base_model: "base" };
    const names = { slerp: ["a"], nearswap: ["a"], arcee_fusion: ["a"], passthrough: ["a"] }[method] ?? ["a", "b"];
    for (const value of [-1e12, -1, 0, 1e-15, 0.5, 1, 2, 1500.5, 1e7, 1e12]) {
      const whole = { merge_method: method, ...bases, models: names.map((model) => ({ model })) };
      const text = yaml({ ...whole, parameters: { ...others, [parameter]: value } });
      const { recipe, error } = await parseMergekit(text).then(
        (translated) => ({ recipe: translated?.recipe, error: undefined }),
        (thrown: Error) => ({ recipe: undefined, error: thrown.message }),
      );
      if (recipe) expect({ value, problems: recipeProblems(recipe) }).toEqual({ value, problems: [] });
      else expect(error).toMatch(new RegExp(`line 1: parameters\\.${parameter}: ${parameter} must be .*, not `));
    }
  });

  it("a slice beyond the layers of the model, by file and line, as it is written", async () => {
    const { layers } = await openCheckpoint(at("a"));
    const source = `{ model: a, layer_range: [0, ${layers + 1}] }`;
    writeFileSync(at("range.yml"), `merge_method: passthrough\nslices:\n  - sources: [${source}]\n`);
    await expectRefused(
      ["merge", "range.yml", "--out", "no"],
      root,
      WRONG_USAGE,
      new RegExp(
        `line 3: slices\\[0\\]\\.sources\\[0\\]\\.layer_range: ends at ${layers + 1}, but a has ${layers} layers`,
      ),
    );
  });

  it("no flag of mergekit-yaml but --no-safe-serialization, and says in one line which have no effect", async () => {
    writeFileSync(at("flags.yml"), "merge_method: passthrough\nmodels: [{ model: a }]\n");
    // All that its help lists, but for those that follow.
    const both =
      "allow-crimes unsafe-truncate-embeddings trust-remote-code quiet cuda low-cpu-memory lazy-unpickle read-to-gpu multi-gpu async-write copy-tokenizer clone-tensors write-model-card safe-serialization";
    const given = both.split(" ").flatMap((name) => [`--${name}`, `--no-${name}`]);
    given.push("--transformers-cache=x", "--lora-merge-cache=x", "--lora-merge-dtype=torch.bfloat16", "--device=cpu");
    given.push(
      "--random-seed=1",
      "-vv",
      "-j2",
      "--num-threads=2",
      "--gpu-rich",
      "--write-threads=2",
      "--out-shard-size=5B",
    );
    for (const flag of given) {
      const { status, stderr } = await layergraft(["merge", "flags.yml", "--dry-run", flag], { cwd: root });
      const error =
        flag === "--no-safe-serialization" ? [expect.stringMatching(/always written as safetensors/)] : null;
      expect({ flag, status, error: stderr.match(/^error: .*/gm) }).toEqual({
        flag,
        status: error ? WRONG_USAGE : DONE,
        error,
      });
      const name = flag.split("=")[0] as string;
      const isSilent =
        ["--quiet", "--no-safe-serialization", "-j2", "-vv"].includes(name) ||
        /^--(lora-merge-dtype|random|num|out)/.test(name);
      if (!isSilent) expect(stderr).toMatch(new RegExp(`^note: .*${name}`, "m"));
    }
  });

  it("nothing that is only a flag of mergekit", async () => {
    writeFileSync(at("flags.yml"), "merge_method: passthrough\nmodels: [{ model: a }]\n");
    const flags = ["--cuda", "--copy-tokenizer", "--lazy-unpickle", "--allow-crimes", "--write-model-card", "-v"];
    flags.push("--i-understand-this-is-not-useful-without-training");
    const { status, stderr } = await layergraft(["merge", "flags.yml", "./flags-out", ...flags], { cwd: root });
    expect(status).toBe(DONE);
    const notes = stderr.match(/^note: not needed here: .*/gm) ?? [];
    expect(notes).toHaveLength(1);
    for (const flag of flags) expect(notes[0]).toContain(flag === "-v" ? "--verbose" : flag);
    expect(existsSync(at("flags-out/model.safetensors"))).toBe(true);
  });

  it("--lora-merge-dtype, as in mergekit", async () => {
    const lora = (name: string) => join(import.meta.dirname, "../../../test/fixtures/lora", name);
    const model = `${lora("base")}+${lora("adapter")}`;
    writeFileSync(
      at("lora.yml"),
      `merge_method: linear\ndtype: float32\nmodels: [{ model: ${model}, parameters: { weight: 1 } }]\n`,
    );
    const merged = async (out: string, ...flags: string[]) => {
      const { status } = await layergraft(["merge", "lora.yml", out, ...flags], { cwd: root });
      expect(status).toBe(DONE);
      return (await readFolder(at(out))).get("model.layers.0.self_attn.q_proj.weight") as ReadTensor;
    };
    const [whole, rounded] = [await merged("lora-0"), await merged("lora-1", "--lora-merge-dtype", "bfloat16")];
    const expected = toNumbers(whole).map((value) => roundTo("BF16", value));
    expect(expected).not.toEqual(toNumbers(whole));
    expect(toNumbers(rounded)).toEqual(expected);
    await expectRefused(["merge", "lora.yml", "no", "--lora-merge-dtype", "int8"], root, WRONG_USAGE, /int8/);
  });

  it("--random-seed and --out-shard-size, as in mergekit", async () => {
    const dare =
      "merge_method: dare_linear\nbase_model: a\nmodels: [{ model: b }]\nparameters: { density: 0.5, weight: 1 }\n";
    writeFileSync(at("dare.yml"), dare);
    const merged = async (out: string, ...flags: string[]) => {
      const { status, stderr } = await layergraft(["merge", "dare.yml", out, ...flags], { cwd: root });
      expect({ status, stderr: stderr.match(/^error.*/m) }).toEqual({ status: DONE, stderr: null });
      const files = readdirSync(at(out)).filter((name) => name.endsWith(".safetensors"));
      return files.map((name) => readFileSync(at(out, name)));
    };
    const [plain] = await merged("dare-0");
    const [seeded] = await merged("dare-3", "--random-seed", "3");
    const [again] = await merged("dare-3-again", "--random-seed", "3");
    expect(seeded?.equals(plain as Buffer)).toBe(false);
    expect(seeded?.equals(again as Buffer)).toBe(true);

    const parts = await merged("dare-parts", "--out-shard-size", "1k");
    expect(parts.length).toBeGreaterThan(1);
    const counts = parts.map((bytes) => {
      const header = JSON.parse(bytes.subarray(8, 8 + Number(bytes.readBigUInt64LE())).toString());
      const shapes = Object.entries<{ shape: number[] }>(header).flatMap(([name, { shape }]) =>
        name === "__metadata__" ? [] : [shape.reduce((product, size) => product * size, 1)],
      );
      return { tensors: shapes.length, parameters: shapes.reduce((sum, size) => sum + size, 0) };
    });
    for (const { tensors, parameters } of counts) expect(tensors === 1 || parameters <= 1000).toBe(true);
    await expectRefused(["merge", "dare.yml", "no", "--out-shard-size", "5GB"], root, WRONG_USAGE, /such as 5B/);
  });

  it("all problems at once, before models are opened", async () => {
    const text =
      "merge_method: ties\nmodels: [{ model: none }]\ntokenizer: { tokens: { a: 1 } }\nparameters: { rescale: [], weight: 1 }\n";
    writeFileSync(at("bad.yml"), text);
    const args = ["merge", "bad.yml", "--out", "no"];
    const message = await expectRefused(args, root, WRONG_USAGE, /bad\.yml cannot be merged as it is:/);
    expect(message.match(/^ {2}- line \d/gm)).toEqual(["  - line 3", "  - line 4"]);
  });
});
