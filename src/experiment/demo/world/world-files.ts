// Writes the demo's world as files: an untrained model, training data, and held-out problems as tasks.

import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { writeFileAtomically } from "../../../core/index.js";
import { drawExamples, MIXES, type Mix } from "./exercises.js";
import type { Language } from "./lexicon.js";
import { answerOf, heldOutProblems, type Problem, tellProblem } from "./problems.js";
import { speakerOf } from "./sentences.js";
import { writeInitialModel } from "./untrained-model.js";

export interface WorldSettings {
  /** Decides first weights and training data. The held-out problems are the same for every seed. */
  readonly seed: number;
  /** Experts of each kind. */
  readonly pairs: number;
  /** A twentieth of the training data and a fifth of the problems. */
  readonly quick: boolean;
}

/** Optimizer steps of each training run. */
export const STEPS = { base: 2400, math: 100, language: 300, joint: 400 } as const;

/** Steps of a run in a world of these settings. */
export function stepsOf(kind: keyof typeof STEPS, { quick }: Pick<WorldSettings, "quick">): number {
  return Math.ceil(STEPS[kind] / (quick ? 20 : 1));
}

/** Seed of the base (number 0) and of the experts, from 1. */
export function seedOf({ seed }: Pick<WorldSettings, "seed">, number: number): number {
  return 100 * seed + number;
}

/** Names of everything that `writeWorld` writes. */
export const WORLD_FILES: readonly string[] = [
  ...["base-untrained", "data", "problems_sw.yaml", "problems_en.yaml", "choosing_sw.yaml"],
];

/** Positions of a training sequence: a little more than the longest text, so that packing wastes little. */
export const SEQUENCE_LENGTH = 128;
/** Examples for each step: slightly more than eight sequences hold. */
const EXAMPLES_PER_STEP = 48;
/** Tokens of an answer: longer than any solution, which is two lines of arithmetic and a sentence. */
const MAX_NEW_TOKENS = 40;
/** Follows a problem that is to be solved. */
export const ASK_TO_SOLVE = "[solve] :";

/** Writes the world into a folder that exists. The files depend on the settings alone. */
export async function writeWorld(out: string, settings: WorldSettings): Promise<void> {
  await writeInitialModel(join(out, "base-untrained"), seedOf(settings, 0));
  await mkdir(join(out, "data"), { recursive: true });
  await writeExamples(out, settings, "base", 0, [MIXES.base]);
  for (let number = 1; number <= settings.pairs; number++) {
    await writeExamples(out, settings, "math", number, [MIXES.math]);
    await writeExamples(out, settings, "language", number, [MIXES.language]);
    await writeExamples(out, settings, "joint", number, [MIXES.math, MIXES.language]);
  }
  const { test, development } = heldOutProblems(0, settings.quick ? { test: 50, development: 20 } : {});
  await writeProblems(out, "problems", "word problems", ["sw", "en"], test);
  await writeProblems(out, "choosing", "other word problems", ["sw"], development);
}

/** Files with the training data of a run, within the world's folder. */
export function dataFiles(kind: keyof typeof STEPS, number: number): readonly string[] {
  if (kind === "joint") return [`data/joint-${number}-math.jsonl`, `data/joint-${number}-language.jsonl`];
  return [number === 0 ? `data/${kind}.jsonl` : `data/${kind}-${number}.jsonl`];
}

async function writeExamples(
  out: string,
  settings: WorldSettings,
  kind: keyof typeof STEPS,
  number: number,
  mixes: readonly Mix[],
): Promise<void> {
  const count = Math.ceil((stepsOf(kind, settings) * EXAMPLES_PER_STEP) / mixes.length);
  for (const [set, file] of dataFiles(kind, number).entries()) {
    const examples = drawExamples(mixes[set] ?? {}, seedOf(settings, number), `${kind}, examples ${set}`);
    const lines = function* () {
      for (let i = 0; i < count; i++) yield `${JSON.stringify(examples.next().value)}\n`;
    };
    await pipeline(Readable.from(lines()), createWriteStream(join(out, file)));
  }
}

async function writeProblems(
  out: string,
  name: string,
  title: string,
  languages: readonly Language[],
  problems: readonly Problem[],
): Promise<void> {
  const file = `data/${name}.jsonl`;
  const rows = problems.map((problem) => {
    const texts = languages.map((language) => [language, tellProblem(problem, speakerOf(language))]);
    return `${JSON.stringify({ ...Object.fromEntries(texts), answer: answerOf(problem) })}\n`;
  });
  await writeFileAtomically(join(out, file), rows.join(""));
  for (const language of languages) {
    const task = `task: ${name}_${language}
title: ${title} (${language})
data: ${file}
answer: generate
prompt: "{${language}} ${ASK_TO_SOLVE}"
gold: "{answer}"
read: number
max_new_tokens: ${MAX_NEW_TOKENS}
`;
    await writeFileAtomically(join(out, `${name}_${language}.yaml`), task);
  }
}
