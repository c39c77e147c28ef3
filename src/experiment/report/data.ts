// What an experiment's report is made of, as plain data: report/ makes pages and tables of it.

/** A number of a table, with what stands beside it. Shares are from 0 to 1, points from 0 to 100. */
export interface Cell {
  /** Undefined where it is not known yet; null where there is nothing. */
  readonly value: number | null | undefined;
  readonly scale: "share" | "points";
  /** 95% interval over items. */
  readonly interval?: { readonly low: number; readonly high: number } | undefined;
  /** Smallest and largest over pairs or experts. */
  readonly range?: { readonly low: number; readonly high: number; readonly count: number } | undefined;
  /** What the paper prints there, in the same scale. */
  readonly published?: number | undefined;
  /** Whether it is the largest of its row. */
  readonly isBest?: boolean;
}

export interface ReportTable {
  /** For file names and links: `table-1`. */
  readonly id: string;
  readonly title: string;
  /** What a reader must know of it. */
  readonly note: string;
  /** Title of the first column, then of the others. */
  readonly columns: readonly string[];
  readonly rows: readonly { readonly label: string; readonly cells: readonly Cell[] }[];
}

/** One bar of the overview: a way of making models, over its pairs or experts. */
export interface OverviewBar {
  readonly label: string;
  /** Which kind it is, for the colour. */
  readonly kind: "base" | "expert" | "average" | "merge" | "swap" | "joint";
  readonly mean: number;
  readonly low: number;
  readonly high: number;
  /** Models that it is the mean of. */
  readonly count: number;
  /** Such as the configuration. */
  readonly detail: string;
}

export interface Overview {
  /** Such as `MGSM Swahili`. */
  readonly title: string;
  readonly protocol: string;
  readonly scale: "share" | "points";
  /** Which items the numbers are of: `150 items that the search did not see`. */
  readonly items: string;
  readonly bars: readonly OverviewBar[];
}

/** Scores over bottom and top layers. */
export interface ReportHeatmap {
  readonly id: string;
  readonly title: string;
  readonly note: string;
  /** What the rows and columns are: `bottom`, `top`. */
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
  readonly scale: "share" | "points";
  readonly difference: number;
  readonly interval?: { readonly low: number; readonly high: number } | undefined;
  readonly gained: readonly string[];
  readonly lost: readonly string[];
  readonly pValue?: number | undefined;
}

/** Every score that there is. */
export interface ScoreRow {
  readonly model: string;
  readonly kind: "base" | "expert" | "merge" | "candidate";
  readonly task: string;
  readonly protocol: string;
  readonly cell: Cell;
  readonly items: number;
  /** All items that the task has. */
  readonly of: number;
}

export interface SearchRow {
  readonly group: string;
  readonly configurations: readonly {
    readonly label: string;
    readonly mean: number;
    /** Difference from the best on the same items, and the half-width of its 95% interval. */
    readonly behind: number;
    readonly margin: number;
    readonly items: number;
    readonly isChosen: boolean;
    readonly isDefault: boolean;
  }[];
  readonly chosen?: string | undefined;
  readonly chosenOnTest?: string | undefined;
}

export interface CostRow {
  readonly what: string;
  readonly steps: number;
  readonly seconds: number;
}

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
  readonly overviews: readonly Overview[];
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
