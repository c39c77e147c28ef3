// Translates each mergekit method to a recipe. Defaults are written out even if the recipe's are the same.
import { didYouMean, shorten } from "../../core/index.js";
import type { SourceRecipe } from "../methods/fields.js";
import type { Parameter } from "../methods/parameter.js";
import type { Range, Wanted } from "./mergekit-settings.js";

/** A model of a slice, limited to the slice's layers. */
export interface Operand {
  readonly recipe: SourceRecipe;
}

/** One slice of the result, as a method sees it. */
export interface SliceMerge {
  readonly models: readonly Operand[];
  /** The operand that is base_model. */
  readonly base: Operand | undefined;
  /** Whether a base_model is named that is not among the models. */
  readonly lacksBase: boolean;
  /** Operands that are not base_model. */
  readonly others: readonly Operand[];
  /** A parameter of the merge. */
  readonly common: (wanted: Wanted) => Parameter;
  /** A parameter of a model. */
  readonly own: (operand: Operand, wanted: Wanted) => Parameter;
  /** Reports a problem; `parameter` is the one that causes it. */
  readonly problem: (message: string, parameter?: string) => undefined;
}

export interface Translation {
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

const SHARE: Range = { low: 0, high: 1 };
const SIZE: Range = { low: -1e9, high: 1e9 };
/** mergekit cuts at a number of elements. */
const EXACT = { cutoff: "exact" };
const WEIGHT: Wanted = { name: "weight", range: SIZE };

/** Methods by mergekit's name. */
export const TRANSLATIONS: Readonly<Record<string, Translation>> = {
  linear: { own: ["weight"], common: ["normalize"], isRounded: true, make: linear },
  slerp: { own: [], common: ["t"], isRounded: false, make: slerp },
  nuslerp: {
    own: ["weight"],
    common: ["nuslerp_flatten", "nuslerp_row_wise"],
    isRounded: true,
    make: nuslerp,
  },
  task_arithmetic: taskVectors("task_arithmetic", {}),
  ties: taskVectors("ties", {
    own: { density: 1 },
    normalize: true,
    fixed: { trim: "tensor", ...EXACT },
    rescale: false,
  }),
  dare_linear: taskVectors("dare_linear", { own: { density: 1 }, rescale: true }),
  dare_ties: taskVectors("dare_ties", { own: { density: 1 }, rescale: true }),
  breadcrumbs: taskVectors("breadcrumbs", { own: { density: 1, gamma: 0.01 }, fixed: EXACT, rescale: false }),
  breadcrumbs_ties: taskVectors("breadcrumbs_ties", { own: { density: 1, gamma: 0.01 }, fixed: EXACT, rescale: false }),
  della: taskVectors("della", { own: { density: 1, epsilon: 0.15 }, normalize: true, rescale: true }),
  della_linear: taskVectors("della_linear", { own: { density: 1, epsilon: 0.15 }, rescale: true }),
  model_stock: { own: [], common: ["filter_wise"], isRounded: true, make: modelStock },
  sce: { own: [], common: ["select_topk", "int8_mask"], isRounded: true, make: sce },
  multislerp: { own: ["weight"], common: ["normalize_weights", "eps"], isRounded: true, make: multislerp },
  karcher: { own: [], common: ["max_iter", "tol"], isRounded: true, make: karcher },
  ram: { own: [], common: ["epsilon"], isRounded: true, make: ram("ram") },
  ramplus_tl: { own: [], common: ["epsilon", "r", "alpha"], isRounded: true, make: ram("ramplus_tl") },
  arcee_fusion: { own: [], common: [], isRounded: true, make: arceeFusion },
  nearswap: { own: [], common: ["t"], isRounded: true, make: nearswap },
  passthrough: { own: ["scale"], common: [], isRounded: false, make: passthrough },
};

/** Why a method cannot be translated; undefined if it can. */
export function refusalOf(method: string): string | undefined {
  if (Object.hasOwn(TRANSLATIONS, method)) return undefined;
  const known = Object.keys(TRANSLATIONS);
  return `mergekit has no method ${shorten(method)}; supported are ${known.join(", ")}${didYouMean(method, known)}`;
}

/** Every parameter that some method of mergekit has. */
export const PARAMETERS: readonly string[] = [
  ...new Set(Object.values(TRANSLATIONS).flatMap(({ own, common }) => [...own, ...common])),
];

/** A parameter that is true or false, perhaps not the same for all tensors. */
function switched({ common }: SliceMerge, name: string, fallback: boolean): boolean | Parameter {
  const value = common({ name, fallback: Number(fallback) });
  return typeof value === "number" ? value !== 0 : value;
}

/** One value for all tensors, as some parameters of mergekit's methods are; true is 1. */
function oneValue(slice: SliceMerge, name: string, fallback: number): number {
  const value = slice.common({ name, fallback, range: SIZE });
  return typeof value === "number"
    ? value
    : (slice.problem(`${name} must be one value for all tensors`, name) ?? fallback);
}

/** Models with their weights. */
function weighted(models: readonly Operand[], { own }: SliceMerge) {
  return models.map((model) => ({ model: model.recipe, weight: own(model, WEIGHT) }));
}

function linear(slice: SliceMerge): SourceRecipe {
  const normalize = switched(slice, "normalize", true);
  const models = weighted(slice.models, slice);
  const [first] = models;
  if (normalize === true && first && models.length === 1) return first.model;
  return { method: "soup", models, ...(normalize === true ? {} : { normalize }) };
}

/** A method that takes base_model and another one. @param make its fields, besides its name */
function onPair(
  { models, base, others: [other, another], problem }: SliceMerge,
  method: string,
  make: (base: SourceRecipe, other: SourceRecipe) => object,
): SourceRecipe | undefined {
  const [only] = models;
  if (only && models.length === 1) return only.recipe;
  if (!base || !other || another) return problem(`${method} takes two models, of which one is base_model`);
  return { method, ...make(base.recipe, other.recipe) };
}

function slerp(slice: SliceMerge): SourceRecipe | undefined {
  const t = slice.common({ name: "t", range: SHARE });
  return onPair(slice, "slerp", (base, other) => ({ models: [base, other], t }));
}

function nuslerp(slice: SliceMerge): SourceRecipe | undefined {
  const { models, base, others } = slice;
  const isFlat = oneValue(slice, "nuslerp_flatten", 1) !== 0;
  // mergekit's row-wise mode interpolates along the first dimension: each column of the stored matrix.
  const lines = oneValue(slice, "nuslerp_row_wise", 0) !== 0 ? "columns" : "rows";
  const merged = weighted(others, slice);
  const [only] = models;
  if (only && models.length === 1) return only.recipe;
  if (others.length !== 2 || slice.lacksBase)
    return slice.problem(
      "nuslerp needs two models in every slice, and optionally a base_model that is neither of them",
    );
  return {
    method: "nuslerp",
    models: merged,
    ...(base ? { base: base.recipe } : {}),
    ...(isFlat ? {} : { [lines]: true }),
  };
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

function taskVectors(
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
function onBase(slice: SliceMerge, method: string, fields: object): SourceRecipe | undefined {
  const { models, base, others } = slice;
  if (base && models.length === 1) return base.recipe;
  if (!base || others.length < 2)
    return slice.problem(`${method} needs base_model and at least two other models in every slice`);
  return { method, models: others.map(({ recipe }) => recipe), base: base.recipe, ...fields };
}

function modelStock(slice: SliceMerge): SourceRecipe | undefined {
  return onBase(slice, "model_stock", oneValue(slice, "filter_wise", 0) !== 0 ? { rows: true } : {});
}

function multislerp(slice: SliceMerge): SourceRecipe | undefined {
  const { models, base, others } = slice;
  const normalize = oneValue(slice, "normalize_weights", 1) !== 0;
  const merged = weighted(others, slice);
  const [only] = others.length > 0 ? others : models;
  if (only && others.length < 2) return only.recipe;
  return { method: "multislerp", models: merged, ...(base ? { base: base.recipe } : {}), normalize };
}

function karcher(slice: SliceMerge): SourceRecipe | undefined {
  const [only] = slice.models;
  const [iterations, tolerance] = [oneValue(slice, "max_iter", 10), oneValue(slice, "tol", 1e-5)];
  if (only && slice.models.length === 1) return only.recipe;
  return { method: "karcher", models: slice.models.map(({ recipe }) => recipe), iterations, tolerance };
}

function ram(method: "ram" | "ramplus_tl") {
  return (slice: SliceMerge): SourceRecipe | undefined => {
    const threshold = oneValue(slice, "epsilon", 1e-5);
    const plus = method === "ram" ? {} : { r: oneValue(slice, "r", 0.1), alpha: oneValue(slice, "alpha", 0.2) };
    return onBase(slice, method, { threshold, ...plus });
  };
}

function arceeFusion(slice: SliceMerge): SourceRecipe | undefined {
  return onPair(slice, "arcee_fusion", (base, expert) => ({ expert, base }));
}

function sce(slice: SliceMerge): SourceRecipe | undefined {
  const select = slice.common({ name: "select_topk", fallback: 1, range: { ...SHARE, clamps: true } });
  return onBase(slice, "sce", { select, ...EXACT });
}

function nearswap(slice: SliceMerge): SourceRecipe | undefined {
  const t = slice.common({ name: "t", range: { low: 0, high: 1e9 } });
  return onPair(slice, "nearswap", (task, language) => ({ task, language, t }));
}

function passthrough(slice: SliceMerge): SourceRecipe | undefined {
  const { models, own } = slice;
  const [only] = models;
  const scales = models.map((model) => own(model, { name: "scale", fallback: 1, range: SIZE }));
  if (!only || models.length > 1) return slice.problem("passthrough takes one model per slice");
  const [scale = 1] = scales;
  return scale === 1 ? only.recipe : { method: "passthrough", slices: [{ model: only.recipe, scale }] };
}
