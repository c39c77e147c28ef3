// What is wrong with the merges of a plan, by the headers of its models; and which of them make the same model.

import { type Checkpoint, keepsFloat32 } from "../../formats/checkpoint/index.js";
import { digestOfValue } from "../../kit/files/index.js";
import { DTYPE_BY_TORCH_NAME, isFloatDType, messageOf } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import type { Problem } from "../../kit/settings/index.js";
import { yieldToEventLoop } from "../../kit/stopping/index.js";
import { type OpenedPlan, planRecipe, planVersions, type RecipeInput } from "../../merge/index.js";
import { resolveSelection } from "../../train/index.js";
import { checkedRecipes } from "../plan/configurations.js";
import {
  type Member,
  memberNames,
  membersNamed,
  membersOf,
  mentionsIn,
  namingRecipe,
  sourcesIn,
} from "../plan/expert-names.js";
import { foldersIn } from "../plan/named-sources.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { laterMerges } from "../plan/settle.js";
import type { ReadFacts } from "./facts-reader.js";

/** Configurations of a merge that are reported one by one. */
const MAX_REPORTED = 8;

/** Plans merges by headers alone: each expert with the base, and each configuration with the base for every expert. */
export async function checkMerges(
  plan: ExperimentPlan,
  facts: ReadFacts,
  folder: string,
  hasProblem: (path: readonly PropertyKey[]) => boolean,
  signal?: AbortSignal,
): Promise<{ readonly problems: readonly Problem[]; readonly notes: readonly string[] }> {
  const base = facts.models.get(plan.base);
  if (!base || base.folder.includes("+")) return { problems: [], notes: [] };
  const problems: Problem[] = [];
  const opened = new Map([...facts.models.values()].map((model) => [model.folder, model.checkpoint]));
  const planVersion = planVersions({ folder, opened });
  const attempt = async (path: readonly PropertyKey[], what: string, recipe: RecipeInput, isWhole: boolean) => {
    await yieldToEventLoop(signal);
    try {
      return await planVersion(recipe, isWhole);
    } catch (error) {
      if (!(error instanceof Error)) throw error;
      problems.push({ path, message: `${what}: ${messageOf(error)}` });
      return undefined;
    }
  };
  if (plan.merges.length > 0) {
    const used = familiesIn(plan);
    const aligned = plan.merges.some(({ recipe }) => recipe?.vocabulary !== undefined) ? { vocabulary: "union" } : {};
    for (const { group, source, path } of foldersIn(plan)) {
      const expert = facts.models.get(source);
      if (source === plan.base || !expert || !used.has(group)) continue;
      // Element types are each merge's own affair: its dtype may reconcile them.
      const pair = {
        method: "soup",
        models: [base.folder, expert.folder],
        dtype: "float32",
        ...aligned,
      } as RecipeInput;
      const planned = await attempt(path, source, pair, true);
      for (const sentence of plan.allow_unrelated ? [] : (planned?.plan.unrelated ?? [])) {
        problems.push({ path, message: `${sentence}. Check the folder, or set allow_unrelated: true` });
      }
    }
  }
  const members = sourcesIn(plan);
  // Every expert and merge has the base's tensors, in the element types of its folder or those that its run saves.
  const standIns = new Map(members.map((member) => [savedAs(base.checkpoint, member, plan, facts), member] as const));
  const folderOf = (model: Member | "base") => (model === "base" ? base.folder : `expert ${model.name}`);
  for (const [checkpoint, member] of standIns) opened.set(folderOf(member), checkpoint);
  const digestOf = contentDigest(plan, facts, base.checkpoint, standIns);
  const made = new Map<string, string>();
  const notes: string[] = [];
  const later = laterMerges(plan);
  for (const [i, merge] of plan.merges.entries()) {
    // A merge of a later round has the problems of the first.
    if (!merge.recipe || later.has(merge.name) || hasProblem(["merges", i])) continue;
    const before = problems.length;
    for (const { label, isDefault, bound } of checkedRecipes(merge, members, folderOf)) {
      const what = label === "" ? merge.name : `${merge.name}, ${label}`;
      const planned = await attempt(["merges", i], what, bound as RecipeInput, isDefault);
      if (!planned || !isDefault) continue;
      const digest = digestOf(planned);
      const same = made.get(digest);
      made.set(digest, same ?? what);
      if (same !== undefined)
        notes.push(`${what} and ${same} make the same model, tensor by tensor. Remove one, and what only it needs`);
    }
    // One wrong value of a grid is in many configurations.
    const more = problems.splice(before + MAX_REPORTED).length;
    if (more > 0) {
      const message = `${merge.name}: ${plural(more, "further configuration")} cannot be planned either`;
      problems.push({ path: ["merges", i], message });
    }
  }
  return { problems, notes };
}

