// What the names in an experiment's recipes stand for: the base, an expert, each expert of a family or role in turn, or
// all of them at once. Knows recipes only as far as where their sources stand.
import { didYouMean } from "../../core/index.js";
import { LIST_FIELDS, SOURCE_FIELDS } from "../../merge/index.js";
import type { Problem } from "../../settings/index.js";
import type { ExperimentPlan, Family, Role } from "./plan-schema.js";

/** An expert as recipes name it. */
export interface Member {
  readonly name: string;
  readonly family: string;
  readonly role: Role;
  /** Code of the language that it knows; of language experts. */
  readonly language?: string;
}

/** What one name stands for. */
export type Meaning =
  | { readonly kind: "base" }
  | { readonly kind: "one"; readonly member: Member }
  /** Each of them in turn; the same for the same word in one recipe. */
  | { readonly kind: "each"; readonly word: string; readonly members: readonly Member[] }
  | { readonly kind: "all"; readonly members: readonly Member[] };

/** Every expert of a plan, in its order. */
export function membersOf(plan: ExperimentPlan): Member[] {
  return Object.entries(plan.experts).flatMap(([family, declared]) =>
    memberNames(family, declared).map((name) => ({
      ...{ name, family, role: declared.role },
      ...(declared.language === undefined ? {} : { language: declared.language }),
    })),
  );
}

/** Names of a family's experts: those given, or the family's with a number, from 1. */
export function memberNames(family: string, { folders, train, select }: Family): string[] {
  const numbered = (count: number) => Array.from({ length: count }, (_, i) => `${family}-${i + 1}`);
  if (select) return numbered(select.top);
  if (Array.isArray(folders)) return numbered(folders.length);
  if (folders) return Object.keys(folders);
  return train ? runNames(family, train) : [];
}

/** Names of the runs that a family trains. */
export function runNames(family: string, { runs, seeds }: NonNullable<Family["train"]>): string[] {
  if (runs) return runs.map(({ name }) => name);
  return Array.from({ length: seeds?.length ?? 1 }, (_, i) => `${family}-${i + 1}`);
}

/** What a word of a recipe means, if anything. */
export function meaningOf(word: string, members: readonly Member[]): Meaning | undefined {
  if (word === "base") return { kind: "base" };
  const all = /^all (.+)$/.exec(word)?.[1];
  const named = all ?? word;
  const ofName = members.filter(({ family, role }) => family === named || role === named);
  if (all !== undefined) return ofName.length > 0 ? { kind: "all", members: ofName } : undefined;
  const member = members.find(({ name }) => name === word);
  if (member) return { kind: "one", member };
  return ofName.length > 0 ? { kind: "each", word, members: ofName } : undefined;
}

/** A place of a recipe where a source stands, and whether a list may stand for it. */
interface Place {
  readonly path: readonly PropertyKey[];
  readonly word: string;
  readonly inList: boolean;
}

/** Every place of a recipe, and of those within it, where a name stands. */
export function placesOf(recipe: unknown, path: readonly PropertyKey[] = []): Place[] {
  if (typeof recipe !== "object" || recipe === null) return [];
  const fields = recipe as Record<string, unknown>;
  const at = (value: unknown, where: readonly PropertyKey[], inList: boolean): Place[] => {
    if (typeof value === "string") return [{ path: where, word: value, inList }];
    const isEntry = typeof value === "object" && value !== null && "model" in value;
    if (isEntry) return at(value.model, [...where, "model"], false);
    return placesOf(value, where);
  };
  return [
    ...SOURCE_FIELDS.flatMap((field) => at(fields[field], [...path, field], false)),
    ...LIST_FIELDS.flatMap((field) => {
      const list = fields[field];
      return Array.isArray(list) ? list.flatMap((entry, i) => at(entry, [...path, field, i], true)) : [];
    }),
  ];
}

/** What is wrong with the names of a recipe. */
export function nameProblems(recipe: unknown, members: readonly Member[], path: readonly PropertyKey[]): Problem[] {
  const words = [...new Set(members.flatMap(({ name, family, role }) => [name, family, role])), "base"];
  return placesOf(recipe, path).flatMap(({ path: at, word, inList }): Problem[] => {
    const meaning = meaningOf(word, members);
    if (meaning?.kind === "all" && !inList) {
      return [{ path: at, message: `${word} means several models; use a soup here, with this in its list` }];
    }
    if (meaning) return [];
    const hint = didYouMean(word, words) || `; there are ${words.join(", ")}`;
    return [{ path: at, message: `${JSON.stringify(word)} is not an expert, family or role of this plan${hint}` }];
  });
}

/** One choice of experts for the words of a recipe that stand for each of several. */
export type Binding = ReadonlyMap<string, Member>;

/** All choices for a recipe, in the order of the plan; one that is empty where nothing is to be chosen. */
export function bindingsOf(recipe: unknown, members: readonly Member[]): Binding[] {
  const variables = new Map<string, readonly Member[]>();
  for (const { word } of placesOf(recipe)) {
    const meaning = meaningOf(word, members);
    if (meaning?.kind === "each") variables.set(word, meaning.members);
  }
  let bindings: Map<string, Member>[] = [new Map()];
  for (const [word, choices] of variables) {
    bindings = bindings.flatMap((binding) => choices.map((member) => new Map(binding).set(word, member)));
  }
  return bindings;
}

/** How many such choices there are; counted, as there may be too many to list. */
export function countBindings(recipe: unknown, members: readonly Member[]): number {
  const choices = new Map<string, number>();
  for (const { word } of placesOf(recipe)) {
    const meaning = meaningOf(word, members);
    if (meaning?.kind === "each") choices.set(word, meaning.members.length);
  }
  return [...choices.values()].reduce((product, count) => product * count, 1);
}

/** The experts that a recipe uses under a binding, in the order of the recipe, each once. */
export function membersIn(recipe: unknown, binding: Binding, members: readonly Member[]): Member[] {
  const used = placesOf(recipe).flatMap(({ word }): readonly Member[] => {
    const meaning = meaningOf(word, members);
    if (meaning?.kind === "one") return [meaning.member];
    if (meaning?.kind === "all") return meaning.members;
    const bound = binding.get(word);
    return bound ? [bound] : [];
  });
  return [...new Set(used)];
}

/** The recipe with every name replaced by what `to` says of the model that it stands for. */
export function bindRecipe(
  recipe: Readonly<Record<string, unknown>>,
  binding: Binding,
  members: readonly Member[],
  to: (model: Member | "base") => string,
): Record<string, unknown> {
  const resolve = (word: string): string[] => {
    const meaning = meaningOf(word, members);
    if (meaning?.kind === "base") return [to("base")];
    if (meaning?.kind === "one") return [to(meaning.member)];
    if (meaning?.kind === "all") return meaning.members.map(to);
    const bound = binding.get(word);
    return bound ? [to(bound)] : [];
  };
  const one = (value: unknown): unknown => {
    if (typeof value === "string") return resolve(value)[0] ?? value;
    if (typeof value !== "object" || value === null) return value;
    if ("model" in value) return { ...value, model: one(value.model) };
    return bindRecipe(value as Record<string, unknown>, binding, members, to);
  };
  const bound: Record<string, unknown> = { ...recipe };
  for (const field of SOURCE_FIELDS) if (field in bound) bound[field] = one(bound[field]);
  for (const field of LIST_FIELDS) {
    const list = bound[field];
    if (Array.isArray(list))
      bound[field] = list.flatMap((entry) => (typeof entry === "string" ? resolve(entry) : [one(entry)]));
  }
  return bound;
}
