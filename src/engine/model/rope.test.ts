// Inverse frequencies against those that transformers computes, for heads of usual width.
import { describe, expect, it } from "vitest";
import { configOf, readJson } from "../../../test/support/decoder-fixtures.js";
import type { RopeSpec } from "../../families/index.js";
import { readSpec } from "./read-spec.js";

interface Made {
  readonly frequencies: readonly number[];
  readonly attention_factor: number;
  readonly long?: readonly number[];
}

type Case = { readonly config: Record<string, unknown> } & Made & Readonly<Record<string, Made | undefined>>;

const cases = readJson("rope.json") as Record<string, Case>;

// transformers computes in float32: a power rounds its exponent, whose error grows with the logarithm of the base.
const TOLERANCE = 2e-6;

function expectFrequencies(rope: RopeSpec | undefined, made: Made | undefined): void {
  const close = (ours: ArrayLike<number>, theirs: readonly number[]) => {
    expect(ours.length).toBe(theirs.length);
    theirs.forEach((value, i) => {
      expect(Math.abs((ours[i] as number) - value)).toBeLessThanOrEqual(TOLERANCE * value);
    });
  };
  if (!rope || !made) throw new Error("nothing to compare");
  close(rope.frequencies, made.frequencies);
  close(rope.long?.frequencies ?? [], made.long ?? []);
  expect(rope.attentionFactor).toBeCloseTo(made.attention_factor, 12);
}

describe("frequencies", () => {
  it.each(Object.keys(cases).filter((name) => !name.startsWith("gemma")))("%s", (name) => {
    const { config, ...made } = cases[name] as Case;
    const { ropes } = readSpec(configOf(config));
    expect(ropes).toHaveLength(1);
    expectFrequencies(ropes[0], made as unknown as Made);
  });

  it.each(["gemma3", "gemma4"])("%s: one rotation for each kind of layer", (name) => {
    const made = cases[name] as Case;
    const { ropes } = readSpec(configOf(made.config));
    expectFrequencies(ropes[0], made.full_attention);
    expectFrequencies(ropes[1], made.sliding_attention);
  });

  it("turn a part of each head, and other ones for long sequences", () => {
    const [rope] = readSpec(configOf((cases.longrope as Case).config)).ropes;
    expect(rope).toMatchObject({ dimensions: 48, pairs: "half", long: { above: 4096 } });
  });
});

describe("layouts", () => {
  const llama = (changes: Record<string, unknown>) =>
    readSpec(
      configOf({ model_type: "llama", num_hidden_layers: 1, hidden_size: 64, num_attention_heads: 4, ...changes }),
    ).ropes[0] as RopeSpec;
  const second = (rope: RopeSpec) => rope.frequencies[1] as number;

  it("a base in the object wins over one beside it, and rope_scaling over rope_parameters", () => {
    expect(second(llama({}))).toBe(10_000 ** -0.125);
    expect(second(llama({ rope_theta: 256 }))).toBe(0.5);
    expect(second(llama({ rope_theta: 7, rope_parameters: { rope_type: "default", rope_theta: 256 } }))).toBe(0.5);
    const linear = { type: "linear", factor: 2 };
    expect(second(llama({ rope_theta: 256, rope_parameters: { rope_theta: 7 }, rope_scaling: linear }))).toBe(0.25);
    expect(second(llama({ rope_theta: 256, rope_scaling: null, rope_parameters: null }))).toBe(0.5);
    expect(second(llama({ rope_theta: 256, rope_scaling: {} }))).toBe(0.5);
  });

  it("rope_type wins over type", () => {
    expect(second(llama({ rope_theta: 256, rope_scaling: { rope_type: "linear", type: "llama3", factor: 2 } }))).toBe(
      0.25,
    );
  });

  it("yarn without a factor stretches to the context", () => {
    const scaling = { rope_type: "yarn", original_max_position_embeddings: 512 };
    const given = llama({ rope_scaling: { ...scaling, factor: 4 }, max_position_embeddings: 2048 });
    expect(llama({ rope_scaling: { ...scaling, factor: null }, max_position_embeddings: 2048 })).toEqual(given);
    expect(given.attentionFactor).toBeCloseTo(0.1 * Math.log(4) + 1, 15);
  });

  it("the original length beside the scaling wins over the one in it, and the context stands in for both", () => {
    const scaling = { rope_type: "llama3", factor: 8, low_freq_factor: 1, high_freq_factor: 4 };
    const inside = llama({ rope_scaling: { ...scaling, original_max_position_embeddings: 512 } });
    const beside = { original_max_position_embeddings: 512 };
    expect(llama({ rope_scaling: { ...scaling, original_max_position_embeddings: 9 }, ...beside })).toEqual(inside);
    expect(llama({ rope_scaling: scaling, max_position_embeddings: 512 })).toEqual(inside);
  });

  it('phi3 calls LongRoPE "su" and "yarn" too', () => {
    const config = readJson("phi3-longrope/config.old.json");
    const named = (type: string) =>
      readSpec(configOf({ ...config, rope_scaling: { ...(config.rope_scaling as object), type } }));
    expect(named("su")).toEqual(named("longrope"));
    expect(named("yarn")).toEqual(named("longrope"));
  });
});
