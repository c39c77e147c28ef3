// What is wrong with the tasks of a plan, and what a person should know of them.
import { choiceNotes } from "../../evaluate/index.js";
import { exists } from "../../kit/files/index.js";
import { CheckpointError, groupBy } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import type { Problem } from "../../kit/settings/index.js";
import { loadTokenizer } from "../../text/index.js";
import { isSearched } from "../plan/configurations.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import { decidingTask, inLanguages, languagesOf, tasksOfAverage } from "../plan/plan-tasks.js";
import { splitItems } from "../search/search.js";
import type { AskedTask, ReadFacts } from "./facts-reader.js";

/** @param base folder of the base; undefined if it is not here */
export async function checkTasks(plan: ExperimentPlan, tasks: readonly AskedTask[], base: string | undefined) {
  return {
    problems: taskProblems(plan, tasks),
    search: searchNotes(plan, tasks),
    choices: base === undefined ? [] : await choiceWarnings(base, tasks),
  };
}

/** A choice by fewer items is mostly chance, whatever the scores. */
const MIN_SEARCHED = 5;

/** The tasks by which configurations are chosen; none if there is no search. */
function decidingIn(plan: ExperimentPlan, tasks: readonly AskedTask[]): readonly AskedTask[] {
  const names = inLanguages(decidingTask(plan), languagesOf(plan));
  return plan.merges.some(isSearched) ? tasks.filter(({ task }) => names.includes(task)) : [];
}

function searchNotes(plan: ExperimentPlan, tasks: readonly AskedTask[]): string[] {
  return decidingIn(plan, tasks).flatMap(({ name, items }) => {
    const seen = splitItems(items, plan.search).rounds.flat().length;
    if (seen >= MIN_SEARCHED) return [];
    return [`the search sees ${seen} of the ${plural(items, "item")} of ${name}. Use more, or its choice is chance`];
  });
}

/** Warnings about choices that the base's tokenizer cannot tell apart. */
async function choiceWarnings(base: string, tasks: readonly AskedTask[]): Promise<string[]> {
  if (!tasks.some(({ choices = [] }) => choices.length > 0)) return [];
  // Servers may have a tokenizer of their own, and the engine reports one that it cannot read.
  try {
    const tokenizer = await loadTokenizer(base);
    return tasks.flatMap(({ name, choices = [] }) => choiceNotes(choices, tokenizer).map((note) => `${name}: ${note}`));
  } catch (error) {
    if (error instanceof CheckpointError) return [];
    throw error;
  }
}

function taskProblems(plan: ExperimentPlan, tasks: readonly AskedTask[]): Problem[] {
  const problems: Problem[] = [];
  const add = (path: readonly PropertyKey[], message: string) => problems.push({ path, message });
  const executing = tasks.find(({ executes }) => executes);
  if (executing && !plan.evaluate.allow_code) {
    add(
      ["evaluate"],
      `${executing.name} executes programs that models write. Allow it with evaluate.allow_code: true, or remove the task`,
    );
  }
  for (const [i, { name, tasks: averaged }] of plan.averages.entries()) {
    const names = tasksOfAverage(averaged, plan);
    if (new Set(tasks.filter(({ task }) => names.includes(task)).map(({ scale }) => scale)).size < 2) continue;
    const message = `${name} averages percentages and points, such as BLEU. Write an average for each`;
    add(["averages", i, "tasks"], message);
  }
  const deciding = decidingIn(plan, tasks);
  const single = deciding.find(({ items }) => items < 2);
  if (single && plan.search.choose_on !== "test") {
    const how = "Add items, choose another task, or set choose_on: test";
    add(["search", "by"], `${single.name} has one item, so none is left to compare on. ${how}`);
  }
  const corpus = deciding.find(({ isMean }) => !isMean);
  if (corpus) {
    const why = "has one score for the whole corpus, but configurations are compared item by item";
    add(["search", "by"], `${corpus.name} ${why}; choose another task`);
  }
  return problems;
}

/** Data sets that are missing from the folder; sets of one kind are one problem. */
export async function dataProblems(
  data: string | undefined,
  { missing }: Pick<ReadFacts, "missing">,
): Promise<Problem[]> {
  if (data === undefined || missing.size === 0) return [];
  const path = ["evaluate", "data"];
  const names = [...missing.keys()];
  if (!(await exists(data))) {
    const need = names.length === 1 ? "needs" : "need";
    return [{ path, message: `${data} does not exist; ${names.join(", ")} ${need} it` }];
  }
  return [...groupBy(missing, ([name]) => /^[a-z]+/i.exec(name)?.[0] ?? name).values()].map((alike) => {
    const [first, ...others] = alike;
    const also = others.length === 0 ? "" : `; also missing for ${others.map(([name]) => name).join(", ")}`;
    return { path, message: `${first?.[0]}: ${first?.[1]}${also}` };
  });
}
