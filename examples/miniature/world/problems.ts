// Word problems of the miniature, their solutions, and which of them are held out for evaluation.

import { createHash } from "node:crypto";
import { Random } from "../../../src/kit/random.js";
import { isNewInSwahili, LARGEST_NUMBER, NAMES, NOUNS, PLACES, type Term, VERBS } from "./lexicon.js";
import { type Act, askHowMany, ENGLISH, type Speaker, tellAct, tellPossession } from "./sentences.js";

/** "Asha had 9 bananas. Asha sold 7 bananas. How many bananas does Asha have now?" */
export interface Problem extends Act {
  readonly start: number;
}

/** Largest number that one bought or sold in the base's problems; the math expert learns larger ones. */
export const BASE_COUNT = 2;
const LARGEST_COUNT = 9;
const LARGEST_START = 12;

/** A problem in which nothing ever becomes less than none. @param most largest number that one buys or sells */
export function drawProblem(random: Random, most: number = LARGEST_COUNT): Problem {
  for (;;) {
    const problem = {
      ...{ who: random.pick(NAMES), noun: random.pick(NOUNS), verb: random.pick(VERBS) },
      ...{ start: random.between(1, LARGEST_START), count: random.between(1, most) },
      ...drawPlace(random, 0.3),
    };
    const answer = answerOf(problem);
    if (answer >= 0 && answer <= LARGEST_NUMBER) return problem;
  }
}

/** A place, with a probability. */
export function drawPlace(random: Random, probability: number): { place?: Term } {
  return random.chance(probability) ? { place: random.pick(PLACES) } : {};
}

/** The problem as text. */
export function tellProblem(problem: Problem, speaker: Speaker): string {
  const { who, noun, start } = problem;
  return [tellPossession(who, start, noun, speaker), tellAct(problem, speaker), askHowMany(who, noun, speaker)].join(
    " ",
  );
}

/** The number that answers it. */
export function answerOf({ start, verb, count }: Problem): number {
  return start + verb.sign * count;
}

/** The way to it: `9 - 7 = 2.` */
export function solveProblem(problem: Problem): string {
  const { start, verb, count } = problem;
  return `${start} ${verb.sign < 0 ? "-" : "+"} ${count} = ${answerOf(problem)}.`;
}

/** Whether it takes both experts: a number only the math expert calculates with, a word only the language expert reads. */
export function takesBoth({ start, count }: Problem): boolean {
  return count > BASE_COUNT && (isNewInSwahili(start) || isNewInSwahili(count));
}

/** A tenth of all problems is never trained on: those whose English text has an MD5 digest that is 0 modulo 10. */
export function isHeldOut(problem: Problem): boolean {
  return BigInt(`0x${digestOf(problem)}`) % 10n === 0n;
}

function digestOf(problem: Problem): string {
  return createHash("md5").update(tellProblem(problem, ENGLISH)).digest("hex");
}

/** A problem that may be trained on. @param most largest number that one buys or sells */
export function drawTrainingProblem(random: Random, most?: number): Problem {
  for (;;) {
    const problem = drawProblem(random, most);
    if (!isHeldOut(problem)) return problem;
  }
}

/** The problems of the evaluation (`development` chooses configurations): all different, and all take both experts. */
export function heldOutProblems(seed: number, { test, development }: { test: number; development: number }) {
  const random = Random.of(seed, "held-out problems");
  const found = new Map<string, Problem>();
  while (found.size < test + development) {
    const problem = drawProblem(random);
    if (takesBoth(problem) && isHeldOut(problem)) found.set(digestOf(problem), problem);
  }
  const problems = [...found.values()];
  return { test: problems.slice(0, test), development: problems.slice(test) };
}
