// What must be known of the world before a plan can be expanded: which bytes the models and data are, and how many items
// the tasks have. Found out once, by facts-reader.ts; expansion itself reads nothing.

/** A task as it will be asked. */
export interface TaskFacts {
  readonly name: string;
  readonly title: string;
  /** `layergraft/mgsm-native-cot@1, 8-shot`. */
  readonly protocol: string;
  /** Number of items. */
  readonly items: number;
  /** Changes when anything that is asked or expected does. */
  readonly digest: string;
  /** How the headline score is written: as a percentage, or in points such as BLEU. */
  readonly scale: "share" | "points";
  /** Whether the score is the mean over items, as configurations are compared item by item. */
  readonly isMean: boolean;
  readonly executes: boolean;
}

export interface Facts {
  /** What identifies the bytes of a folder, as the plan names it. */
  modelIdentity(source: string): { readonly identity: string; readonly folder: string };
  /** What identifies the data of a training run. */
  dataIdentity(run: Readonly<Record<string, unknown>>): string;
  task(request: { task: string; shots?: number; limit?: number; protocol?: string }): TaskFacts;
}

/** A checkpoint that a training step left. */
export interface TrainedCheckpoint {
  /** Within the step's folder. */
  readonly path: string;
  /** Training samples seen. */
  readonly samples: number;
  /** Whether it is an adapter to the base, and no whole model. */
  readonly isAdapter?: boolean | undefined;
}

/** What became of one item: which it is, and what it is worth. */
export interface ItemResult {
  /** Place in the task's own order. */
  readonly index: number;
  readonly id: string;
  /** From 0 to 1, or what a corpus score is summed from; null where nothing could be judged. */
  readonly value: number | readonly number[] | null;
}

/** A suggested configuration. */
export interface SuggestedRecipe {
  readonly name: string;
  readonly reason: string;
  /** With `base`, `task` and `language` as the names of its sources. */
  readonly recipe: Readonly<Record<string, unknown>>;
}

/** Results of steps that are done. Scores are headline scores from 0 to 1; of a task in points, a hundredth of them. */
export interface Results {
  trained(key: string): readonly TrainedCheckpoint[] | undefined;
  suggested(key: string): readonly SuggestedRecipe[] | undefined;
  evaluated(key: string): { readonly items: readonly ItemResult[]; readonly score: number } | undefined;
}
