// YaRN, which stretches the rotation of a model to a longer context.
import type { ConfigFields } from "./config-fields.js";
import { type Frequencies, plain, type TypeInput } from "./rope-frequencies.js";

/** Peng et al. 2023, arXiv 2309.00071, sections 3.2 to 3.4. */
export function yarn(input: TypeInput): Frequencies {
  const { fields, theta, dimensions } = input;
  const length = input.original();
  const factor = fields.positiveOrNull("factor") ?? input.contextLength / length;
  // Waves with more turns than `fast` in the original context are kept, those with fewer than `slow` stretched.
  const fast = positiveOrZero(fields, "beta_fast") || 32;
  const slow = positiveOrZero(fields, "beta_slow") || 1;
  const pairOf = (turns: number) => (dimensions * Math.log(length / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const truncate = fields.get("truncate") === undefined || fields.flag("truncate");
  const first = Math.max(truncate ? Math.floor(pairOf(fast)) : pairOf(fast), 0);
  const last = Math.min(truncate ? Math.ceil(pairOf(slow)) : pairOf(slow), dimensions - 1);
  const span = first === last ? 0.001 : last - first; // transformers' guard against a division by zero
  const frequencies = plain(input).map((frequency, i) => {
    const stretched = Math.min(Math.max((i - first) / span, 0), 1);
    return (frequency / factor) * stretched + frequency * (1 - stretched);
  });

  const growth = (scale: number) => (factor <= 1 ? 1 : 0.1 * scale * Math.log(factor) + 1);
  const scale = positiveOrZero(fields, "mscale");
  const scaleAll = positiveOrZero(fields, "mscale_all_dim");
  const computed = scale > 0 && scaleAll > 0 ? growth(scale) / growth(scaleAll) : growth(1);
  return {
    frequencies,
    attentionFactor: fields.positiveOrNull("attention_factor") ?? computed,
    scaling: { type: "yarn", factor, original: length, fast, slow, truncate },
  };
}

/** 0 where the value is null, missing or 0, which transformers treats equally. */
function positiveOrZero(fields: ConfigFields, field: string): number {
  return fields.get(field) === 0 ? 0 : (fields.positiveOrNull(field) ?? 0);
}
