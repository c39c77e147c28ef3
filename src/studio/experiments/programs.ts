// What a plan starts that is not layergraft, so that a person can read it before a plan by a stranger runs.
import { visible } from "../../core/index.js";
import type { ExperimentPlan } from "../../experiment/index.js";
import type { Experiment as Shown } from "../protocol/index.js";

const MAX_TEXT = 4000;
const MAX_PROGRAMS = 50;

/** @param plans of all variants */
export function programsOf(plans: readonly ExperimentPlan[]): Shown["programs"] {
  const found = plans.flatMap(({ evaluate, executor, training, experts }): Shown["programs"] => {
    const { backend, allow_code, unsafe_code } = evaluate;
    const trained = [...Object.values(training), ...Object.values(experts).flatMap(({ train }) => train ?? [])];
    const pythons = trained.flatMap(({ engine, trl }) => trl?.python ?? (engine === "trl" ? "python3" : []));
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
  return [...distinct.values()].slice(0, MAX_PROGRAMS).map(({ when, what }) => ({ when, what: clip(what) }));
}

/** The end of a command may matter most, so it says how much is left out. */
function clip(text: string): string {
  const plain = visible(text);
  const more = plain.length - MAX_TEXT;
  return more > 0 ? `${plain.slice(0, MAX_TEXT)}… (${more} more characters are in the plan)` : plain;
}
