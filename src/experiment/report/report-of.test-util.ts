// Makes the report of a plan whose results a function gives.

import type { Cell, Table } from "../../report/table.js";
import type { Experiment, ExperimentStatus } from "../experiment.js";
import { FakeWorld, fakeFacts } from "../plan/fake-world.test-util.js";
import { Store } from "../run/store.js";
import type { Facts, Results } from "../steps/facts.js";
import type { EvaluationResult, Overlap, SuggestedRecipe, TrainedCheckpoint } from "../steps/result.js";
import type { EvaluateStep } from "../steps/step.js";
import { gatherReport } from "./gather.js";

/** The cells of a row that are numbers. */
export const numbersOf = (row: readonly Cell[] = []) => row.filter((cell) => typeof cell === "object");

/** The numbers of the row with a label. */
export const rowOf = (table: Table | undefined, label: string) =>
  numbersOf(table?.rows.find(([first]) => first === label));

/** Results of a fake world, and the places of its models. */
class FakeStore extends Store {
  constructor(results: Results) {
    super("/work/small.experiment");
    Object.assign(this, results);
  }
}

/** How many of ten items in a row a model gets right. */
export type Strength = (step: EvaluateStep) => number;

export interface ReportOfOptions {
  /** Run to the end; default true. Else every step has failed. */
  readonly isFinished?: boolean;
  /** Run only so many rounds of steps that can run. */
  readonly rounds?: number;
  readonly suggested?: readonly SuggestedRecipe[];
  /** What every pair of experts both changed. */
  readonly overlap?: Overlap;
  /** What every evaluation measures beside its score. */
  readonly asides?: EvaluationResult["asides"];
  /** Checkpoints of each training run. */
  readonly checkpoints?: readonly TrainedCheckpoint[];
  readonly place?: Partial<Pick<Experiment, "isAsWritten">>;
  /** Folders of models. */
  readonly folderOf?: (source: string) => string;
  /** Items that a model gives no answer to. */
  readonly isSilent?: (step: EvaluateStep, item: number) => boolean;
}

/** The report, and what the plan amounts to. */
export function reportOf(
  text: string,
  strength: Strength,
  { isFinished = true, rounds, suggested = [], checkpoints, isSilent = () => false, ...given }: ReportOfOptions = {},
) {
  const worth = (step: EvaluateStep, item: number) =>
    isSilent(step, item) ? null : item % 10 < strength(step) ? 1 : 0;
  const { folderOf = (source) => `/models/${source}` } = given;
  const facts: Facts = {
    ...fakeFacts,
    modelIdentity: (source) => ({ identity: `id:${source}`, folder: folderOf(source) }),
  };
  const world = new FakeWorld(text, {
    worth,
    suggested,
    asides: given.asides,
    overlap: given.overlap,
    facts,
    ...(checkpoints ? { checkpoints } : {}),
  });
  for (let round = 0; round < (rounds ?? 0); round++) world.round();
  const expansion = isFinished && rounds === undefined ? world.finish() : world.expand();
  const base = { parameters: 1.24e9, bytes: 2.5e9, layers: 16 };
  const out = "/work/small.experiment";
  const place = {
    id: "",
    title: "",
    values: {},
    variants: [],
    file: "plan.yaml",
    planFolder: "/work",
    out,
    isAsWritten: true,
    ...given.place,
  };
  const experiment = { plan: world.plan, world: { facts, problems: [], base }, ...place } as unknown as Experiment;
  const steps = expansion.steps.map((step) => ({
    step,
    state: isFinished
      ? { state: "done", attempts: 1, seconds: 2 }
      : { state: "failed", attempts: 1, seconds: 1, reason: "no <memory>" },
  }));
  const counts = {
    done: isFinished ? steps.length : 0,
    failed: isFinished ? 0 : steps.length,
    left: 0,
    running: 0,
    waiting: isFinished ? 0 : 7,
  };
  const status = { expansion, steps, counts, store: new FakeStore(world.results) } as unknown as ExperimentStatus;
  return { report: gatherReport(experiment, status), expansion, experiment, status };
}
