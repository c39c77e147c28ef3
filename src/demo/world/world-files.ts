// The demo's world as files: an untrained model with its training data, and held-out problems as tasks.

import { createWriteStream } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Random, writeFileAtomically } from "../../core/index.js";
import { drawExamples, howMany, MIXES, type Mix } from "./exercises.js";
import type { Language } from "./lexicon.js";
import { answerOf, heldOutProblems, type Problem, solveProblem, tellProblem } from "./problems.js";
import { ENGLISH, SWAHILI } from "./sentences.js";
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
export const STEPS = { base: 2000, math: 200, language: 800, joint: 1000 } as const;

/** Steps of a run in a world of these settings. */
export function stepsOf(kind: keyof typeof STEPS, { quick }: Pick<WorldSettings, "quick">): number {
  return Math.ceil(STEPS[kind] / (quick ? 20 : 1));
}

/** Seed of the base (number 0) and of the experts, from 1. */
export function seedOf({ seed }: Pick<WorldSettings, "seed">, number: number): number {
  return 100 * seed + number;
}

/** Names of everything that is written here. */
export const WORLD_FILES: readonly string[] = [
  ...["base-untrained", "data", "problems_sw.yaml", "problems_en.yaml", "choosing_sw.yaml", "reading_sw.yaml"],
];

/** Positions of a training sequence: more than the longest text. */
export const SEQUENCE_LENGTH = 128;
/** Sequences of an optimizer step. */
export const BATCH = 12;
/** Examples for each step: slightly more than its sequences hold. */
const EXAMPLES_PER_STEP = 66;
/** Problems whose text is read without being solved. */
const READING = 200;
/** Tokens of an answer: a solution has six. */
const MAX_NEW_TOKENS = 8;
/** Follows a problem that is to be solved. */
export const ASK_TO_SOLVE = "Solve:";

/** Writes the untrained base and the training data of all runs into a folder that exists, from the settings alone. */
export async function writeTrainingWorld(out: string, settings: WorldSettings): Promise<void> {
  await writeInitialModel(join(out, "base-untrained"), seedOf(settings, 0));
  await mkdir(join(out, "data"), { recursive: true });
  await writeExamples(out, settings, "base", 0, [MIXES.base]);
  for (let number = 1; number <= settings.pairs; number++) {
    await writeExamples(out, settings, "math", number, [MIXES.math]);
    await writeExamples(out, settings, "language", number, [MIXES.language]);
    await writeExamples(out, settings, "joint", number, [MIXES.math, MIXES.language]);
  }
}

/** How many problems a demo asks, and by how many it chooses layers. */
export function problemCounts({ quick }: Pick<WorldSettings, "quick">): { test: number; development: number } {
  return quick ? { test: 200, development: 40 } : { test: 1000, development: 200 };
}

/** Writes the held-out problems and their tasks into a folder that exists. */
export async function writeTasks(out: string, settings: Pick<WorldSettings, "quick">): Promise<void> {
  await mkdir(join(out, "data"), { recursive: true });
  const { test, development } = heldOutProblems(0, problemCounts(settings));
  await writeRows(join(out, "data/problems.jsonl"), test.map(writtenProblem));
  await writeRows(join(out, "data/choosing.jsonl"), development.map(writtenProblem));
  await writeTask(out, "problems", "sw", "word problems", ASK_TO_SOLVE);
  await writeTask(out, "problems", "en", "word problems", ASK_TO_SOLVE);
  await writeTask(out, "choosing", "sw", "other word problems", ASK_TO_SOLVE);
  const random = Random.of(0, "reading");
  const reading = test.slice(0, READING).map((act) => howMany(random, SWAHILI, act));
  const rows = reading.map(({ prompt, response }) => ({ sw: prompt, answer: Number(response) }));
  await writeRows(join(out, "data/reading.jsonl"), rows);
  await writeTask(out, "reading", "sw", "numbers found in a text", "");
}

/** A line of `data/problems.jsonl`. */
export interface WrittenProblem {
  readonly sw: string;
  readonly en: string;
  /** The number asked for. */
  readonly answer: number;
  /** The equation that leads to it: `9 - 7 = 2.` */
  readonly solution: string;
}

export function writtenProblem(problem: Problem): WrittenProblem {
  const [sw, en] = [tellProblem(problem, SWAHILI), tellProblem(problem, ENGLISH)];
  return { sw, en, answer: answerOf(problem), solution: solveProblem(problem) };
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

export async function writeRows(file: string, rows: readonly object[]): Promise<void> {
  await writeFileAtomically(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
}

/** @param ask follows the text */
async function writeTask(out: string, name: string, language: Language, title: string, ask: string): Promise<void> {
  const task = `task: ${name}_${language}
title: ${title} (${language})
data: data/${name}.jsonl
answer: generate
prompt: "${`{${language}} ${ask}`.trim()}"
gold: "{answer}"
read: number
max_new_tokens: ${MAX_NEW_TOKENS}
`;
  await writeFileAtomically(join(out, `${name}_${language}.yaml`), task);
}
