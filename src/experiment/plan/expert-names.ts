// What names in recipes mean: the base, one expert or merge, each expert of a family or role in turn, or all of them at once.

import { isObject } from "../../kit/index.js";
import { didYouMean } from "../../kit/printing/index.js";
import type { Problem } from "../../kit/settings/index.js";
import { mapSources, sourceFieldsOf, sourcesOf } from "../../merge/index.js";
import type { ExperimentPlan, ExpertFamily, Merge, PlannedMerge } from "./plan-schema.js";
import type { Role } from "./plan-values.js";

/** An expert as recipes name it, or a merge. `expertFamily`: of an expert. */
export interface Member {
  readonly name: string;
  readonly expertFamily?: string;
  readonly role?: Role;
}

interface Meaning {
  /** each: one in turn, the same one wherever a recipe repeats the name. */
  readonly kind: "base" | "one" | "each" | "all";
  /** None of the base. */
  readonly members: readonly Member[];
}

export function membersOf({ experts }: Pick<ExperimentPlan, "experts">): Member[] {
  return Object.entries(experts).flatMap(([expertFamily, declared]) =>
    memberNames(expertFamily, declared).map((name) => ({ name, expertFamily, role: declared.role })),
  );
}

/** What recipes can name: every expert of a plan, then its merges. */
export function sourcesIn(plan: Pick<ExperimentPlan, "experts"> & { readonly merges: readonly Merge[] }): Member[] {
  return [...membersOf(plan), ...plan.merges.map(({ name }) => ({ name }))];
}

/** Names of a group's experts: those given, or FAMILY-1, FAMILY-2, and so on. */
export function memberNames(expertFamily: string, { folders, train, select }: ExpertFamily): string[] {
  const numbered = (count: number) => Array.from({ length: count }, (_, i) => `${expertFamily}-${i + 1}`);
  if (select) return numbered(select.top);
  if (Array.isArray(folders)) return numbered(folders.length);
  if (folders) return Object.keys(folders);
  return (train?.runs ?? []).map(({ name }) => name);
}

/** What a name means; undefined if nothing. */
export function meaningOf(word: string, members: readonly Member[]): Meaning | undefined {
  if (word === "base") return { kind: "base", members: [] };
  const all = /^all (.+)$/.exec(word)?.[1];
  const named = all ?? word;
  const group = members.filter(({ expertFamily, role }) => expertFamily === named || role === named);
  if (all !== undefined) return group.length > 0 ? { kind: "all", members: group } : undefined;
  const own = members.filter(({ name }) => name === word);
  const expert = own.find(({ expertFamily }) => expertFamily !== undefined);
  if (expert) return { kind: "one", members: [expert] };
  // A merge may have the name of a family, which comes first.
  if (group.length > 0) return { kind: "each", members: group };
  return own[0] && { kind: "one", members: [own[0]] };
}

/** The experts and merges that a name means; none of the base, or if it means nothing. */
export function membersNamed(word: string, members: readonly Member[]): readonly Member[] {
  return meaningOf(word, members)?.members ?? [];
}

/** A name in a recipe, and where. */
interface Mention {
  readonly path: readonly PropertyKey[];
  readonly word: string;
  /** Whether it may stand for several models. */
  readonly inList: boolean;
}

/** Every name in a recipe, and in the recipes inside it. */
export function mentionsIn(recipe: unknown, path: readonly PropertyKey[] = []): Mention[] {
  if (!isObject(recipe)) return [];
  return sourcesOf(recipe).flatMap(({ source, path: at }) =>
    typeof source === "string"
      ? [{ path: [...path, ...at], word: source, inList: at.length === 2 }]
      : mentionsIn(source, [...path, ...at]),
  );
}

export function nameProblems(recipe: unknown, members: readonly Member[], path: readonly PropertyKey[]): Problem[] {
  const words = wordsFor(members);
  return mentionsIn(recipe, path).flatMap(({ path: at, word, inList }): Problem[] => {
    const meaning = meaningOf(word, members);
    if (meaning?.kind === "all" && !inList) {
      return [{ path: at, message: `${word} means several models; use a soup with it in the list` }];
    }
    if (meaning) return [];
    const hint = didYouMean(word, words) || `; there are ${words.join(", ")}`;
    return [
      { path: at, message: `${JSON.stringify(word)} is not an expert, family, role or merge of this plan${hint}` },
    ];
  });
}

