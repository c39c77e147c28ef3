// How metadata say that answers are drawn.

import type { GgufHeader } from "./header.js";

/** The repetition penalty in metadata. llama.cpp's own programs apply it to the last tokens. */
export const PENALTY_KEY = "general.sampling.penalty_repeat";

/** Settings of sampling in metadata that are no part of generation_config.json, with values that change nothing. */
const OWN_SAMPLERS = { xtc_probability: 0, mirostat: 0 };

/** How metadata say that answers are drawn, as fields of generation_config.json. */
export function ggufGeneration({ metadata }: Pick<GgufHeader, "metadata">): Readonly<Record<string, unknown>> {
  const penalty = metadata.get(PENALTY_KEY);
  const others = Object.entries(OWN_SAMPLERS).flatMap(([name, neutral]) => {
    const value = metadata.get(`general.sampling.${name}`);
    return value === undefined || value === neutral ? [] : [[name, value]];
  });
  return {
    ...(typeof penalty === "number" ? { repetition_penalty: shortest(penalty) } : {}),
    ...Object.fromEntries(others),
  };
}

/** The shortest decimal number with the same float32 value: 1e-5, and not 0.000009999999747378752. */
export function shortest(value: number): number {
  if (Math.fround(value) !== value) return value;
  for (let digits = 1; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}
