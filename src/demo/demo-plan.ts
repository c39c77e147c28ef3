// The files of the demo: the run file of the base and the plan.

import { join } from "node:path";
import { writeFileAtomically } from "../core/index.js";
import { BATCH, dataFiles, SEQUENCE_LENGTH, seedOf, stepsOf, type WorldSettings } from "./world/world-files.js";

export interface DemoSettings extends WorldSettings {
  /** Train the models, in place of the shipped ones. */
  readonly train: boolean;
  /** Train all layers of each expert (arXiv 2410.01335), not only those meant for the swap (arXiv 2505.18356). */
  readonly full: boolean;
  /** Threads of each step. */
  readonly threads: number;
}

/** The files of `writePlan`. */
export const PLAN_FILES = ["base.yaml", "plan.yaml"] as const;

/** Names in the plan that the demo's results are found by. */
export const NAMES = { swap: "layer swap", math: "math", language: "swahili" } as const;
/** What the demo calls the experts. */
export const EXPERTS = { task: "math expert", language: "Swahili expert" } as const;
export const TASKS = { sw: "problems_sw.yaml", en: "problems_en.yaml" } as const;

/** Peak learning rates. */
const RATES = { math: "4.0e-4", language: "1.0e-3", joint: "1.0e-3" } as const;

/** What an expert trains, unless it trains all layers. */
const PARTS = { math: "layers 3-7", language: "embeddings, layers 0-2" } as const;

/** Writes the plan of the experiment and, if models are trained, the run file of the base. */
export async function writePlan(out: string, settings: DemoSettings): Promise<void> {
  if (settings.train) await writeFileAtomically(join(out, "base.yaml"), baseRun(settings));
  await writeFileAtomically(join(out, "plan.yaml"), planText(settings));
}

const set = (source: string) => `{ source: ${source}, map: { prompt: prompt, response: response } }`;

function data(kind: "base" | "math" | "language" | "joint", number: number): string {
  return `{ sets: [${dataFiles(kind, number).map(set).join(", ")}], template: "{prompt} {response}" }`;
}

// A step has about 60 samples, so the base has about four checkpoints.
const SAMPLES_PER_CHECKPOINT = 15;

function baseRun(settings: DemoSettings): string {
  return `# How the demo trains its base.
base: base-untrained
out: base
data: ${data("base", 0)}
steps: ${stepsOf("base", settings)}
sequence_length: ${SEQUENCE_LENGTH}
batch: ${BATCH}
packing: true
optimizer: { lr: 3.0e-3, betas: [0.9, 0.98] }
schedule: { kind: cosine, warmup: 30, floor: 0.05 }
checkpoints: { every_samples: ${SAMPLES_PER_CHECKPOINT * stepsOf("base", settings)}, keep: last }
seed: ${seedOf(settings, 0)}
threads: ${settings.threads}
`;
}

/** Fewer problems than in Swahili, so that the shipped models are compared in a minute. */
const IN_ENGLISH = "{ task: problems_en.yaml, limit: 250 }";

/** Experts in the folders of the shipped models. */
const SHIPPED = `base: base
experts:
  ${NAMES.math}: { role: task, folders: [math-expert] }
  ${NAMES.language}: { role: language, language: sw, folders: [swahili-expert] }
`;

function trained(settings: DemoSettings): string {
  const numbers = Array.from({ length: settings.pairs }, (_, i) => i + 1);
  const train = (kind: "math" | "language" | "joint", family: string, rate: string) => {
    const run = (number: number) =>
      `        - { name: ${family}-${number}, seed: ${seedOf(settings, number)}, data: ${data(kind, number)} }`;
    const part = !settings.full && kind !== "joint" ? `, train: "${PARTS[kind]}"` : "";
    return `    train:
      like: fine-tuning
      run: { steps: ${stepsOf(kind, settings)}, optimizer: { lr: ${rate} }${part} }
      runs:
${numbers.map(run).join("\n")}`;
  };
  return `base: base/last
training:
  fine-tuning:
    run:
      sequence_length: ${SEQUENCE_LENGTH}
      batch: ${BATCH}
      packing: true
      optimizer: { betas: [0.9, 0.98], decay: 0 }
      schedule: { kind: cosine, warmup: 15, floor: 0.05 }
      checkpoints: { every_samples: 1000000000, keep: last }
experts:
  ${NAMES.math}:
    role: task
${train("math", NAMES.math, RATES.math)}
  ${NAMES.language}:
    role: language
    language: sw
${train("language", NAMES.language, RATES.language)}
  both:
    role: joint
${train("joint", "both", RATES.joint)}
`;
}

function planText(settings: DemoSettings): string {
  return `# The demo as an experiment. Change it, then run it again; only what is new is computed:
#   layergraft experiment plan.yaml run
name: miniature
title: Layer swapping in miniature
out: experiment
${settings.train ? trained(settings) : SHIPPED}merges:
  - name: ${NAMES.swap}
    recipe: { method: swap, task: math, language: swahili, bottom_transition: 0, top_transition: 0 }
    grid: { bottom: [1, 2, 3], top: [0, 1, 2] }
    default: { bottom: 2, top: 1 }
  - { name: soup, recipe: { method: soup, models: [math, swahili] } }
  - { name: soup by magnitude, recipe: { method: soup, models: [math, swahili], base: base, weights: magnitude } }
  - name: TIES
    recipe: { method: ties, models: [math, swahili], base: base }
    grid: { density: [0.2, 0.5, 0.8] }
    default: { density: 0.2 }
  - { name: task arithmetic, recipe: { method: task_arithmetic, models: [math, swahili], base: base, lambda: 1 } }
controls: { kinds: [reverse, random, into-base], draws: 1, seed: ${settings.seed} }
evaluate:
  tasks: [problems_sw.yaml, ${settings.train ? "problems_en.yaml, reading_sw.yaml" : IN_ENGLISH}, { task: choosing_sw.yaml, of: [merges] }]
search: { by: choosing_sw.yaml, choose_on: test }
executor: { cores: ${settings.threads} }
`;
}
