// Weights held as codes, against the same weights in float32: in every family, from recipes, alone and in batches, shared.
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import {
  encodeValues,
  type FloatDType,
  seededFloats,
  temporaryFolder,
  writeTiny,
} from "../../test/support/checkpoints.js";
import { elementCount } from "../core/index.js";
import type { RecipeInput } from "../merge/index.js";
import type { OpenEngineOptions } from "./engine.js";
import { type Engine, openEngine } from "./engine.js";
import { golden } from "./golden.test-util.js";
import type { WeightType } from "./layered-session.js";
import type { EngineSource } from "./model-source.js";

const folder = temporaryFolder();
const VOCABULARY = 48;
const CONFIG = { hidden_size: 64, intermediate_size: 96, num_attention_heads: 4, num_key_value_heads: 2 };
const TEXTS = [
  [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2],
  [2, 7, 1, 8, 2, 8],
  [31, 41, 5, 9, 26, 5, 35],
];

const SHAPES: [string, number[]][] = [
  ["model.embed_tokens.weight", [VOCABULARY, 64]],
  ...[0, 1].flatMap((layer): [string, number[]][] => {
    const at = `model.layers.${layer}`;
    return [
      [`${at}.input_layernorm.weight`, [64]],
      [`${at}.self_attn.q_proj.weight`, [64, 64]],
      [`${at}.self_attn.k_proj.weight`, [32, 64]],
      [`${at}.self_attn.v_proj.weight`, [32, 64]],
      [`${at}.self_attn.o_proj.weight`, [64, 64]],
      [`${at}.post_attention_layernorm.weight`, [64]],
      [`${at}.mlp.gate_proj.weight`, [96, 64]],
      [`${at}.mlp.up_proj.weight`, [96, 64]],
      [`${at}.mlp.down_proj.weight`, [64, 96]],
    ];
  }),
  ["model.norm.weight", [64]],
  ["lm_head.weight", [VOCABULARY, 64]],
];

/** Largest magnitude of a code, and the sign of the one that a block of 4 bits has. */
const EXTREME = { int8: 127, int4: -8 };

/** Tensors whose blocks are multiples of a power of two, which codes of this type hold exactly. */
function exactValues(type: "int8" | "int4", seed: number): { name: string; shape: number[]; values: Float32Array }[] {
  const extreme = EXTREME[type];
  const most = Math.abs(extreme) - (extreme < 0 ? 1 : 0);
  const scale = 2 ** -Math.ceil(Math.log2(most) + 1);
  return SHAPES.map(([name, shape], i) => {
    const random = seededFloats(elementCount(shape), 100 * seed + i);
    const values = random.map((x, at) => scale * (at % 32 === at % 7 ? extreme : Math.round(x * most)));
    return { name, shape, values };
  });
}

function writeModel(name: string, tensors: ReturnType<typeof exactValues>, dtype: FloatDType, tied = false) {
  return writeTiny(join(folder, name), {
    ...{ layers: 2, vocabulary: VOCABULARY, tied, config: CONFIG },
    edit: () =>
      tensors
        .filter(({ name }) => !tied || name !== "lm_head.weight")
        .map(({ name, shape, values }) => ({ name, dtype, shape, data: encodeValues(values, dtype) })),
  });
}

const writeExact = (name: string, type: "int8" | "int4", seed: number, tied = false) =>
  writeModel(name, exactValues(type, seed), "BF16", tied);

const open: Engine[] = [];
afterEach(async () => {
  for (const engine of open.splice(0)) await engine.close();
});

async function opened(source: EngineSource, weights: WeightType, options: OpenEngineOptions = {}): Promise<Engine> {
  const engine = await openEngine(source, { weights, threads: 1, ...options });
  open.push(engine);
  return engine;
}

const scoresOf = async (engine: Engine) => (await engine.score(TEXTS)).flat();
const apart = (a: readonly number[], b: readonly number[]) =>
  Math.max(...a.map((x, i) => Math.abs(x - (b[i] ?? Number.NaN))));
const soup = (...models: string[]): RecipeInput => ({ method: "soup", models });

describe("cut into layers", () => {
  // Windows and parallel blocks, caps, two rotations, rows of packed tensors with a rotation that changes, biases. The rows of
  // their matrices are too short for blocks, so nothing is rounded.
  it.each(["cohere2", "gemma2", "gemma3", "phi3-longrope", "starcoder2"])("%s has the same scores", async (name) => {
    const { folder: model, rows } = golden(name);
    const [whole, parts] = [await opened(model, "float32"), await opened(model, "int8")];
    const [expected, found] = [await whole.score(rows), await parts.score(rows)];
    expect(found.flat().length).toBe(rows.flat().length - rows.length);
    expect(apart(found.flat(), expected.flat())).toBeLessThan(2e-5);
  });
});

