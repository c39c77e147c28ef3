// The miniature's table: per contestant the scores over all pairs, the swap chosen on development problems, and what the
// swap gained and lost. Plain data, for the terminal and for the page.
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
  /** What a reader must know of the row; usually empty. */
  readonly note: string;
}

const NOTES: Readonly<Record<string, string>> = {
  [NAMED_SWAP]: "fixed before anything was measured",
  [PAPER_SWAP]: "the paper's 5 and 2 of 32 layers, in proportion",
};

/** Rows in the order of the comparison. */
export function demoRows({ results }: Pick<DemoResult, "results">): DemoRow[] {
  const names = [...new Set(results.map(({ name }) => name))];
  const rows = names.map((name) => {
    const own = results.filter((result) => result.name === name);
    return rowOf(name, own, NOTES[name] ?? "");
  });
  const swaps = results.filter(({ family }) => family === "swap");
  const pairs = [...new Set(swaps.map(pairOf))];
  const best = (by: (result: PairResult) => number) =>
    pairs.flatMap((pair) => {
      const own = swaps.filter((result) => pairOf(result) === pair);
      return own.toSorted((a, b) => by(b) - by(a)).slice(0, 1);
    });
  const chosen = rowOf(
    "swap, chosen on development",
    best(({ development }) => exactMatch(development)),
    "configuration chosen on 100 other problems",
  );
  const oracle = rowOf(
    "swap, best on the test",
    best(({ swahili }) => exactMatch(swahili)),
    "chosen on the test problems, as the paper does: too good",
  );
  const at = rows.findLastIndex(({ kind }) => kind === "layer swap") + 1;
  return [...rows.slice(0, at), chosen, oracle, ...rows.slice(at)];
}

const pairOf = ({ math, language }: PairResult) => `${math} ${language}`;

function rowOf(name: string, results: readonly PairResult[], note: string): DemoRow {
  const scores = results.map(({ swahili }) => exactMatch(swahili));
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const { standardError } = meanWithError((results[0]?.swahili ?? []).map(({ isRight }) => (isRight ? 100 : 0)));
  return {
    ...{ name, note, kind: results[0]?.kind ?? "model" },
    swahili: { least: Math.min(...scores), mean: mean(scores), most: Math.max(...scores) },
    english: mean(results.map(({ english }) => exactMatch(english))),
    error: standardError,
  };
}

/** Problems of the first pair that a merge answers rightly and the other does not. */
export function gainsAndLosses(
  { results }: Pick<DemoResult, "results">,
  merge: string,
  other: string,
): { readonly gained: readonly Flip[]; readonly lost: readonly Flip[] } {
  const answers = (name: string) => results.find((result) => result.name === name)?.swahili ?? [];
  const flips = answers(merge).map((answered, i) => ({ answered, before: answers(other)[i] }));
  const pick = (right: boolean): Flip[] =>
    flips.flatMap(({ answered, before }) =>
      before && answered.isRight === right && before.isRight !== right
        ? [{ problem: answered.problem, gold: answered.gold, merge: answered.answer, other: before.answer }]
        : [],
    );
  return { gained: pick(true), lost: pick(false) };
}

export interface Flip {
  readonly problem: string;
  readonly gold: number;
  readonly merge: string;
  readonly other: string;
}
