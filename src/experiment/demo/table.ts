// The miniature's table: per contestant the scores over all pairs, the named swap's lead over it, the swap chosen on
// development problems. Plain data, for the terminal and for the page.
import { meanWithError } from "../../evaluate/statistics.js";
import { NAMED_SWAP, PAPER_SWAP } from "./methods.js";
import type { DemoResult, PairResult } from "./run.js";
import { exactMatch } from "./scoring.js";

export interface DemoRow {
  readonly name: string;
  readonly kind: PairResult["kind"];
  /** Swahili exact match in percent, over the pairs. */
  readonly swahili: { readonly least: number; readonly mean: number; readonly most: number };
  /** Mean over the pairs. */
  readonly english: number;
  /** Standard error of one pair's Swahili score, in points: chance in which problems were asked. */
  readonly error: number;
  /** By how many points the named swap is better, problem by problem; absent from its own row. */
  readonly lead?: Lead;
  /** What a reader must know of the row; usually empty. */
  readonly note: string;
}

/** A difference of two scores on the same problems, each problem's answers averaged over the pairs first. */
export interface Lead {
  readonly points: number;
  /** Standard error over the problems. */
  readonly error: number;
  /** Whether it is further from nothing than chance makes it in 19 of 20 cases. */
  readonly isClear: boolean;
}

const NOTES: Readonly<Record<string, string>> = {
  [NAMED_SWAP]: "fixed before anything was measured",
  [PAPER_SWAP]: "the paper's 5 and 2 of 32 layers, in proportion",
};

/** Rows in the order of the comparison. */
export function demoRows({ results }: Pick<DemoResult, "results">): DemoRow[] {
  const named = results.filter(({ name }) => name === NAMED_SWAP);
  const names = [...new Set(results.map(({ name }) => name))];
  const rows = names.map((name) =>
    rowOf(
      name,
      results.filter((result) => result.name === name),
      NOTES[name] ?? "",
      named,
    ),
  );
  const swaps = results.filter(({ family }) => family === "swap");
  const pairs = [...new Set(swaps.map(pairOf))];
  /** Of one pair the configuration can be named; of several each has its own. */
  const which = (chosen: readonly PairResult[]) => (chosen.length === 1 ? `${chosen[0]?.name}, ` : "");
  const best = (by: (result: PairResult) => number) =>
    pairs.flatMap((pair) => {
      const own = swaps.filter((result) => pairOf(result) === pair);
      return own.toSorted((a, b) => by(b) - by(a)).slice(0, 1);
    });
  const onOthers = best(({ development }) => exactMatch(development));
  const onTest = best(({ swahili }) => exactMatch(swahili));
  const others = results[0]?.development.length ?? 0;
  const chosen = rowOf(
    "swap, chosen on development",
    onOthers,
    `${which(onOthers)}chosen on ${others} other problems`,
    named,
  );
  const oracle = rowOf(
    "swap, best on the test",
    onTest,
    `${which(onTest)}chosen on the test problems, as the paper does: too good`,
    named,
  );
  const at = rows.findLastIndex(({ kind }) => kind === "layer swap") + 1;
  return [...rows.slice(0, at), chosen, oracle, ...rows.slice(at)];
}

const pairOf = ({ math, language }: PairResult) => `${math} ${language}`;

const meanOf = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

function rowOf(name: string, results: readonly PairResult[], note: string, named: readonly PairResult[]): DemoRow {
  const scores = results.map(({ swahili }) => exactMatch(swahili));
  const { standardError } = meanWithError((results[0]?.swahili ?? []).map(({ isRight }) => (isRight ? 100 : 0)));
  return {
    ...{ name, note, kind: results[0]?.kind ?? "model" },
    swahili: { least: Math.min(...scores), mean: meanOf(scores), most: Math.max(...scores) },
    english: meanOf(results.map(({ english }) => exactMatch(english))),
    error: standardError,
    ...(name === NAMED_SWAP ? {} : { lead: leadOf(named, results) }),
  };
}

// Two-sided, 5%, normal: there are some hundred problems.
const CLEAR = 1.96;

function leadOf(named: readonly PairResult[], others: readonly PairResult[]): Lead {
  const before = shares(others);
  const { mean, standardError } = meanWithError(shares(named).map((share, i) => share - (before[i] ?? 0)));
  return { points: mean, error: standardError, isClear: Math.abs(mean) > CLEAR * standardError };
}

/** By problem, in how many pairs in a hundred it was answered rightly. */
function shares(results: readonly PairResult[]): number[] {
  const problems = results[0]?.swahili ?? [];
  return problems.map((_, i) => meanOf(results.map(({ swahili }) => (swahili[i]?.isRight ? 100 : 0))));
}

/** A problem, and what some models of the first pair say to it. */
export interface AskedProblem {
  readonly swahili: string;
  readonly english: string;
  readonly gold: number;
  readonly answers: readonly { readonly name: string; readonly text: string; readonly isRight: boolean }[];
}

/** All problems of the test with the answers of these contestants, of the first pair. */
export function askedProblems({ results }: Pick<DemoResult, "results">, names: readonly string[]): AskedProblem[] {
  const asked = names.flatMap((name) => results.find((result) => result.name === name) ?? []);
  const [first] = asked;
  if (!first) return [];
  return first.swahili.map(({ problem, gold }, i) => ({
    ...{ swahili: problem, english: first.english[i]?.problem ?? "", gold },
    answers: asked.map(({ name, swahili }) => ({
      ...{ name, text: swahili[i]?.answer ?? "", isRight: swahili[i]?.isRight ?? false },
    })),
  }));
}

/** Those that the first of two contestants answers rightly and the second does not, and the other way round. */
export function gainsAndLosses(problems: readonly AskedProblem[]): {
  readonly gained: readonly AskedProblem[];
  readonly lost: readonly AskedProblem[];
} {
  const flipped = (right: boolean) =>
    problems.filter(({ answers: [one, other] }) => one?.isRight === right && other?.isRight === !right);
  return { gained: flipped(true), lost: flipped(false) };
}
