// Reads experiments, in a thread: plans by strangers, large reports, models that must be identified.
import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { type Experiment, openExperiment, statusOf } from "../../experiment/index.js";
import { findRecipe, gatherReport, REPORT } from "../../experiment/report/index.js";
import { exists, stampOf, staysIn } from "../../kit/files/index.js";
import { loadYaml } from "../../kit/settings/index.js";
import { digestOfFile, fileOf } from "../project/project.js";
import type { Input, PlanEntry, Experiment as Shown } from "../protocol/index.js";
import { entryOf, findPlans, placeOf, runnerIn } from "./find-plans.js";
import { summarize } from "./summary.js";

/** Folders of steps whose times are compared. */
const MAX_STEPS = 20_000;
/** Milliseconds to open models and data, some of which may be on the hub. */
const TIME_TO_OPEN = 45_000;

/** The experiment that was read last, which models identify only once. */
let opened: { readonly key: string; readonly experiment: Experiment } | undefined;

type Project = { readonly folder: string };

/** What the page asks. */
export const READS = {
  async list({ folder }: Project): Promise<PlanEntry[]> {
    const plans = await findPlans(folder);
    return Promise.all(plans.map((plan) => entryOf(folder, plan)));
  },
  /** Null if it is still of that version. */
  async read({ folder, plan, version }: Project & Input<"experiment.read">): Promise<Shown | null> {
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
    return summarize(experiment, status, gatherReport(experiment, status), place);
  },
  /** YAML of a recipe of the report. */
  async recipe({ folder, plan, id }: Project & Input<"experiment.recipe">): Promise<string> {
    const file = await fileOf(folder, plan);
    const experiment = await openOnce([plan, await stampOf(file)].join(" "), file);
    const status = await statusOf(experiment);
    const { recipe } = findRecipe(id, gatherReport(experiment, status), status);
    const { yamlText } = await loadYaml();
    return yamlText(recipe);
  },
};

/** Changes with the plan, with what runs it, and with the files of its steps and report. */
async function versionOf(key: string, out: string): Promise<string> {
  const steps = join(out, "steps");
  const names = await readdir(steps).catch(() => []);
  const hash = createHash("sha256").update(key);
  for (const name of names.sort().slice(0, MAX_STEPS)) {
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