describe.each(["int8", "int4"] as const)("%s", (type) => {
  it.each([false, true])("holds weights that its codes can hold, with a tied head: %s", async (tied) => {
    const model = await writeExact(`${type}-${tied}`, type, 1, tied);
    const exact = await scoresOf(await opened(model, "float32"));
    const found = await scoresOf(await opened(model, type));
    // Only the other operand of products is rounded, to 8 bits in each block. Scores spread over several nats.
    expect(Math.max(...exact) - Math.min(...exact)).toBeGreaterThan(1);
    expect(apart(found, exact)).toBeLessThan(0.1);
    expect(apart(found, exact)).toBeGreaterThan(0);
  });

  it("holds what a recipe blends as if it were stored", async () => {
    const models = [await writeExact(`${type}-a`, type, 2), await writeExact(`${type}-b`, type, 3)];
    const others = exactValues(type, 3);
    const average = exactValues(type, 2).map((tensor, i) => ({
      ...tensor,
      values: tensor.values.map((value, at) => (value + (others[i]?.values[at] ?? Number.NaN)) / 2),
    }));
    const merged = await writeModel(`${type}-average`, average, "F32");
    const found = await scoresOf(await opened(soup(...models), type));
    expect(apart(found, await scoresOf(await opened(merged, type)))).toBeLessThan(1e-5);
    expect(apart(found, await scoresOf(await opened(merged, "float32")))).toBeLessThan(type === "int8" ? 0.1 : 0.5);
  });

  it("has the same scores on any number of threads, alone and in a batch, to the bit", async () => {
    const model = await writeExact(`${type}-threads`, type, 4);
    const engine = await opened(model, type);
    const alone: number[] = [];
    for (const text of TEXTS) alone.push(...(await engine.score([text])).flat());
    expect(await scoresOf(engine)).toEqual(alone);
    expect(await scoresOf(await opened(model, type, { threads: 3 }))).toEqual(alone);
    const answers = async (batch: number) =>
      (await engine.generate(TEXTS, { maxNewTokens: 12, stopIds: [], batch })).map(({ ids }) => ids);
    expect(await answers(3)).toEqual(await answers(1));
  });

  it("is another model to saved answers", async () => {
    const model = await writeExact(`${type}-digest`, type, 5);
    const [exact, codes] = [await opened(model, "float32"), await opened(model, type)];
    expect([codes.digest === exact.digest, codes.program.endsWith(`, ${type} weights`)]).toEqual([false, true]);
  });
});

describe("the layers of open models", () => {
  const TMP = process.env.TMPDIR;
  afterEach(() => {
    if (TMP === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMP;
  });

  it("are computed once, and freed with the last model", async () => {
    const [a, b] = [await writeExact("shared-a", "int8", 6), await writeExact("shared-b", "int8", 7)];
    const first = await openEngine(a, { weights: "int8", threads: 1 });
    const expected = await scoresOf(first);
    // Nothing can be computed from here on.
    process.env.TMPDIR = join(folder, "missing");
    await expect(opened(b, "int8")).rejects.toThrow("missing");
    const second = await openEngine(soup(a), { weights: "int8", threads: 1 });
    await first.close();
    await first.close();
    expect(await scoresOf(second)).toEqual(expected);
    await second.close();
    await expect(opened(a, "int8")).rejects.toThrow("missing");
  });
});

describe("is refused", () => {
  it("for an unknown type", async () => {
    await expect(opened(folder, "int5" as WeightType)).rejects.toThrow(
      "weights is int5; it must be one of float32, int8, int4",
    );
  });

  it("for weights that are not numbers, and opens afterwards", async () => {
    const model = join(folder, "broken");
    const broken = exactValues("int8", 8);
    const values = broken.find(({ name }) => name === "model.layers.1.mlp.up_proj.weight")?.values as Float32Array;
    values[70] = Number.NaN;
    await writeModel("broken", broken, "BF16");
    await expect(opened(model, "int8")).rejects.toThrow("not finite or too large in model.layers.1.mlp.up_proj.weight");
    await writeExact("broken", "int8", 8);
    expect((await scoresOf(await opened(model, "int8"))).every(Number.isFinite)).toBe(true);
  });

  it("when it is cancelled", async () => {
    const model = await writeExact("cancelled", "int8", 9);
    await expect(opened(model, "int8", { signal: AbortSignal.abort() })).rejects.toThrow("stopped");
  });
});
