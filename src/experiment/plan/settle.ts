// Settles a plan: training runs have all their fields, spaces become configurations, and later rounds more families of experts and
// merges, which start from the merge before.

import { isObject, mergeObjects } from "../../kit/index.js";
import { formatSome, suggestName } from "../../kit/printing/index.js";
import { type Checked, checkSchema, type Problem } from "../../kit/settings/index.js";
import { mapSources } from "../../merge/index.js";
import { expertProblems, fieldProblems, severalProblem } from "./check-fields.js";
import { settleSpaces } from "./configurations.js";
import { memberNames, membersNamed, membersOf, mentionsIn, namingRecipe, sourcesIn, wordsOf } from "./expert-names.js";
import {
  type ExperimentPlan,
  type ExpertFamily,
  type PlannedMerge,
  type PlannedRun,
  planSchema,
} from "./plan-schema.js";
import { ROLES } from "./plan-values.js";
import { settleExperts, startsOf } from "./training-runs.js";

/** Settles a plan, and finds what is wrong across its fields; if it breaks the schema, only how. */
export function settle(value: unknown): Checked<ExperimentPlan> {
  const { value: written, problems: broken } = checkSchema(planSchema, value);
  if (!written) return { problems: broken };
  const { experts, problems: inRuns } = settleExperts(written);
  const { merges, problems: inSpaces } = settleSpaces({ ...written, experts });
  const plan: ExperimentPlan = { ...written, experts, merges };
  const search = isObject(value) ? value.search : undefined;
  const problems = [...expertProblems(plan), ...inRuns, ...inSpaces, ...fieldProblems(plan, search)];
  return problems.length > 0 ? { value: plan, problems } : settleRounds(plan);
}

interface Repeated {
  readonly from: PlannedMerge;
  readonly expertFamilies: readonly string[];
  /** Merges of these families of experts and no other trained ones. */
  readonly merges: readonly PlannedMerge[];
}

/** The name of a merge in a round, from 1. */
export function mergeInRound(name: string, round: number): string {
  return round === 1 ? name : `${name}, round ${round}`;
}

/** The name of a family of experts or of a named run in a round, from 1. */
export function familyInRound(name: string, round: number): string {
  return round === 1 ? name : `${name}-round-${round}`;
}

/** The families of experts and merges that a plan's rounds repeat, by their names in the first; none in a plan without rounds. */
export function repeatedIn(plan: ExperimentPlan): {
  expertFamilies: readonly string[];
  merges: readonly PlannedMerge[];
} {
  const from = plan.rounds && mergeToStartFrom(plan);
  return from ? repeatedFor(plan, from) : { expertFamilies: [], merges: [] };
}

/** Names of the merges that rounds add to a plan. */
export function laterMerges(plan: ExperimentPlan): ReadonlySet<string> {
  const { merges } = repeatedIn(plan);
  return new Set(laterRounds(plan).flatMap((round) => merges.map(({ name }) => mergeInRound(name, round))));
}

/** Adds the later rounds to a plan without other problems. */
function settleRounds(plan: ExperimentPlan): Checked<ExperimentPlan> {
  const { rounds } = plan;
  if (!rounds) return { value: plan, problems: [] };
  const path = ["rounds"];
  const refuse = (message: string, at: readonly PropertyKey[] = path) => ({
    value: plan,
    problems: [{ path: at, message }],
  });
  const names = plan.merges.map(({ name }) => name);
  const from = mergeToStartFrom(plan);
  if (!from) {
    if (names.length === 0) return refuse("needs a merge to start the next round from; add one under merges");
    if (rounds.from === undefined) {
      const how = `as in { count: ${rounds.count}, from: ${names[0]} }; there are ${formatSome(names, 8)}`;
      return refuse(`must say which merge the next round starts from, ${how}`);
    }
    return refuse(`there is no merge ${rounds.from}${suggestName(rounds.from, names)}`, ["rounds", "from"]);
  }
  const several = [...severalProblem(from.name, path, plan, sourcesIn(plan))];
  if (several.length > 0) return { value: plan, problems: several };
  const repeated = repeatedFor(plan, from);
  if (repeated.expertFamilies.length === 0) {
    return refuse(`needs trained experts in ${from.name}; none of its families has train`);
  }
  const wide = ambiguousRoles(plan, repeated);
  if (wide.length > 0) return { value: plan, problems: wide };
  const whole = withRounds(withoutRoles(plan, repeated), repeated);
  const taken = takenName(plan, whole, repeated);
  return taken === undefined
    ? { value: whole, problems: [] }
    : refuse(`would give the name ${taken} to a second expert or merge; rename the first`);
}

