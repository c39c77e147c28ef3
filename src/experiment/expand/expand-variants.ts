import { groupBy } from "../../kit/index.js";
import { commonTitle, type Variant } from "../plan/matrix.js";
import type { Step } from "../steps/step.js";
import { type Expansion, expandPlan } from "./expand-plan.js";
import type { Facts, Results } from "./facts.js";
import type { Waiting } from "./step-list.js";

export type PlannedVariant = Pick<Variant, "title" | "values" | "plan">;

export interface ExpandedVariant<V extends PlannedVariant = PlannedVariant> {
  readonly variant: V;
  readonly expansion: Expansion;
}

export interface Expanded<V extends PlannedVariant = PlannedVariant> {
  /** All variants together. Steps and what waits say which variants they belong to. */
  readonly expansion: Expansion;
  readonly variants: readonly ExpandedVariant<V>[];
}

/** Expands the variants of a plan. Names of models are unique within a variant. */
export function expandVariants<V extends PlannedVariant>(
  variants: readonly V[],
  facts: Facts,
  results: Results,
): Expanded<V> {
  const expanded = variants.map((variant) => ({ variant, expansion: expandPlan(variant.plan, facts, results) }));
  const [only] = expanded;
  if (only && expanded.length === 1) return { expansion: only.expansion, variants: expanded };
  const all = <K extends "models" | "searches" | "overlaps" | "changes" | "selections">(field: K) =>
    expanded.flatMap(({ expansion }): readonly Expansion[K][number][] => expansion[field]);
  const expansion = {
    steps: sharedSteps(expanded),
    runs: new Map(expanded.flatMap((one) => [...one.expansion.runs])),
    models: all("models"),
    searches: all("searches"),
    overlaps: all("overlaps"),
    changes: all("changes"),
    selections: all("selections"),
    waiting: sharedWaiting(expanded),
    warnings: sharedWarnings(expanded),
  };
  return { expansion, variants: expanded };
}

/** Entries of the variants' expansions by what is the same, and in words which variants they belong to. */
function shared<K extends "steps" | "waiting" | "warnings">(
  expanded: readonly ExpandedVariant[],
  field: K,
  keyOf: (entry: Expansion[K][number]) => string,
) {
  const all = expanded.flatMap(({ variant, expansion }) =>
    expansion[field].map((entry: Expansion[K][number]) => ({ entry, key: keyOf(entry), variant })),
  );
  return [...groupBy(all, ({ key }) => key).values()].map((some) => ({
    same: some.map(({ entry }) => entry) as [Expansion[K][number], ...Expansion[K][number][]],
    suffix: suffixOf(some, expanded),
  }));
}

function sharedSteps(expanded: readonly ExpandedVariant[]): Step[] {
  return shared(expanded, "steps", ({ key }) => key).map(({ same: [step], suffix }) => {
    const named = step.kind === "train" ? { name: `${step.name}${suffix}` } : {};
    return { ...step, ...named, label: `${step.label}${suffix}` };
  });
}

function sharedWaiting(expanded: readonly ExpandedVariant[]): Waiting[] {
  return shared(expanded, "waiting", ({ kind, what }) => `${kind} ${what}`).map(({ same, suffix }) => {
    const [{ what, kind }] = same;
    const distinct = new Map(same.map(({ of, steps }, i) => [of ?? i, steps]));
    const steps = [...distinct.values()].reduce((sum, own) => sum + own, 0);
    return { what: `${what}${suffix}`, steps, ...(kind === undefined ? {} : { kind }) };
  });
}

/** Warnings of several variants, as one: `Guards refused all 6 checkpoints of math (…). (aya, LoRA)` */
function sharedWarnings(expanded: readonly ExpandedVariant[]): string[] {
  return shared(expanded, "warnings", (text) => text).map(({ same: [text], suffix }) => `${text}${suffix}`);
}

/** ` (aya, LoRA)`, or nothing if it is about all variants */
function suffixOf(some: readonly Pick<ExpandedVariant, "variant">[], all: readonly ExpandedVariant[]): string {
  const common = commonTitle(
    some.map(({ variant }) => variant),
    all.map(({ variant }) => variant),
  );
  return common === "" ? "" : ` (${common})`;
}
