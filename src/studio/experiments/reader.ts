// Entry point of the thread that reads experiments: plans by strangers, large reports, models that must be identified.
import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { exists, isAnySystemError, LayergraftError, stampOf, staysIn, systemMessage } from "../../core/index.js";
import { type Experiment, openExperiment, statusOf } from "../../experiment/index.js";
import { findRecipe, gatherReport, REPORT } from "../../findings/index.js";
import type { Experiment as Shown } from "../experiment-protocol.js";
import { digestOfFile, fileOf } from "../project/project.js";
import type { Answer, Answers, Question, ReaderData } from "./ask.js";
import { entryOf, findPlans, placeOf, runnerIn } from "./find-plans.js";
import { summarize } from "./summary.js";

/** Folders of steps whose times are compared. */
const MOST_STEPS = 20_000;
/** Milliseconds to open models and data, some of which may be on the hub. */
const TIME_TO_OPEN = 45_000;

const { folder } = workerData as ReaderData;
/** The experiment that was read last, which models identify only once. */
let opened: { readonly key: string; readonly experiment: Experiment } | undefined;

const ANSWERS: Answers = {
  async list() {
    const plans = await findPlans(folder);
    return Promise.all(plans.map((plan) => entryOf(folder, plan)));
  },
  async read({ plan, version }) {
    const file = await fileOf(folder, plan);
    const planDigest = await digestOfFile(file);
    const { out } = await placeOf(file);
    const runner = await runnerIn(out);
    const key = [plan, await stampOf(file), runner?.pid].join(" ");
    const now = await versionOf(key, out);
    if (now === version) return null;
    const experiment = await openOnce(key, file);
    const status = await statusOf(experiment);
    const written = join(out, REPORT, "index.html");
    const place = {
      plan,
      version: now,
      planDigest,
      runner,
      report: (await exists(written)) && (await staysIn(written, out)) ? written : null,
    };
    return summarize(experiment, status, gatherReport(experiment, status), place) satisfies Shown;
  },
  async recipe({ plan, id }) {
    const file = await fileOf(folder, plan);
    const experiment = await openOnce([plan, await stampOf(file)].join(" "), file);
    const status = await statusOf(experiment);
    const { recipe } = findRecipe(id, gatherReport(experiment, status), status);
    const { stringify } = await import("yaml");
    return stringify(recipe);
  },
};

/** Changes with the plan, with what runs it, and with the files of its steps and report. */
async function versionOf(key: string, out: string): Promise<string> {
  const steps = join(out, "steps");
  const names = await readdir(steps).catch(() => []);
  const hash = createHash("sha256").update(key);
  for (const name of names.sort().slice(0, MOST_STEPS)) {
    hash.update(name).update(await stampOf(join(steps, name)).catch(() => ""));
  }
  return hash
    .update(await stampOf(join(out, REPORT)).catch(() => ""))
    .digest("hex")
    .slice(0, 24);
}

async function openOnce(key: string, file: string): Promise<Experiment> {
  if (opened?.key === key) return opened.experiment;
  const experiment = await openExperiment(file, { signal: AbortSignal.timeout(TIME_TO_OPEN) });
  // A problem may be fixed without a change of the plan.
  opened = experiment.world.problems.length === 0 ? { key, experiment } : undefined;
  return experiment;
}

parentPort?.on("message", async ({ id, kind, input }: Question) => {
  const send = (answer: Answer) => parentPort?.postMessage(answer);
  try {
    send({ id, value: await ANSWERS[kind](input as never) });
  } catch (error) {
    if (isAnySystemError(error)) return send({ id, message: systemMessage(error), isBug: false });
    const message = error instanceof Error ? error.message : String(error);
    send({ id, message, isBug: !(error instanceof LayergraftError) });
  }
});
