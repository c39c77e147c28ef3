import type {
  Finding,
  Grid,
  Lead,
  Lines,
  NumberCell,
  PlainFigure,
  Scale,
  Score,
  Span,
  Table,
} from "../../figures/index.js";
import type { Experiment } from "../experiment.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";
import type { Counts, RunSummary } from "../run/run-experiment.js";
import type { Ranked } from "../search/search.js";
import type { EvaluationResult } from "../steps/result.js";

/** A table with files of its own. */
export type ReportTable = Required<Table>;

/** The models of a family or merge, which are averaged. */
export interface OverviewRow {
  readonly label: string;
  /** The family of experts, or the merge, of which it may be one of several configurations. */
  readonly entry: string;
  /** Whether a search chose its models. */
  readonly isChosen: boolean;
  /** Of a row that stands for two, such as the default that was also chosen: the labels of both. */
  readonly labels?: readonly string[];
  readonly kind: "base" | "expert" | "average" | "merge" | "swap" | "joint" | "control";
  /** Of an expert: its position in the plan, which has its colour. */
  readonly own?: number | undefined;
  /** What it is, in words: whose each layer is, or the method; empty where its name or detail says it. */
  readonly about: string;
  /** The configuration, or the role of experts. */
  readonly detail: string;
  readonly models: readonly string[];
  /** Whether it is the mean of a search's configurations, each of which may be a row of its own. */
  readonly isSummary?: boolean;
  /** Whether it is a point of a figure, which may be an expert under another name; like a control, never the best. */
  readonly isPoint?: boolean;
}

export interface OverviewBar extends OverviewRow, Score {
  readonly count: number;
  /** Whether it is significantly above each other row. */
  readonly isBest: boolean;
}

export interface Overview {
  readonly id: string;
  /** Name of the task in the plan. */
  readonly task: string;
  readonly title: string;
  readonly protocol: string;
  /** The question of the first item; undefined for an average. */
  readonly example?: string | undefined;
  readonly scale: Scale;
  /** `the 150 of 250 items that no search saw` */
  readonly items: string;
  /** How configurations were chosen, in a sentence; empty if none were. */
  readonly choice: string;
  /** What the rows show: the highest against the best alternative and the others; undefined if there are fewer than two. */
  readonly finding: Finding | undefined;
  /** Rows without results yet, in a sentence; empty if there are none. */
  readonly missing: string;
  /** Every row, with or without results; `bars` has those with results, in the same order. */
  readonly rows: readonly Pick<OverviewRow, "label" | "kind" | "own" | "about" | "detail">[];
  readonly bars: readonly OverviewBar[];
  /** The lead of each swap, in its default configuration, over its controls; `of`: label of its row. */
  readonly controls: readonly { readonly of: string; readonly leads: readonly Lead[] }[];
}

/** Scores over two fields of a grid, or over one in a single row: `bottom`, `top`. */
export interface ReportHeatmap extends Grid {
  readonly id: string;
  readonly title: string;
  readonly note: string;
  readonly cells: readonly (readonly (number | null)[])[];
  /** Of the grid of a search: name of the merge. */
  readonly merge?: string;
  /** Of the grid of a search: how far each cell is from the best on the same items, and the 95% margin of that. */
  readonly behind?: readonly (readonly ({ readonly behind: number; readonly margin: number } | null)[])[];
  /** The default and the chosen configuration. */
  readonly marked: readonly { readonly row: number; readonly column: number; readonly what: "default" | "chosen" }[];
}

/** A point of a line: the mean over the models of a configuration. */
export interface LinePoint extends Score {
  /** Value of the grid's field. */
  readonly x: number;
  readonly models: readonly string[];
  /** Against the reference on the same items: the difference, its 95% interval, and p with Holm's correction. */
  readonly difference?: number | undefined;
  readonly between?: Span | undefined;
  readonly pValue?: number | undefined;
}

/**
 * Scores of a merge on a task over one field of its grid, such as `keep share`, with those of the base and of families of
 * experts. The verdict says which points differ from the reference.
 */
export interface ReportLines extends Lines {
  readonly id: string;
  readonly title: string;
  readonly note: string;
  /** One for each combination of the grid's other fields, which are its label. */
  readonly lines: readonly { readonly label: string; readonly points: readonly LinePoint[] }[];
  /** The field's value in the default configuration. */
  readonly reference: number | undefined;
}

/** What a merge gained and lost against the base or one of its experts. */
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

export interface ReportRecipe {
  /** Name of its file, without the ending. */
  readonly id: string;
  readonly model: string;
  /** Labels of the rows of main tables that it is in. */
  readonly rows: readonly string[];
  /** Text of its file; paths start from the folder `report/recipes`. */
  readonly text: string;
  /** Command that writes the model, from the plan's folder. */
  readonly command: string;
}

/** A model's score on a task, or its average of tasks. */
export interface ScoreRow {
  /** Of a variant of a matrix: the value of each axis. */
  readonly values?: Readonly<Record<string, string>>;
  /** Of a variant: what ran its models. */
  readonly backend?: string;
  readonly model: string;
  readonly kind: "base" | "expert" | "merge" | "control" | "candidate";
  /** False if the model was evaluated only to choose among configurations or checkpoints. */
  readonly isReported: boolean;
  readonly task: string;
  readonly protocol: string;
  readonly cell: NumberCell;
  readonly items: number;
  /** Items of the task, or of all tasks of an average. */
  readonly of: number;
  /** Evaluated items whose answer could not be judged; left out of the score. */
  readonly unanswered: number;
  /** What is measured beside the score, from 0 to 1, and over how many items. */
  readonly asides: readonly NonNullable<EvaluationResult["asides"]>[number][];
}

