// What else a recipe may give where values are equal: elements at the magnitude that is cut at, and votes of signs that cancel out.
import { isLeaf, type Measured, measurementsOf, type Value } from "../../tensor/expressions/index.js";
import type { CutMeasurement, Measurement } from "../../tensor/measurements/index.js";

/** A recipe's numbers and values where models of a tensor count a little more or less than they do. */
export interface NearCut {
  readonly measured: Measured;
  readonly value: (value: Value) => Value;
}

/** Models of which the cuts and votes are told apart; each doubles the values that are looked at. */
const MOST_MODELS = 3;

/**
 * @param values of the tensors
 * @param unit magnitudes count as equal if they are when they are rounded to a dtype of this unit roundoff
 */
export function nearCuts(
  measured: Measured,
  measurements: readonly Measurement[],
  values: readonly Value[],
  unit: number,
): NearCut[] {
  const cuts = measurements.filter((one): one is CutMeasurement => one.kind === "cut" && one.isExact);
  const voters = Math.max(0, ...values.map(votersIn));
  if (cuts.length === 0 && voters === 0) return [];
  const placeOf = new Map(
    values.flatMap((value) => measurementsOf(value).map((id, place) => [id, place % MOST_MODELS] as const)),
  );
  const models = Math.min(MOST_MODELS, Math.max(voters, ...cuts.map(({ id }) => (placeOf.get(id) ?? 0) + 1)));
  return Array.from({ length: 2 ** models }, (_, bits) => {
    const factor = (model: number) => 1 + (((bits >> (model % MOST_MODELS)) & 1) === 0 ? -2 : 2) * unit;
    const ends = new Map(measured);
    for (const { id } of cuts) {
      const [low = 0, ...others] = measured.get(id) as readonly number[];
      ends.set(id, [low * factor(placeOf.get(id) ?? 0), ...others]);
    }
    return { measured: ends, value: (value) => withVotes(value, factor) };
  });
}

// A method's operation, whose name the types do not have.
const isVote = (value: Value) => "op" in value && (value.op as string) === "elect-signs";

function votersIn(value: Value): number {
  if (isLeaf(value)) return 0;
  if ("op" in value) return Math.max(isVote(value) ? value.of.length : 0, ...value.of.map(votersIn));
  return Math.max(0, ...("sum" in value ? value.sum : value.blend).map((one) => votersIn(one.value)));
}

/** The value with the votes of each model times a factor. */
function withVotes(value: Value, factor: (model: number) => number): Value {
  const inner = (one: Value) => withVotes(one, factor);
  const weighted = <W extends { readonly value: Value }>(one: W): W => ({ ...one, value: inner(one.value) });
  if (isLeaf(value)) return value;
  if ("sum" in value) return { sum: value.sum.map(weighted) };
  if ("blend" in value) return { blend: value.blend.map(weighted) };
  const vote = (one: Value, model: number): Value => ({ sum: [{ weight: factor(model), value: inner(one) }] });
  return { ...value, of: value.of.map(isVote(value) ? vote : inner) };
}