export interface MergeNote {
  /** The merge in the plan. */
  readonly name: string;
  readonly note: string;
}

/** In place of an expert that is not here yet. */
const TO_COME = "(to come)";

/** What planning each merge notes, in its default configuration of the first experts; `later`: merges that need experts to come. */
export async function mergeNotes(
  plan: ExperimentPlan,
  facts: ReadFacts,
  folder: string,
): Promise<{ readonly notes: readonly MergeNote[]; readonly later: number }> {
  const base = facts.models.get(plan.base);
  const opened = new Map([...facts.models.values()].map((model) => [model.folder, model.checkpoint]));
  const folderOf = (model: Member | "base") =>
    (model === "base" ? base : facts.models.get(folderOfMember(model, plan) ?? ""))?.folder ?? TO_COME;
  const [notes, rounds] = [[] as MergeNote[], laterMerges(plan)];
  let later = 0;
  for (const merge of plan.merges) {
    if (!merge.recipe || rounds.has(merge.name)) continue;
    const bound = checkedRecipes(merge, sourcesIn(plan), folderOf).find(({ isDefault }) => isDefault)?.bound;
    if (!bound) continue;
    if (JSON.stringify(bound).includes(TO_COME)) {
      later++;
      continue;
    }
    // An error is among the plan's problems already.
    const planned = await planRecipe(bound as unknown as RecipeInput, { folder, opened }).catch(() => undefined);
    for (const note of planned?.plan.notes ?? []) notes.push({ name: merge.name, note });
  }
  return { notes, later };
}

/** A checkpoint with the element types of an expert's files. */
function savedAs(base: Checkpoint, member: Member, plan: ExperimentPlan, facts: ReadFacts): Checkpoint {
  const run = plan.experts[member.expertFamily ?? ""]?.train?.runs[0]?.settings;
  const saved = run && run.method !== "lora" && run.save_dtype !== "keep" ? run.save_dtype : undefined;
  const own = facts.models.get(folderOfMember(member, plan) ?? "")?.checkpoint.tensors;
  const to = saved && DTYPE_BY_TORCH_NAME[saved];
  const staysFloat32 = to && to !== "F32" ? keepsFloat32(base, to) : () => false;
  const tensors = [...base.tensors].map(([name, tensor]) => {
    const stays = staysFloat32(name, [{ checkpoint: base, tensor: name }]);
    const dtype = to ? (stays ? "F32" : to) : (own?.get(name)?.dtype ?? tensor.dtype);
    return [name, isFloatDType(tensor.dtype) ? { ...tensor, dtype } : tensor] as const;
  });
  return { ...base, tensors: new Map(tensors) };
}

/** Index of a member in its group; -1 if it is in none. */
function indexInFamily({ name, expertFamily = "" }: Member, plan: ExperimentPlan): number {
  const group = plan.experts[expertFamily];
  return group ? memberNames(expertFamily, group).indexOf(name) : -1;
}

/** The folder of an expert that exists. */
const folderOfMember = (member: Member, plan: ExperimentPlan): string | undefined =>
  Object.values(plan.experts[member.expertFamily ?? ""]?.folders ?? {})[indexInFamily(member, plan)];

/** Families of experts that merges name. */
function familiesIn(plan: ExperimentPlan): ReadonlySet<string> {
  const members = membersOf(plan);
  const used = plan.merges.flatMap((merge) => mentionsIn(namingRecipe(merge)).map(({ word }) => word));
  return new Set(used.flatMap((word) => membersNamed(word, members).flatMap(({ expertFamily = [] }) => expertFamily)));
}

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
type ContentDigest = (opened: OpenedPlan) => string;

/**
 * @param base checkpoint of the base
 * @param standIns members that experts of a recipe stand for, by their checkpoint
 */
function contentDigest(
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
function describe(member: Member, plan: ExperimentPlan, facts: ReadFacts, base: Checkpoint): Known {
  const { name, expertFamily = "" } = member;
  const { train, select } = plan.experts[expertFamily] ?? {};
  const source = folderOfMember(member, plan);
  const none = new Set<string>();
  if (source !== undefined) return { identity: facts.models.get(source)?.identity ?? source, reverted: none };
  const run = train && !select ? train.runs[indexInFamily(member, plan)] : undefined;
  if (!run) return { identity: name, reverted: none };
  const { revert, ...learned } = run.fields;
  const identity = digestOfValue([learned, facts.dataIdentity(run.fields), train?.trl ?? null, train?.from ?? null]);
  const { tensors, layers } = base;
  const reverted = typeof revert === "string" ? resolveSelection(revert, { tensors, layers, field: "revert" }) : none;
  return { identity, reverted };
}