/** A name of a later round that the plan has already. */
function takenName(plan: ExperimentPlan, whole: ExperimentPlan, { expertFamilies }: Repeated): string | undefined {
  const known = new Set([...Object.keys(plan.experts), ...membersOf(plan).map(({ name }) => name)]);
  const rounds = laterRounds(plan);
  const added = new Set(
    rounds.flatMap((round) => expertFamilies.map((expertFamily) => familyInRound(expertFamily, round))),
  );
  const experts = membersOf(whole).flatMap(({ name, expertFamily = "" }) => (added.has(expertFamily) ? [name] : []));
  const merges = whole.merges.map(({ name }) => name);
  return [...added, ...experts].find((name) => known.has(name)) ?? merges.find((name, i) => merges.indexOf(name) < i);
}

function laterRounds({ rounds }: ExperimentPlan): number[] {
  return Array.from({ length: (rounds?.count ?? 1) - 1 }, (_, i) => i + 2);
}

function mergeToStartFrom({ merges, rounds }: ExperimentPlan): PlannedMerge | undefined {
  if (rounds?.from === undefined) return merges.length === 1 ? merges[0] : undefined;
  return merges.find(({ name }) => name === rounds.from);
}

function repeatedFor(plan: ExperimentPlan, from: PlannedMerge): Repeated {
  const sources = sourcesIn(plan);
  /** Trained families that a merge needs, also through merges and what families start from. */
  const needed = (merge: PlannedMerge): ReadonlySet<string> => {
    const expertFamilies = new Set<string>();
    const words = new Set(wordsOf(merge));
    // The set grows while it is read.
    for (const word of words) {
      for (const { name, expertFamily } of membersNamed(word, sources)) {
        const train = expertFamily === undefined ? undefined : plan.experts[expertFamily]?.train;
        if (train && expertFamily !== undefined) expertFamilies.add(expertFamily);
        const inner = expertFamily === undefined ? plan.merges.filter((one) => one.name === name).flatMap(wordsOf) : [];
        for (const next of [...inner, ...(train ? startsOf(train) : [])]) words.add(next);
      }
    }
    return expertFamilies;
  };
  const expertFamilies = needed(from);
  const merges = plan.merges.filter((merge) => {
    const own = [...needed(merge)];
    return own.length > 0 && own.every((expertFamily) => expertFamilies.has(expertFamily));
  });
  return {
    from,
    expertFamilies: Object.keys(plan.experts).filter((expertFamily) => expertFamilies.has(expertFamily)),
    merges,
  };
}

function renamed(recipe: object, to: (word: string) => string): object {
  return mapSources(recipe, (source) => (isObject(source) ? renamed(source, to) : to(source as string)));
}

function withNames(merge: PlannedMerge, to: (word: string) => string): PlannedMerge {
  const { recipe, suggest, pairs } = merge;
  return {
    ...merge,
    ...(recipe ? { recipe: renamed(recipe, to) as NonNullable<PlannedMerge["recipe"]> } : {}),
    ...(suggest ? { suggest: { task: to(suggest.task), language: to(suggest.language) } } : {}),
    pairs: pairs === "all" ? pairs : pairs.map((pair) => pair.map(to)),
  };
}

function familiesByRole({ experts }: ExperimentPlan, { expertFamilies }: Repeated): Map<string, string[]> {
  const inRole = ROLES.map(
    (role) => [role, Object.keys(experts).filter((name) => experts[name]?.role === role)] as const,
  );
  return new Map(
    inRole.flatMap(([role, own]) => (own.some((name) => expertFamilies.includes(name)) ? [[role, own]] : [])),
  );
}

const PLAIN = /^(all )?(.+)$/;
const roleIn = (word: string) => PLAIN.exec(word)?.[2] ?? word;

/** A role would also mean the experts of later rounds. */
function ambiguousRoles(plan: ExperimentPlan, repeated: Repeated): Problem[] {
  const byRole = familiesByRole(plan, repeated);
  return plan.merges.flatMap((merge, i) => {
    const wide = mentionsIn(namingRecipe(merge)).find(({ word }) => (byRole.get(roleIn(word))?.length ?? 0) > 1);
    if (!wide) return [];
    const expertFamilies = byRole.get(roleIn(wide.word)) ?? [];
    const what = `${wide.word} means ${expertFamilies.length} families`;
    return [
      { path: ["merges", i], message: `${what}; with rounds, name one of them: ${formatSome(expertFamilies, 8)}` },
    ];
  });
}

