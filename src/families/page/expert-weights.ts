// The weights of a layer's experts, by the names and the layout that the family's page says.
import type { ExpertTraits } from "./family.js";
import type { ExpertMatrices, ExpertWeights, LinearWeights, StoredWeight } from "./spec.js";

/** Experts by the layout that a checkpoint has, of those that its configuration does not tell apart. */
export function asStored(traits: ExpertTraits, tensors: Iterable<string>): ExpertTraits {
  const { names } = traits;
  if (names.layout !== "each" || !names.fused) return traits;
  const { fused } = names;
  // Blocks that predict further tokens may have another layout.
  const isFused = [...tensors].some((name) => name.endsWith(`.${fused.gateUp}`) && !name.startsWith("mtp."));
  return isFused ? { ...traits, names: { layout: "fused", ...fused } } : traits;
}

/** Weights whose names begin within a layer, by their whole names. */
export function prefixed<T extends object>(weights: T, prefix: string): T {
  const named = (stored: StoredWeight) => ({ ...stored, name: prefix + stored.name });
  return Object.fromEntries(
    Object.entries(weights as Readonly<Record<string, LinearWeights>>).map(([role, { weight, bias, ...rest }]) => [
      role,
      { ...rest, weight: named(weight), ...(bias ? { bias: named(bias) } : {}) },
    ]),
  ) as T;
}

/** @param prefix of the layer, such as "layers.0." @param hidden D */
export function expertWeights(prefix: string, hidden: number, traits: ExpertTraits): ExpertWeights {
  const { routing, router, routerBias, routerFactor, correction, names, weights = {} } = traits;
  const { experts, width } = routing;
  const inner = weights.narrow?.weight.shape[0] ?? hidden;
  return {
    router: {
      ...(routerFactor === undefined ? {} : { factor: routerFactor }),
      weight: { name: `${prefix}${router}.weight`, shape: [experts, hidden] },
      ...(routerBias ? { bias: { name: `${prefix}${router}.bias`, shape: [experts] } } : {}),
    },
    ...(correction
      ? { correction: { weight: { name: `${prefix}${correction}`, shape: [experts], isConstant: true } } }
      : {}),
    ...prefixed(weights, prefix),
    ...matricesOf(),
  };

  function matricesOf(): Pick<ExpertWeights, "gate" | "up" | "gateUp" | "down"> {
    const all = (
      weightOf: (expert: number) => StoredWeight,
      ...[module, of, from = 0]: readonly [module: string, of: number, from?: number]
    ): ExpertMatrices => ({
      weights: Array.from({ length: experts }, (_, expert) => weightOf(expert)),
      parameter: { name: `${prefix}${module.replace(".*", "")}`, from, of },
    });
    if (names.layout === "each") {
      const { gate, up, down, fused = { gateUp: up, down } } = names;
      const each = (module: string, shape: readonly number[], ...place: readonly [string, number, number?]) =>
        all((expert) => ({ name: `${prefix}${module.replace("*", String(expert))}.weight`, shape }), ...place);
      const of = gate === null ? width : 2 * width;
      return {
        ...(gate === null ? {} : { gate: each(gate, [width, inner], fused.gateUp, of) }),
        up: each(up, [width, inner], fused.gateUp, of, of - width),
        down: each(down, [inner, width], fused.down, inner),
      };
    }
    /** Matrices of some rows of a tensor with those of all experts. */
    const part = (module: string, shape: readonly [number, number], of: number, from = 0) =>
      all(
        (expert) => ({
          name: `${prefix}${module}`,
          shape,
          rows: { from: expert * of + from, of: experts * of, matrices: experts },
        }),
        module,
        of,
        from,
      );
    const { gateUp, down } = names;
    if (names.layout === "fused") {
      return {
        gate: part(gateUp, [width, hidden], 2 * width),
        up: part(gateUp, [width, hidden], 2 * width, width),
        down: part(down, [hidden, width], hidden),
      };
    }
    const biased = (module: string, shape: readonly [number, number]): ExpertMatrices => ({
      ...part(module, shape, shape[0]),
      parameter: { name: `${prefix}${module}`, from: 0, of: shape[1] },
      transposed: true,
      bias: { name: `${prefix}${module}_bias`, shape: [experts, shape[1]] },
    });
    return { gateUp: biased(gateUp, [hidden, 2 * width]), down: biased(down, [width, hidden]) };
  }
}
