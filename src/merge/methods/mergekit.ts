// What methods translate mergekit's configurations with. Defaults are written out even if the recipe's are the same.
import type { SourceRecipe } from "./method.js";
import type { Parameter } from "./parameter.js";

/** A parameter that a method asks for. */
export interface Wanted {
  readonly name: string;
  /** Default; undefined if the parameter is required. */
  readonly fallback?: number;
  /** Allowed values, if restricted. */
  readonly range?: Range;
}

export interface Range {
  readonly low: number;
  readonly high: number;
  /** Whether values above the range are allowed and mean its upper bound. */
  readonly clamps?: boolean;
  readonly isWhole?: boolean;
  /** The smallest size beside 0. */
  readonly least?: number;
}

/** A model of a slice, limited to the slice's layers. */
export interface SliceModel {
  readonly recipe: SourceRecipe;
}

/** One slice of the result, as a method sees it. */
export interface SliceMerge {
  readonly models: readonly SliceModel[];
  /** The operand that is base_model. */
  readonly base: SliceModel | undefined;
  /** Whether a base_model is named that is not among the models. */
  readonly lacksBase: boolean;
  /** SliceModels that are not base_model. */
  readonly others: readonly SliceModel[];
  /** A parameter of the merge. */
  readonly common: (wanted: Wanted) => Parameter;
  /** A parameter of a model. */
  readonly own: (operand: SliceModel, wanted: Wanted) => Parameter;
  /** Reports a problem; `parameter` is the one that causes it. */
  readonly problem: (message: string, parameter?: string) => undefined;
}

/** How a method reads a configuration of mergekit. */
export interface Translation {
  /** mergekit's name of the method; default the same. */
  readonly name?: string;
  /** Parameters set per model. */
  readonly own: readonly string[];
  /** Parameters set for the whole merge. */
  readonly common: readonly string[];
  /** Whether mergekit rounds more than once where its dtype is narrower than float32. */
  readonly isRounded: boolean;
  readonly isRandom?: true;
  /** The slice as a source; undefined where a problem was found. */
  readonly make: (slice: SliceMerge) => SourceRecipe | undefined;
}

export const SHARE: Range = { low: 0, high: 1 };
export const SIZE: Range = { low: -1e9, high: 1e9, least: 1e-9 };
/** mergekit cuts at a number of elements. */
export const EXACT = { cutoff: "exact" };
const WEIGHT: Wanted = { name: "weight", range: SIZE };

/** A parameter that is true or false, perhaps not the same for all tensors. */
export function switched({ common }: SliceMerge, name: string, fallback: boolean): boolean | Parameter {
  const value = common({ name, fallback: Number(fallback) });
  return typeof value === "number" ? value !== 0 : value;
}

/** One value for all tensors, as some parameters of mergekit's methods are; true is 1. */
export function oneValue(slice: SliceMerge, name: string, fallback: number, range = SIZE): number {
  const value = slice.common({ name, fallback, range });
  return typeof value === "number"
    ? value
    : (slice.problem(`${name} must be one value for all tensors`, name) ?? fallback);
}

/** Models with their weights. */
export function weighted(models: readonly SliceModel[], { own }: SliceMerge) {
  return models.map((model) => ({ model: model.recipe, weight: own(model, WEIGHT) }));
}

/** A method that takes base_model and another one. @param make its fields, besides its name */
export function onPair(
  { models, base, others: [other, another], problem }: SliceMerge,
  method: string,
  make: (base: SourceRecipe, other: SourceRecipe) => object,
): SourceRecipe | undefined {
  const [only] = models;
  if (only && models.length === 1) return only.recipe;
  if (!base || !other || another) return problem(`${method} takes two models, of which one is base_model`);
  return { method, ...make(base.recipe, other.recipe) };
}

interface TaskVectorMethod {
  /** Parameters of a model besides its weight, and their defaults. */
  readonly own?: Readonly<Record<string, number>>;
  /** Default of `normalize`. */
  readonly normalize?: boolean;
  /** Fields that are always set. */
  readonly fixed?: object;
  /** Default of `rescale`; true for methods that drop at random. */
  readonly rescale?: boolean;
}

export function taskVectors(
  method: string,
  { own = {}, normalize = false, fixed = {}, rescale }: TaskVectorMethod,
): Translation {
  return {
    own: ["weight", ...Object.keys(own)],
    common: ["normalize", "lambda", "int8_mask", ...(rescale === undefined ? [] : ["rescale"])],
    isRounded: true,
    ...(rescale ? { isRandom: true } : {}),
    make: (slice) => {
      const { base, others } = slice;
      if (!base) return slice.problem(`${method} needs base_model, among the sources of every slice`);
      const weights = others.map((model) => slice.own(model, WEIGHT));
      const parameters = Object.entries(own).map(([name, fallback]): [string, readonly Parameter[]] => {
        // mergekit accepts a density above 1.
        const range: Range = name === "density" ? { ...SHARE, clamps: true } : SHARE;
        return [name, others.map((model) => slice.own(model, { name, fallback, range }))];
      });
      const scaled = rescale === undefined ? {} : rescaled(slice, rescale);
      const lambda = slice.common({ name: "lambda", fallback: 1, range: SIZE });
      const isNormalized = switched(slice, "normalize", normalize);
      if (others.length === 0) return base.recipe;
      const shared = parameters.filter(([, values]) => areSame(values));
      const single = parameters.filter(([, values]) => !areSame(values));
      return {
        method,
        models: others.map(({ recipe }, i) => ({
          model: recipe,
          weight: weights[i],
          ...Object.fromEntries(single.map(([name, values]) => [name, values[i]])),
        })),
        base: base.recipe,
        ...Object.fromEntries(shared.map(([name, values]) => [name, values[0]])),
        ...fixed,
        ...scaled,
        normalize: isNormalized,
        ...(lambda === 1 ? {} : { lambda }),
      };
    },
  };
}

function areSame(values: readonly Parameter[]): boolean {
  return new Set(values.map((value) => JSON.stringify(value))).size === 1;
}

/** `rescale` of mergekit restores L1 norms. Methods that drop at random have another default here. */
function rescaled(slice: SliceMerge, fallback: boolean): object {
  const isRescaled = switched(slice, "rescale", fallback);
  if (typeof isRescaled !== "boolean") return { rescale: isRescaled };
  return isRescaled || fallback ? { rescale: isRescaled ? "norm" : "none" } : {};
}

/** A method that takes other models than base_model, two at least, without parameters of their own. */
export function onBase(slice: SliceMerge, method: string, fields: object): SourceRecipe | undefined {
  const { models, base, others } = slice;
  if (base && models.length === 1) return base.recipe;
  if (!base || others.length < 2)
    return slice.problem(`${method} needs base_model and at least two other models in every slice`);
  return { method, models: others.map(({ recipe }) => recipe), base: base.recipe, ...fields };
}
