import { digestOfValue } from "../../core/index.js";
import type { OpenedPlan } from "../../merge/index.js";
import { resolveSelection } from "../../train/index.js";
import type { Checkpoint } from "../../weights/index.js";
import { type Member, memberNames } from "../plan/expert-names.js";
import { baseModel, trainingSteps } from "../plan/plan-models.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import type { ReadFacts } from "../steps/facts-reader.js";

/** An expert as far as its tensors are known: what makes it, and those that it has from the base. */
interface Known {
  readonly identity: string;
  readonly reverted: ReadonlySet<string>;
}

/** A tensor of a source, in the value of a planned tensor. */
interface Leaf {
  readonly source: string;
  readonly tensor: string;
}

/** A digest of what a merge takes each tensor from: equal for merges that make the same model. */
export type ContentDigest = (opened: OpenedPlan) => string;

/**
 * @param base checkpoint of the base
 * @param standIns members that experts of a recipe stand for, by their checkpoint
 */
export function contentDigest(
  plan: ExperimentPlan,
  facts: ReadFacts,
  base: Checkpoint,
  standIns: ReadonlyMap<Checkpoint, Member>,
): ContentDigest {
  const known = new Map<string, Known>();
  const knownOf = (member: Member): Known => {
    const found = known.get(member.name) ?? describe(member, plan, facts, base);
    known.set(member.name, found);
    return found;
  };
  return ({ plan: { steps, measurements }, sources }) => {
    const nameOf = ({ source, tensor }: Leaf): string => {
      const checkpoint = sources.get(source);
      const member = checkpoint && standIns.get(checkpoint);
      if (!member) return `base ${tensor}`;
      const { identity, reverted } = knownOf(member);
      return reverted.has(tensor) ? `base ${tensor}` : `${identity} ${tensor}`;
    };
    const named = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value, (_, inner) => (isLeaf(inner) ? nameOf(inner) : inner)));
    return digestOfValue(named([steps.map(({ tensor, dtype, value }) => [tensor, dtype, value]), measurements]));
  };
}

const isLeaf = (value: unknown): value is Leaf =>
  typeof value === "object" && value !== null && "source" in value && "tensor" in value;

/** Training that differs only in what is reverted afterwards gives the same tensors elsewhere. */
function describe({ name, family = "" }: Member, plan: ExperimentPlan, facts: ReadFacts, base: Checkpoint): Known {
  const { folders, train, select } = plan.experts[family] ?? {};
  const at = plan.experts[family] ? memberNames(family, plan.experts[family]).indexOf(name) : -1;
  const source = Object.values(folders ?? {})[at];
  const none = new Set<string>();
  if (source !== undefined) return { identity: facts.models.get(source)?.identity ?? source, reverted: none };
  const step = train && !select ? trainingSteps(plan, family, baseModel(plan, facts), facts)[at] : undefined;
  if (!step) return { identity: name, reverted: none };
  const { revert, ...run } = step.run;
  const identity = digestOfValue([run, step.data ?? null, step.trl ?? null, train?.from ?? null]);
  const { tensors, layers } = base;
  const reverted = typeof revert === "string" ? resolveSelection(revert, { tensors, layers, field: "revert" }) : none;
  return { identity, reverted };
}
