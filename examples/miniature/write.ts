// Writes what the miniature is trained on: the untrained base, the data of each run, the run file and the plan.
//
//   npm run miniature -- FOLDER [SEED] [KIND]
import { createWriteStream, writeFileSync } from "node:fs";
import { cp, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { drawExamples, MIXES, type Mix } from "./world/exercises.js";
import { answerOf, heldOutProblems, type Problem, solveProblem, tellProblem } from "./world/problems.js";
import { ENGLISH, SWAHILI } from "./world/sentences.js";
import { KINDS, type Kind, MINIATURE, writeInitialModel } from "./world/untrained-model.js";

const HERE = "examples/miniature";
/** Steps of base.yaml and plan.yaml. A step takes slightly more than 60 examples. */
const EXAMPLES = { base: 66 * 2000, math: 66 * 200, language: 66 * 800, joint: 33 * 1000 } as const;

/** A line of `data/problems.jsonl`. */
export function writtenProblem(problem: Problem) {
  const [sw, en] = [tellProblem(problem, SWAHILI), tellProblem(problem, ENGLISH)];
  return { sw, en, answer: answerOf(problem), solution: solveProblem(problem) };
}

/** The problems that `layergraft demo` asks, and those by which it chooses layers. */
export function demoProblems() {
  const { test, development } = heldOutProblems(0, { test: 1000, development: 200 });
  return { problems: test.map(writtenProblem), choosing: development.map(writtenProblem) };
}

/** Writes the training data of a run. @param seed of the base (number 0) and of the experts (1) */
async function writeExamples(file: string, mix: Mix, count: number, seed: number, label: string): Promise<void> {
  const examples = drawExamples(mix, seed, label);
  const lines = function* () {
    for (let i = 0; i < count; i++) yield `${JSON.stringify(examples.next().value)}\n`;
  };
  await pipeline(Readable.from(lines()), createWriteStream(file));
}

export async function writeWorld(out: string, seed: number, kind: Kind): Promise<void> {
  const data = (name: string) => join(out, "data", `${name}.jsonl`);
  await mkdir(join(out, "data"), { recursive: true });
  await writeInitialModel(join(out, "base-untrained"), 100 * seed, MINIATURE, kind);
  await writeExamples(data("base"), MIXES.base, EXAMPLES.base, 100 * seed, "base, examples 0");
  for (const kind of ["math", "language"] as const) {
    await writeExamples(data(kind), MIXES[kind], EXAMPLES[kind], 100 * seed + 1, `${kind}, examples 0`);
    const set = kind === "math" ? 0 : 1;
    await writeExamples(data(`joint-${kind}`), MIXES[kind], EXAMPLES.joint, 100 * seed + 1, `joint, examples ${set}`);
  }
  for (const [name, rows] of Object.entries(demoProblems())) {
    writeFileSync(data(name), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  }
  for (const name of ["base.yaml", "plan.yaml", "short-base.yaml", "short-plan.yaml"])
    await cp(join(HERE, name), join(out, name));
  for (const name of ["problems_sw", "problems_en", "choosing_sw"]) {
    await cp(join("assets/demo", `${name}.yaml`), join(out, `${name}.yaml`));
  }
}

const [, script = "", out, seed = "0", name = "llama"] = process.argv;
if (script.endsWith("write.js") && out) {
  const kind = KINDS.find((one) => one === name);
  if (kind === undefined) throw new Error(`${name} is not a kind of model. Give one of ${KINDS.join(", ")}`);
  await writeWorld(out, Number(seed), kind);
}
