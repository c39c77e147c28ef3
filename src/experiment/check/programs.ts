// The programs that a plan starts.
import { visible } from "../../kit/printing/index.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";

const MAX_PROGRAM = 4000;
const MAX_PROGRAMS = 50;

/** A program that a plan starts and that is not layergraft: a person can read it before a plan by a stranger runs. */
export interface PlanProgram {
  readonly when: string;
  /** Its command, or what it is. */
  readonly what: string;
}

/** @param plans of all variants */
export function programsOf(plans: readonly ExperimentPlan[]): readonly PlanProgram[] {
  const found = plans.flatMap(({ evaluate, executor, experts }): PlanProgram[] => {
    const { backend, allow_code, unsafe_code } = evaluate;
    const pythons = Object.values(experts).flatMap(({ train }) => train?.trl?.python ?? []);
    const confined = unsafe_code ? "confined only where the kernel can confine them" : "in a sandbox";
    const sbatch = [executor, executor.train, executor.evaluate].flatMap((one) => one?.options ?? []);
    return [
      ...(backend.startsWith("serve:")
        ? [{ when: "For each model", what: backend.slice("serve:".length).trim() }]
        : []),
      ...(allow_code ? [{ when: "For each answer", what: `programs that models write, ${confined}` }] : []),
      ...pythons.map((python) => ({ when: "For training", what: python })),
      ...(executor.kind === "slurm" ? [{ when: "For jobs", what: ["sbatch", ...sbatch].join(" ") }] : []),
      ...(executor.setup === undefined ? [] : [{ when: "Before each job's step", what: executor.setup }]),
    ];
  });
  const distinct = new Map(found.map((one) => [`${one.when} ${one.what}`, one]));
  return [...distinct.values()].slice(0, MAX_PROGRAMS).map(({ when, what }) => ({ when, what: clipProgram(what) }));
}

/** The end of a command may matter most, so it says how much is left out. */
function clipProgram(text: string): string {
  const plain = visible(text);
  const more = plain.length - MAX_PROGRAM;
  return more > 0 ? `${plain.slice(0, MAX_PROGRAM)}… (${more} more characters are in the plan)` : plain;
}