/** The plan with the group in place of a role that means one. */
function withoutRoles(plan: ExperimentPlan, repeated: Repeated): ExperimentPlan {
  const byRole = familiesByRole(plan, repeated);
  const to = (word: string) => {
    const [expertFamily, ...others] = byRole.get(roleIn(word)) ?? [];
    return expertFamily === undefined || others.length > 0 ? word : word.replace(PLAIN, `$1${expertFamily}`);
  };
  return { ...plan, merges: plan.merges.map((merge) => withNames(merge, to)) };
}

/** A run whose mask is another expert's, if it has one. */
function withMask(run: PlannedRun, to: (word: string) => string): PlannedRun {
  const { fields, settings } = run;
  if (!settings?.mask) return run;
  const from = to(settings.mask.from);
  const mask = { ...settings.mask, from };
  return {
    ...run,
    fields: mergeObjects(fields, { mask: { from } }) as PlannedRun["fields"],
    settings: { ...settings, mask },
  };
}

function withRounds(plan: ExperimentPlan, { from, expertFamilies, merges }: Repeated): ExperimentPlan {
  const experts: Record<string, ExpertFamily> = { ...plan.experts };
  const rounds = laterRounds(plan);
  const names = new Set(merges.map(({ name }) => name));
  const own = expertFamilies.flatMap((expertFamily) =>
    memberNames(expertFamily, plan.experts[expertFamily] as ExpertFamily),
  );
  const inRound = (round: number) => (word: string) => {
    const plain = roleIn(word);
    const prefix = word.slice(0, word.length - plain.length);
    if (expertFamilies.includes(plain)) return prefix + familyInRound(plain, round);
    if (own.includes(plain)) return expertInRound(plan, expertFamilies, plain, round);
    return names.has(word) ? mergeInRound(word, round) : word;
  };
  for (const round of rounds) {
    for (const expertFamily of expertFamilies) {
      const declared = plan.experts[expertFamily] as ExpertFamily;
      const train = declared.train as NonNullable<ExpertFamily["train"]>;
      const { runs, from: first } = train;
      experts[familyInRound(expertFamily, round)] = {
        ...declared,
        train: {
          ...train,
          from: first === undefined ? mergeInRound(from.name, round - 1) : inRound(round)(first),
          runs: runs.map((run) => ({
            ...withMask(run, inRound(round)),
            name: nameInRound(run.name, expertFamily, train.isNamed, round),
          })),
        },
      };
    }
  }
  const again = plan.merges.filter(({ name }) => names.has(name));
  const later = rounds.flatMap((round) =>
    again.map((merge): PlannedMerge => {
      const fields = withNames(merge, inRound(round));
      const start = merge.from === undefined ? mergeInRound(from.name, round - 1) : inRound(round)(merge.from);
      return { ...fields, name: mergeInRound(merge.name, round), from: start };
    }),
  );
  const { controls } = plan;
  const of = controls?.of?.flatMap((name) => [
    name,
    ...(names.has(name) ? rounds.map((r) => mergeInRound(name, r)) : []),
  ]);
  const overlaps = rounds.flatMap((round) =>
    plan.overlaps
      .map((pair) => pair.map(inRound(round)))
      .filter((pair, i) => pair.some((word, at) => word !== plan.overlaps[i]?.[at])),
  );
  const changes = rounds.flatMap((round) =>
    plan.changes.flatMap(({ of, ...one }) => {
      const again = of.filter((word) => inRound(round)(word) !== word);
      return again.length > 0 ? [{ ...one, of: again.map(inRound(round)) }] : [];
    }),
  );
  return {
    ...plan,
    experts,
    merges: [...plan.merges, ...later],
    overlaps: [...plan.overlaps, ...overlaps],
    changes: [...plan.changes, ...changes],
    rounds: { count: rounds.length + 1, from: from.name },
    ...(controls && of ? { controls: { ...controls, of } } : {}),
  };
}

/** Experts that are numbered have the group's name; others have their own. */
function expertInRound(plan: ExperimentPlan, expertFamilies: readonly string[], name: string, round: number): string {
  const expertFamily =
    expertFamilies.find((one) => memberNames(one, plan.experts[one] as ExpertFamily).includes(name)) ?? "";
  const { train, select } = plan.experts[expertFamily] as ExpertFamily;
  return nameInRound(name, expertFamily, !select && train?.isNamed === true, round);
}

function nameInRound(name: string, expertFamily: string, isNamed: boolean, round: number): string {
  return isNamed
    ? familyInRound(name, round)
    : `${familyInRound(expertFamily, round)}${name.slice(expertFamily.length)}`;
}