/** A configuration in its last round of a search. */
export interface SearchedConfiguration extends Omit<Ranked, "configuration"> {
  readonly label: string;
  /** Its last round, from 1. */
  readonly round: number;
  readonly isChosen: boolean;
  /** Whether the plan names it as the default. */
  readonly isDefault: boolean;
}

export interface SearchRow {
  readonly id: string;
  readonly group: string;
  /** The deciding tasks: items that the search saw, and all items. */
  readonly tasks: readonly { readonly title: string; readonly searched: number; readonly all: number }[];
  readonly how: ExperimentPlan["search"]["how"];
  /** Planned rounds, and configurations of the first. */
  readonly plannedRounds: number;
  readonly size: number;
  readonly chooseOn: ExperimentPlan["search"]["choose_on"];
  /** Finished rounds. `items`: of each configuration so far; `dropped`: configurations not in the next round. */
  readonly rounds: readonly {
    readonly configurations: number;
    readonly items: number;
    readonly dropped: number;
  }[];
  /** All configurations: those of the last round, the best first; then those of the round before. */
  readonly configurations: readonly SearchedConfiguration[];
  readonly chosen?: string | undefined;
  /** Configurations tied with the chosen one, including it; empty if there are none. */
  readonly ties: readonly string[];
  /** The best configuration of each expert that is in some of several merges; `chosen`: that of the search, for this expert. */
  readonly byExpert: readonly {
    readonly expert: string;
    readonly merges: number;
    readonly best: string;
    readonly mean: number;
    /** Other configurations with the same mean. */
    readonly ties: number;
    readonly chosen: Ranked | undefined;
  }[];
  /** Of a search in a space: scores from 0 to 1 in the order of evaluation, so far. `generation`: of CMA-ES, from 1. */
  readonly evaluated: readonly {
    readonly label: string;
    readonly mean: number;
    readonly best: number;
    readonly generation: number;
  }[];
  readonly summary: string;
}

export interface CostRow {
  readonly what: string;
  readonly steps: number;
  readonly seconds: number;
}

/** A variant of a matrix; `id`: name of its folder in `variants`. */
export interface ReportVariant extends Pick<Experiment, "id" | "title" | "values"> {
  /** Its report; in report.json, a file of its own. */
  readonly report: PlanReport;
}

/** What every report has. */
export interface ReportHead {
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
  /** What ran the models, with the type of their weights: `engine, float32`, `llama.cpp, q8_0`, a server's command. */
  readonly backend: string;
  /** Steps; `left` includes those that run. */
  readonly progress: Omit<Counts, "running">;
  readonly failures: RunSummary["failures"];
  /** Families and merges without a model because guards refused checkpoints, in sentences. */
  readonly warnings: readonly string[];
  /** What a person should know of its steps, each note with the steps that have it; without steps, of the plan. */
  readonly stepNotes: readonly { readonly note: string; readonly steps: readonly string[] }[];
  /** What its 95% intervals are, in a sentence. */
  readonly intervals: string;
  /** The plan's own tables. */
  readonly tables: readonly ReportTable[];
  readonly scores: readonly ScoreRow[];
  readonly cost: {
    readonly rows: readonly CostRow[];
    /** Seconds of merging, and of all steps. */
    readonly mergeSeconds: number;
    readonly seconds: number;
  };
}

/** The report of a plan without a matrix, or of a variant. */
export interface PlanReport extends ReportHead {
  readonly kind: "plan";
  readonly overviews: readonly Overview[];
  /** Scores that somebody published beside those of the same rows; undefined if there are none. */
  readonly published: ReportTable | undefined;
  /** The checkpoints of each family that chose among them. */
  readonly selections: readonly ReportTable[];
  readonly heatmaps: readonly ReportHeatmap[];
  /** Rounds, then merges with `figure: line`. */
  readonly lines: readonly ReportLines[];
  /** Of the rows that one of two experts changed, the share that both did, by layer and part. */
  readonly overlaps: readonly ReportHeatmap[];
  /** The share of rows that each expert changed by more than a threshold, by layer and part. */
  readonly changes: readonly ReportHeatmap[];
  readonly searches: readonly SearchRow[];
  readonly flips: readonly Flips[];
  /** Recipes of all reported merges and of trained experts. */
  readonly recipes: readonly ReportRecipe[];
  /** Trained experts: what each was trained from and how (`all weights`, `LoRA`), and the checkpoint that it is. */
  readonly experts: readonly {
    readonly name: string;
    readonly family: string;
    readonly from: string;
    readonly how: string;
    readonly origin: string;
  }[];
  /**
   * The plan's `steps` that are done. `value`: file with what the verb found, and `out`: what it wrote, both relative to the
   * report's folder. Absent from a report without any.
   */
  readonly steps?: readonly {
    readonly label: string;
    readonly name: string;
    readonly verb: string;
    readonly value: string;
    readonly out?: string;
    readonly figures: readonly PlainFigure[];
  }[];
}

/** Which row is highest in how many variants of a matrix, by the finding of each. */
export interface Highest {
  /** Variants. */
  readonly of: number;
  /** The most often highest first. `highest`: variants in which it is; `best`: those in which it is significantly above all others. */
  readonly rows: readonly { readonly label: string; readonly highest: number; readonly best: number }[];
  /** Variants whose highest rows are tied. */
  readonly tied: number;
}

/** The report of a plan with a matrix: its variants, compared. */
export interface MatrixReport extends ReportHead {
  readonly kind: "matrix";
  readonly variants: readonly ReportVariant[];
  /** On the deciding task. */
  readonly highest: Highest;
  /** A table for each task, with a row for each variant. */
  readonly compared: readonly ReportTable[];
}

/** The report of an experiment as plain data: tables, scores, failures, cost. */
export type ExperimentReport = PlanReport | MatrixReport;
