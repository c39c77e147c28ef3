import { groupBy } from "../../core/index.js";
import type { Facts, Results } from "../steps/facts.js";
import type { Step } from "../steps/step.js";
import { type Expansion, expandPlan } from "./expand-plan.js";
import { commonTitle, type Variant } from "./matrix.js";
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
  const all = <K extends "models" | "searches" | "overlaps" | "selections">(field: K) =>
    expanded.flatMap(({ expansion }): readonly Expansion[K][number][] => expansion[field]);
  const expansion = {
    steps: sharedSteps(expanded),
    models: all("models"),
    searches: all("searches"),
    overlaps: all("overlaps"),
    selections: all("selections"),
    waiting: sharedWaiting(expanded),
    warnings: sharedWarnings(expanded),
  };
  return { expansion, variants: expanded };
}

/** Steps of all variants; their names say which variants they belong to. */
function sharedSteps(expanded: readonly ExpandedVariant[]): Step[] {
  const all = expanded.flatMap(({ variant, expansion: { steps } }) => steps.map((step) => ({ step, variant })));
  return [...groupBy(all, ({ step }) => step.key).values()].flatMap((some) => {
    const [{ step } = {}] = some;
    if (!step) return [];
    const suffix = suffixOf(some, expanded);
    const named = step.kind === "train" ? { name: `${step.name}${suffix}` } : {};
    return { ...step, ...named, label: `${step.label}${suffix}` };
  });
}

function sharedWaiting(expanded: readonly ExpandedVariant[]): Waiting[] {
  const all = expanded.flatMap(({ variant, expansion: { waiting } }) => waiting.map((one) => ({ ...one, variant })));
  return [...groupBy(all, ({ kind, what }) => `${kind} ${what}`).values()].flatMap((some): Waiting[] => {
    const [first] = some;
    if (!first) return [];
    const { what, kind } = first;
    const distinct = new Map(some.map(({ of, steps }, i) => [of ?? i, steps]));
    const steps = [...distinct.values()].reduce((sum, own) => sum + own, 0);
    return [{ what: `${what}${suffixOf(some, expanded)}`, steps, ...(kind === undefined ? {} : { kind }) }];
  });
}

/** Warnings of several variants, as one: `Guards refused all 6 checkpoints of math (…). (aya, LoRA)` */
function sharedWarnings(expanded: readonly ExpandedVariant[]): string[] {
  const all = expanded.flatMap(({ variant, expansion: { warnings } }) => warnings.map((text) => ({ text, variant })));
  return [...groupBy(all, ({ text }) => text)].map(([text, some]) => `${text}${suffixOf(some, expanded)}`);
}

/** ` (aya, LoRA)`, or nothing if it is about all variants */
function suffixOf(some: readonly Pick<ExpandedVariant, "variant">[], all: readonly ExpandedVariant[]): string {
  const [own, every] = [some, all].map((of) => of.map(({ variant }) => variant));
  const common = commonTitle(own ?? [], every ?? []);
  return common === "" ? "" : ` (${common})`;
}
