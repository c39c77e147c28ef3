// What is wrong with what a plan says about its report.
import { suggestName } from "../../kit/printing/index.js";
import type { Problem } from "../../kit/settings/index.js";
import { meaningOf, membersOf, nameProblems, sourcesIn, wordsFor } from "./expert-names.js";
import type { ExperimentPlan } from "./plan-schema.js";
import { inLanguages, languagesOf, tasksOfAverage } from "./plan-tasks.js";

type Path = readonly PropertyKey[];
type Problems = Iterable<Problem>;

const problem = (path: Path, message: string): Problem => ({ path, message });

export function* reportProblems(plan: ExperimentPlan): Problems {
  yield* overlapProblems(plan);
  yield* changeProblems(plan);
  yield* averageProblems(plan);
  yield* tableProblems(plan);
  yield* comparisonProblems(plan);
}

/** Tasks and averages that a table may name, with each language in them and without. */
function scoresIn({ averages, evaluate, experts }: ExperimentPlan): string[] {
  const asked = evaluate.tasks.map(({ task }) => task);
  const inEach = asked.flatMap((task) => inLanguages(task, languagesOf({ experts })));
  return [...new Set([...asked, ...inEach, ...averages.map(({ name }) => name)])];
}

function* unknownName(word: string, path: Path, plan: ExperimentPlan): Problems {
  const sources = sourcesIn(plan);
  if (word === "base" || meaningOf(word, sources)) return;
  const hint = suggestName(word, wordsFor(sources));
  yield problem(path, `${JSON.stringify(word)} is not an expert, family, role or merge of this plan${hint}`);
}

function* tableProblems(plan: ExperimentPlan): Problems {
  const scores = scoresIn(plan);
  const known = languagesOf(plan);
  for (const [i, { rows, columns, languages = [] }] of plan.tables.entries()) {
    const path = ["tables", i];
    for (const [at, code] of languages.entries()) {
      if (known.includes(code)) continue;
      yield problem([...path, "languages", at], `no expert has the language ${code}${suggestName(code, known)}`);
    }
    for (const [row, { tasks }] of rows.entries()) {
      for (const task of tasks) {
        if (scores.includes(task)) continue;
        const what = `${task} is neither a task under evaluate nor an average`;
        yield problem([...path, "rows", row], `${what}${suggestName(task, scores)}`);
      }
    }
    for (const [column, { of }] of columns.entries()) {
      for (const name of of) yield* unknownName(name, [...path, "columns", column, "of"], plan);
    }
  }
}

function* comparisonProblems(plan: ExperimentPlan): Problems {
  for (const [i, pair] of plan.comparisons.entries()) {
    const [first, second] = pair;
    if (first === second) yield problem(["comparisons", i], "must be of two; these are the same");
    for (const name of new Set(pair)) yield* unknownName(name, ["comparisons", i], plan);
  }
}

function* changeProblems(plan: ExperimentPlan): Problems {
  const members = membersOf(plan);
  for (const [i, { of }] of plan.changes.entries()) {
    for (const name of of) {
      const path = ["changes", i, "of"];
      if (name === "base") yield problem(path, "must be experts; the base has no changes");
      else if (!meaningOf(name, members)) {
        const hint = suggestName(name, wordsFor(members));
        yield problem(path, `${JSON.stringify(name)} is not an expert, family or role of this plan${hint}`);
      }
    }
  }
}

function* overlapProblems({ overlaps, merges, experts }: ExperimentPlan): Problems {
  const members = membersOf({ experts });
  for (const [i, pair] of overlaps.entries()) {
    const path = ["overlaps", i];
    const [task, language] = pair;
    const [wrong] = nameProblems({ method: "swap", task, language }, members, path);
    const merge = pair.find((name) => merges.some((one) => one.name === name));
    if (pair.includes("base")) yield problem(path, "must be experts; the base has no changes");
    else if (wrong)
      yield problem(path, merge === undefined ? wrong.message : `${merge} is a merge; overlaps take experts`);
  }
}

function* averageProblems(plan: ExperimentPlan): Problems {
  const { averages, evaluate } = plan;
  const asked = evaluate.tasks.map(({ task }) => task);
  const known = [...asked, ...asked.flatMap((task) => inLanguages(task, languagesOf(plan)))];
  const names = averages.map(({ name }) => name);
  for (const [i, { name, tasks }] of averages.entries()) {
    const path = ["averages", i];
    for (const [at, task] of tasks.entries()) {
      const hint = suggestName(task, known, asked);
      if (known.includes(task)) continue;
      yield problem([...path, "tasks", at], `${task} is not one of the tasks under evaluate${hint}`);
    }
    if (known.includes(name) || names.indexOf(name) < i) {
      yield problem([...path, "name"], `${name} is the name of a task or of another average; rename it`);
    }
    if (tasks.every((task) => known.includes(task)) && tasksOfAverage(tasks, plan).length < 2) {
      yield problem([...path, "tasks"], `${name} is of a single task; list at least two`);
    }
  }
}
