// What the miniature leaves to go on with: its problems as tasks, the swap that it tells of as a recipe, and its comparison
// as the plan of an experiment, to be changed and run again. Files only; nothing is run.
import { join } from "node:path";
import { writeFileAtomically } from "../../core/files.js";
import type { Language } from "./lexicon.js";
import { NAMED_SWAP } from "./methods.js";
import { answerOf, type Problem, tellProblem } from "./problems.js";
import { ASKED, MOST_TOKENS } from "./scoring.js";
import { speakerOf } from "./sentences.js";

const PROBLEMS = "problems.jsonl";
const LANGUAGES: readonly Language[] = ["sw", "en"];

/** Names of the files that `writePlan` makes. */
export const PLAN_FILES: readonly string[] = ["plan.yaml", "swap.yaml", PROBLEMS, ...LANGUAGES.map(taskFile)];

/**
 * Writes plan, recipe, tasks and problems beside the models.
 * @param out folder of the demo
 * @param pairs how many experts of each kind there are
 */
export async function writePlan(out: string, pairs: number, problems: readonly Problem[]): Promise<void> {
  const rows = problems.map((problem) => {
    const [sw, en] = LANGUAGES.map((language) => tellProblem(problem, speakerOf(language)));
    return `${JSON.stringify({ sw, en, answer: answerOf(problem) })}\n`;
  });
  await writeFileAtomically(join(out, PROBLEMS), rows.join(""));
  for (const language of LANGUAGES) await writeFileAtomically(join(out, taskFile(language)), taskOf(language));
  await writeFileAtomically(join(out, "swap.yaml"), SWAP_RECIPE);
  await writeFileAtomically(join(out, "plan.yaml"), planOf(pairs));
}

const SWAP_RECIPE = `# ${NAMED_SWAP}: the bottom two layers of the language expert, the others of the math expert.
method: swap
task: math-1/last
language: language-1/last
bottom: 2
top: 0
`;

function taskFile(language: Language): string {
  return `problems_${language}.yaml`;
}

function taskOf(language: Language): string {
  return `# The demo's held-out word problems, for layergraft eval and for experiments.
task: problems_${language}
title: word problems (${language})
data: ${PROBLEMS}
answer: generate
prompt: "{{${language}}} ${ASKED}"
gold: "{{answer}}"
read: number
max_new_tokens: ${MOST_TOKENS}
`;
}

function planOf(pairs: number): string {
  const folders = (kind: string) => Array.from({ length: pairs }, (_, i) => `${kind}-${i + 1}/last`).join(", ");
  return `# The demo's models as an experiment: change it, then
#   layergraft experiment plan.yaml run
name: miniature
base: base/last
experts:
  math: { role: task, folders: [${folders("math")}] }
  swahili: { role: language, language: sw, folders: [${folders("language")}] }
  both: { role: joint, folders: [${folders("joint")}] }
merges:
  - name: layer swap
    recipe: { method: swap, task: math, language: swahili }
    grid: { bottom: [1, 2, 3], top: [0, 1] }
    default: { bottom: 2, top: 0 }
  - { name: soup, recipe: { method: soup, models: [math, swahili] } }
  - { name: TIES, recipe: { method: ties, models: [math, swahili], base: base, density: 0.5 } }
evaluate:
  tasks: ["problems_{language}.yaml"]
`;
}
