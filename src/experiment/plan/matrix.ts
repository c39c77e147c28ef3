import { groupBy, isObject, mergeObjects } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { checkSchema, formatProblem, type Problem } from "../../kit/settings/index.js";
import { type ExperimentPlan, matrixPlanSchema } from "./plan-schema.js";
import { settle } from "./settle.js";

export interface Combination {
  /** For folders and commands: `aya-LoRA-Swahili`. Empty without a matrix. */
  readonly id: string;
  /** `aya, LoRA, Swahili`; empty without a matrix. */
  readonly title: string;
  /** The value of each axis. */
  readonly values: Readonly<Record<string, string>>;
}

export interface Variant extends Combination {
  readonly plan: ExperimentPlan;
}

type ProblemsByVariant = readonly (readonly Problem[])[];

export interface SettledVariants {
  /** Undefined if the matrix or a variant breaks the schema. */
  readonly variants?: readonly Variant[];
  /** If a schema is broken, the problems with it, in one list; otherwise what is wrong across the fields of each variant. */
  readonly problems: ProblemsByVariant;
  /** Problems where they are written, each once. */
  readonly locate: (problems: ProblemsByVariant) => readonly Problem[];
}

type Path = readonly PropertyKey[];
type Fields = Readonly<Record<string, unknown>>;
type Matrix = Readonly<Record<string, Readonly<Record<string, Fields>>>>;

const WHOLE: readonly Path[] = [
  ...["name", "out", "title", "notes", "executor", "matrix"].map((field) => [field]),
  ...["data", "allow_code", "unsafe_code"].map((field) => ["evaluate", field]),
];

/** Settles every variant of a plan; the plan itself where it has no matrix. */
export function settleVariants(value: unknown): SettledVariants {
  const locate = (all: ProblemsByVariant) => all.flat();
  if (!isObject(value) || value.matrix === undefined) {
    const { value: plan, problems } = settle(value);
    return { ...(plan ? { variants: [{ id: "", title: "", values: {}, plan }] } : {}), problems: [problems], locate };
  }
  const { value: declared, problems: broken } = checkSchema(matrixPlanSchema, value);
  const matrix = declared?.matrix;
  const wrong = matrix ? overrideProblems(matrix) : broken;
  if (!matrix || wrong.length > 0) return { problems: [wrong], locate };
  const { matrix: _, ...shared } = value;
  const combinations = combinationsOf(matrix);
  const planOf = ({ values }: Combination): Fields =>
    Object.entries(values).reduce((plan, [axis, value]) => mergeObjects(plan, matrix[axis]?.[value] ?? {}), shared);
  const checked = combinations.map((one) => settle(planOf(one)));
  const variants = combinations.flatMap((one, i) => {
    const plan = checked[i]?.value;
    return plan ? [{ ...one, plan }] : [];
  });
  const isBroken = variants.length < combinations.length;
  return {
    ...(isBroken ? {} : { variants }),
    problems: checked.map(({ value: plan, problems }) => (isBroken && plan ? [] : problems)),
    locate: (all) => locateProblems(all, shared, matrix, combinations),
  };
}

function overrideProblems(matrix: Matrix): Problem[] {
  return Object.entries(matrix).flatMap(([axis, values]) =>
    Object.entries(values).flatMap(([value, override]) =>
      WHOLE.filter((field) => depthOf(override, field) === field.length).map((field) => ({
        path: ["matrix", axis, value, ...field],
        message: "is the same for all variants; set it outside the matrix",
      })),
    ),
  );
}

/** All combinations; the last axis changes first. */
function combinationsOf(matrix: Matrix): Combination[] {
  let all: Readonly<Record<string, string>>[] = [{}];
  for (const [axis, values] of Object.entries(matrix)) {
    all = all.flatMap((one) => Object.keys(values).map((value) => ({ ...one, [axis]: value })));
  }
  const taken = new Set<string>();
  return all.map((values) => {
    const title = Object.values(values).join(", ");
    return { id: freeId(title, taken, "variant"), title, values };
  });
}

