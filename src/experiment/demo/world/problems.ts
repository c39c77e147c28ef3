// Word problems of the miniature, their solutions, and which of them are held out for evaluation.

import { createHash } from "node:crypto";
import { Random } from "../../../core/index.js";
import { NAMES, NOUNS, type Noun, VERBS, type Verb } from "./lexicon.js";
import { askHowMany, MOST_AT_ONCE, type Speaker, speakerOf, tellAct, tellPossession } from "./sentences.js";

/** "Asha had 9 mangoes. Asha bought 4 mangoes. Asha saw 3 mangoes. How many mangoes does Asha have now?" */
export interface Problem {
  readonly who: string;
  readonly noun: Noun;
  readonly start: number;
  readonly steps: readonly { readonly verb: Verb; readonly count: number }[];
}

const SIGNS = [1, 1, -1, -1, 0] as const;

const verbsOf = (verbs: readonly Verb[], sign: number) => verbs.filter((verb) => verb.sign === sign);

/** A problem of two steps, or, one time in ten, of one. Nothing ever becomes less than none. */
export function drawProblem(random: Random, verbs: readonly Verb[] = VERBS): Problem {
  const start = random.between(2, 15);
  const steps: { verb: Verb; count: number }[] = [];
  let have = start;
  for (let left = random.chance(0.1) ? 1 : 2; left > 0; ) {
    const sign = random.pick(SIGNS);
    const count = random.between(2, MOST_AT_ONCE);
    if (have + sign * count < 0) continue;
    have += sign * count;
    steps.push({ verb: random.pick(verbsOf(verbs, sign)), count });
    left--;
  }
  return { who: random.pick(NAMES), noun: random.pick(NOUNS), start, steps };
}

/** The problem as text. */
export function tellProblem({ who, noun, start, steps }: Problem, speaker: Speaker): string {
  return [
    tellPossession(who, start, noun, speaker),
    ...steps.map((step) => tellAct({ who, noun, ...step }, speaker)),
    askHowMany(who, noun, speaker),
  ].join(" ");
}

/** The number that answers it. */
export function answerOf({ start, steps }: Problem): number {
  return steps.reduce((have, { verb, count }) => have + verb.sign * count, start);
}

/** The way to it: `9 + 4 = 13 . 13 + 0 = 13 . the answer is 13 .` What changes nothing counts as + 0. */
export function solveProblem(problem: Problem): string {
  let have = problem.start;
  const lines = problem.steps.map(({ verb, count }) => {
    const before = have;
    have += verb.sign * count;
    return `${before} ${verb.sign < 0 ? "-" : "+"} ${verb.sign === 0 ? 0 : count} = ${have} .`;
  });
  return [...lines, `the answer is ${have} .`].join(" ");
}

/** A tenth of all problems is never trained on: those whose English text has an MD5 digest that is 0 modulo 10. */
export function isHeldOut(problem: Problem): boolean {
  return BigInt(`0x${digestOf(problem)}`) % 10n === 0n;
}

function digestOf(problem: Problem): string {
  return createHash("md5")
    .update(tellProblem(problem, speakerOf("en")))
    .digest("hex");
}

/** A problem that may be trained on. */
export function drawTrainingProblem(random: Random, verbs?: readonly Verb[]): Problem {
  for (;;) {
    const problem = drawProblem(random, verbs);
    if (!isHeldOut(problem)) return problem;
  }
}

/** The problems of the evaluation, all different. */
export interface HeldOutProblems {
  /** For choosing configurations. */
  readonly development: readonly Problem[];
  /** For the final comparison. */
  readonly test: readonly Problem[];
}

/** @param count.test default 250, as many as MGSM has @param count.development default 100 */
export function heldOutProblems(
  seed: number,
  { test = 250, development = 100 }: { test?: number; development?: number } = {},
): HeldOutProblems {
  const random = Random.of(seed, "held-out problems");
  const found = new Map<string, Problem>();
  while (found.size < test + development) {
    const problem = drawProblem(random);
    if (isHeldOut(problem)) found.set(digestOf(problem), problem);
  }
  const problems = [...found.values()];
  return { test: problems.slice(0, test), development: problems.slice(test) };
}