export function wordsFor(members: readonly Member[]): string[] {
  return [
    ...new Set(members.flatMap(({ name, expertFamily, role }) => [name, expertFamily ?? [], role ?? []].flat())),
    "base",
  ];
}

/** One combination of experts: by each name that stands for several in turn, one of them. */
export type Binding = ReadonlyMap<string, Member>;

function choicesOf(recipe: unknown, members: readonly Member[]): Map<string, readonly Member[]> {
  return new Map(
    mentionsIn(recipe).flatMap(({ word }) => {
      const meaning = meaningOf(word, members);
      return meaning?.kind === "each" ? [[word, meaning.members] as const] : [];
    }),
  );
}

/** The recipe of a merge as far as it names models: a suggestion names its two experts like a swap. */
export function namingRecipe({ recipe, suggest }: Merge): Readonly<Record<string, unknown>> {
  return recipe ?? (suggest ? { method: "swap", ...suggest } : {});
}

/** The names of models that must be there before a merge. */
export function wordsOf(merge: Merge): string[] {
  return [...mentionsIn(namingRecipe(merge)).map(({ word }) => word), ...[merge.from ?? []].flat()];
}

/** The combinations of sources that a merge has models of; none if a name means nothing. */
export function combinationsOf(
  merge: PlannedMerge,
  members: readonly Member[],
): { readonly binding: Binding; readonly used: readonly Member[] }[] {
  const named = namingRecipe(merge);
  // Guards left out all experts that a name means.
  if (nameProblems(named, members, []).length > 0) return [];
  return bindingsOf(named, members)
    .map((binding) => ({ binding, used: membersIn(named, binding, members) }))
    .filter(({ used }) => isListed(merge, used));
}

function isListed({ pairs, controlOf }: PlannedMerge, used: readonly Member[]): boolean {
  if (pairs === "all") return true;
  const names = new Set(used.flatMap(({ name, expertFamily }) => (expertFamily === undefined ? [] : [name])));
  // The base takes the place of an expert in some controls.
  return pairs.some(
    (pair) =>
      (controlOf !== undefined || pair.length === names.size) && [...names].every((name) => pair.includes(name)),
  );
}

/** All combinations, in the order of the plan; one empty one if no name stands for several in turn. */
export function bindingsOf(recipe: unknown, members: readonly Member[]): Binding[] {
  let bindings: Map<string, Member>[] = [new Map()];
  for (const [word, choices] of choicesOf(recipe, members)) {
    bindings = bindings.flatMap((binding) => choices.map((member) => new Map(binding).set(word, member)));
  }
  return bindings;
}

/** Number of combinations, which may be too many to list. */
export function countBindings(recipe: unknown, members: readonly Member[]): number {
  return [...choicesOf(recipe, members).values()].reduce((product, { length }) => product * length, 1);
}

/** The experts in a combination, in the order of the recipe, each once. */
function membersIn(recipe: unknown, binding: Binding, members: readonly Member[]): Member[] {
  const used = mentionsIn(recipe).flatMap(({ word }): readonly Member[] => {
    const meaning = meaningOf(word, members);
    if (meaning?.kind === "one" || meaning?.kind === "all") return meaning.members;
    const bound = binding.get(word);
    return bound ? [bound] : [];
  });
  return [...new Set(used)];
}

/** Replaces every name in a recipe by what `to` returns for its model. */
export function bindRecipe(
  recipe: Readonly<Record<string, unknown>>,
  binding: Binding,
  members: readonly Member[],
  to: (model: Member | "base") => string = (model) => (model === "base" ? model : model.name),
): Record<string, unknown> {
  const listed: Record<string, unknown> = { ...recipe };
  for (const { field } of sourceFieldsOf(recipe)) {
    const list = recipe[field];
    if (!Array.isArray(list)) continue;
    listed[field] = list.flatMap((entry: unknown) => {
      const meaning = typeof entry === "string" ? meaningOf(entry, members) : undefined;
      return meaning?.kind === "all" ? meaning.members.map(({ name }) => name) : [entry];
    });
  }
  return mapSources(listed, (source) => {
    if (isObject(source)) return bindRecipe(source, binding, members, to);
    const meaning = meaningOf(source, members);
    if (meaning?.kind === "base") return to("base");
    const member = meaning?.kind === "one" ? meaning.members[0] : binding.get(source);
    return member ? to(member) : source;
  });
}