function depthOf(value: unknown, path: Path): number {
  let [inner, depth] = [value, 0];
  for (const key of path) {
    if (typeof inner !== "object" || inner === null || !Object.hasOwn(inner, key)) break;
    inner = (inner as Record<PropertyKey, unknown>)[key];
    depth++;
  }
  return depth;
}

/**
 * The values that some variants have in common: `aya, LoRA`; empty if there are none.
 * @param all all variants: an axis on which they all agree says nothing
 */
export function commonTitle(some: readonly Pick<Combination, "values">[], all: readonly Pick<Combination, "values">[]) {
  return Object.values(commonValues(some, all)).join(", ");
}

function commonValues(some: readonly Pick<Combination, "values">[], all: readonly Pick<Combination, "values">[]) {
  const agree = (axis: string, variants: typeof some) => new Set(variants.map(({ values }) => values[axis])).size === 1;
  const entries = Object.entries(some[0]?.values ?? {}).filter(([axis]) => agree(axis, some) && !agree(axis, all));
  return Object.fromEntries(entries);
}

/** Finds where the problems of variants are written: in an override, or in the plan. @param all the variants */
function locateProblems(
  problems: ProblemsByVariant,
  shared: Fields,
  matrix: Matrix,
  all: readonly Combination[],
): Problem[] {
  /** The path of the override that has most of a path, or of the plan. */
  const prefixOf = (path: Path, { values }: Combination, isCommon: boolean): Path => {
    let [most, prefix] = [depthOf(shared, path), [] as Path];
    for (const [axis, value] of Object.entries(values)) {
      const depth = depthOf(matrix[axis]?.[value], path);
      const isTie = depth === most && depth > 0 && !(isCommon && prefix.length === 0);
      if (depth > most || isTie) [most, prefix] = [depth, ["matrix", axis, value]];
    }
    return prefix;
  };
  const found = problems.flatMap((own, i) => own.map((problem) => ({ problem, of: all[i] as Combination })));
  return [...groupBy(found, ({ problem }) => formatProblem(problem)).values()].flatMap((alike) => {
    const { at, path, message, ...rest } = (alike[0] as (typeof alike)[number]).problem;
    const of = [...new Set(alike.map((one) => one.of))];
    const places = of.map((one) => ({ one, prefix: prefixOf(at ?? path, one, of.length === all.length) }));
    return [...groupBy(places, ({ prefix }) => JSON.stringify(prefix)).values()].map((inPlace) => {
      const [{ prefix } = { prefix: [] }] = inPlace;
      const here = inPlace.map(({ one }) => one);
      const [, axis = "", value] = prefix.map(String);
      const could = value === undefined ? all : all.filter(({ values }) => values[axis] === value);
      return {
        ...rest,
        path: [...prefix, ...path],
        ...(at ? { at: [...prefix, ...at] } : {}),
        message: here.length === could.length ? message : `${message} (in ${describe(here, all)})`,
      };
    });
  });
}

/** `aya, LoRA`, or `aya, LoRA, Swahili and 2 more variants` */
function describe(some: readonly Combination[], all: readonly Combination[]): string {
  const common = commonValues(some, all);
  const like = all.filter(({ values }) => Object.entries(common).every(([axis, value]) => values[axis] === value));
  if (like.length === some.length) return Object.values(common).join(", ");
  return `${some[0]?.title}${some.length > 1 ? ` and ${plural(some.length - 1, "more variant")}` : ""}`;
}

const MAX_ID = 100;

/** A part of a name that needs no quoting in a shell, unique and fit for a file. @param fallback if nothing is left */
export function freeId(name: string, taken: Set<string>, fallback: string): string {
  const plain = name
    .replace(/[^\p{L}\p{N}.+_-]+/gu, "-")
    .replace(/^[-.]+|[-.]+$/g, "")
    .slice(0, MAX_ID);
  const id = plain === "" ? fallback : plain;
  let free = id;
  // File names may not differ in case alone.
  for (let count = 2; taken.has(free.toLowerCase()); count++) free = `${id}-${count}`;
  taken.add(free.toLowerCase());
  return free;
}
