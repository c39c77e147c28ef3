// The data of an experiment's report: what report.json holds.
import type { NumberCell, Scale, Span, Table } from "../../report/index.js";

export interface ReportTable extends Required<Table> {
  readonly kind: "scores" | "paper" | "search" | "flips" | "cost";
}

/** One row of an overview: a way of making models, under the plan's name, over its pairs or experts. */
export interface OverviewBar {
  readonly label: string;
  /** Which kind it is, for the colour. */
  readonly kind: "base" | "expert" | "average" | "merge" | "swap" | "joint";
  readonly mean: number;
  /** Smallest and largest over its models. */
  readonly low: number;
  readonly high: number;
  /** 95% interval of the mean over items; undefined of scores of whole corpora. */
  readonly interval?: Span | undefined;
  /** Number of models that it is the mean of. */
  readonly count: number;
  /** Names of these models. */
  readonly models: readonly string[];
  /** Such as the configuration. */
  readonly detail: string;
  /** Whether it is the highest, and significantly above each other row. */
  readonly isBest: boolean;
}

/** All ways of making models on one task. */
export interface Overview {
  /** For file names and links. */
  readonly id: string;
  /** Name of the task in the plan. */
  readonly task: string;
  /** Such as `MGSM Swahili`. */
  readonly title: string;
  readonly protocol: string;
  readonly scale: Scale;
  /** Which items the numbers are of: `150 items that the search did not see`. */
  readonly items: string;
  /** How configurations were chosen, in a sentence; empty where none were. */
  readonly choice: string;
  /** Whether the highest is significantly above the others, in a sentence; empty where there is nothing to compare. */
  readonly verdict: string;
  /** Rows that there will be, in a sentence; empty where all are there. */
  readonly missing: string;
  readonly bars: readonly OverviewBar[];
}

/** Scores over the numbers of a grid: of two of its fields, or, as a single row, of one. */
export interface ReportHeatmap {
  readonly id: string;
  readonly title: string;
  readonly note: string;
  /** Fields of the recipe: `bottom`, `top`. Of a single row, `rowTitle` is empty, and its label says what it shows. */
  readonly rowTitle: string;
  readonly columnTitle: string;
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  /** `cells[row][column]`, from 0 to 1; null where nothing was asked. */
  readonly cells: readonly (readonly (number | null)[])[];
  /** Places of the default and of the chosen configuration. */
  readonly marked: readonly { readonly row: number; readonly column: number; readonly what: "default" | "chosen" }[];
}

/** What a merge gained and lost against one of the models that it could replace. */
export interface Flips {
  readonly model: string;
  readonly against: string;
  readonly task: string;
  readonly scale: Scale;
  readonly difference: number;
  readonly interval?: Span | undefined;
  readonly gained: readonly string[];
  readonly lost: readonly string[];
  readonly pValue?: number | undefined;
}

/** Every score that there is. */
export interface ScoreRow {
  readonly model: string;
  readonly kind: "base" | "expert" | "merge" | "candidate";
  /** Whether it is of a model that is reported, and not of one that was only asked to choose. */
  readonly isReported: boolean;
  readonly task: string;
  readonly protocol: string;
  readonly cell: NumberCell;
  readonly items: number;
  /** All items that the task has. */
  readonly of: number;
  /** Of those that were asked, without an answer that could be judged: in no score. */
  readonly unanswered: number;
}

/** A configuration as it stood when the search last asked it. */
export interface SearchedConfiguration {
  readonly label: string;
  readonly mean: number;
  /** Difference from the best on the same items, and the half-width of its 95% interval. */
  readonly behind: number;
  readonly margin: number;
  readonly items: number;
  /** Last round that it was in, from 1. */
  readonly round: number;
  readonly isChosen: boolean;
  /** Whether the plan names it as the default. */
  readonly isDefault: boolean;
}

export interface SearchRow {
  readonly id: string;
  readonly group: string;
  /** The deciding tasks: items that the search saw, and all. */
  readonly tasks: readonly { readonly title: string; readonly searched: number; readonly all: number }[];
  readonly how: "grid" | "halving";
  /** Rounds that there will be, and configurations of the first. */
  readonly plannedRounds: number;
  readonly size: number;
  readonly chooseOn: "held-out" | "test" | "both";
  /** What each round did so far: items of each configuration up to then, and how many did not go on. */
  readonly rounds: readonly {
    readonly configurations: number;
    readonly items: number;
    readonly dropped: number;
  }[];
  /** All of them: those of the last round, the best first; then those of the round before. */
  readonly configurations: readonly SearchedConfiguration[];
  readonly chosen?: string | undefined;
  readonly chosenOnTest?: string | undefined;
  /** Configurations with the same mean as the chosen one on the same items, it among them; empty where it is alone. */
  readonly ties: readonly string[];
  /** All of this in sentences. */
  readonly summary: string;
}

export interface CostRow {
  readonly what: string;
  readonly steps: number;
  readonly seconds: number;
}

/** The report of an experiment as plain data: tables, scores, failures, costs. */
export interface ExperimentReport {
  readonly name: string;
  readonly title: string;
  readonly notes: readonly string[];
  /** Version of layergraft. */
  readonly layergraft: string;
  readonly base: {
    readonly name: string;
    readonly parameters?: number | undefined;
    readonly layers?: number | undefined;
  };
  readonly progress: {
    readonly done: number;
    readonly failed: number;
    readonly left: number;
    readonly waiting: number;
  };
  readonly failures: readonly { readonly label: string; readonly reason: string }[];
  /** What its 95% intervals are, in a sentence. */
  readonly intervals: string;
  readonly overviews: readonly Overview[];
  /** Every table, in the order of the report. */
  readonly tables: readonly ReportTable[];
  readonly heatmaps: readonly ReportHeatmap[];
  readonly searches: readonly SearchRow[];
  readonly flips: readonly Flips[];
  readonly scores: readonly ScoreRow[];
  /** Experts that were chosen among checkpoints, and what they are. */
  readonly experts: readonly { readonly name: string; readonly family: string; readonly origin: string }[];
  readonly cost: {
    readonly rows: readonly CostRow[];
    /** Seconds of making merges, and of all steps. */
    readonly mergeSeconds: number;
    readonly seconds: number;
  };
}
