// Makes the report of a plan whose results a function gives.

import type { Cell, Table } from "../../report/table.js";
import type { Experiment, ExperimentStatus } from "../experiment.js";
import { FakeWorld, fakeFacts } from "../plan/fake-world.test-util.js";
import type { EvaluationResult, SuggestedRecipe } from "../steps/result.js";
import type { EvaluateStep } from "../steps/step.js";
import { gatherReport } from "./gather.js";

/** The cells of a row that are numbers. */
export const numbersOf = (row: readonly Cell[] = []) => row.filter((cell) => typeof cell === "object");

/** The numbers of the row with a label. */
export const rowOf = (table: Table | undefined, label: string) =>
  numbersOf(table?.rows.find(([first]) => first === label));

/** How many of ten items in a row a model gets right. */
export type Strength = (step: EvaluateStep) => number;

export interface ReportOfOptions {
  /** Run to the end; default true. Else every step has failed. */
  readonly isFinished?: boolean;
  /** Run only so many rounds of steps that can run. */
  readonly rounds?: number;
  readonly suggested?: readonly SuggestedRecipe[];
  /** What every evaluation measures beside its score. */
  readonly asides?: EvaluationResult["asides"];
  /** Items that a model gives no answer to. */
  readonly isSilent?: (step: EvaluateStep, item: number) => boolean;
}

/** The report, and what the plan amounts to. */
export function reportOf(
  text: string,
  strength: Strength,
  { isFinished = true, rounds, suggested = [], asides, isSilent = () => false }: ReportOfOptions = {},
) {
  const worth = (step: EvaluateStep, item: number) =>
    isSilent(step, item) ? null : item % 10 < strength(step) ? 1 : 0;
  const world = new FakeWorld(text, { worth, suggested, asides });
  for (let round = 0; round < (rounds ?? 0); round++) world.round();
  const expansion = isFinished && rounds === undefined ? world.finish() : world.expand();
  const base = { parameters: 1.24e9, bytes: 2.5e9, layers: 16 };
  const experiment = { plan: world.plan, world: { facts: fakeFacts, problems: [], base } } as unknown as Experiment;
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
  const status = { expansion, steps, counts, store: world.results } as unknown as ExperimentStatus;
  return { report: gatherReport(experiment, status), expansion, experiment, status };
}
