// Plans in a project, and the folders of their experiments, without opening models or data.
import { dirname, join, relative, resolve } from "node:path";
import { readPlan } from "../../experiment/index.js";
import { exists, lockHolder, readBounded } from "../../kit/files/index.js";
import { LayergraftError } from "../../kit/index.js";
import { yamlFiles } from "../project/project.js";
import type { PlanEntry } from "../protocol/index.js";

const MAX_PLANS = 100;
/** Bytes of a file that may be a plan. */
const MAX_BYTES = 1_000_000;
const MAX_STEPS = 5000;

/** Plans in a folder and in the folders directly inside it, by their paths from there. */
export async function findPlans(folder: string): Promise<string[]> {
  const plans: string[] = [];
  for (const file of await yamlFiles(folder)) {
    if (plans.length < MAX_PLANS && (await looksLikePlan(file))) plans.push(relative(folder, file));
  }
  return plans.sort();
}

/** Whether a file has the two fields that every plan has, and no recipe, task or run; it may still be broken. */
async function looksLikePlan(file: string): Promise<boolean> {
  const tooLarge = () => new LayergraftError("usage", `${file} is too large to be a plan`);
  const text = await readBounded(file, MAX_BYTES, tooLarge).then(String, () => "");
  return /^(name|base)\s*:/m.test(text) && /^evaluate\s*:/m.test(text);
}

/** The folder of a plan's experiment. @throws RecipeError if the plan is not valid */
export async function placeOf(file: string): Promise<{ readonly name: string; readonly out: string }> {
  const { plan } = await readPlan(file);
  return { name: plan.title ?? plan.name, out: resolve(dirname(file), plan.out ?? `${plan.name}.experiment`) };
}

/** What the list shows of a plan. */
export async function entryOf(folder: string, plan: string): Promise<PlanEntry> {
  try {
    const { name, out } = await placeOf(join(folder, plan));
    return { plan, name: name.slice(0, 200), problem: null, runner: await runnerIn(out), steps: await countIn(out) };
  } catch (error) {
    if (!(error instanceof LayergraftError)) throw error;
    return { plan, name: plan, problem: error.message.slice(0, 1000), runner: null, steps: null };
  }
}

export async function runnerIn(out: string): Promise<PlanEntry["runner"]> {
  const holder = await lockHolder(out);
  return holder ? { pid: holder.pid, host: holder.host, isStudio: holder.pid === process.pid } : null;
}

/** Steps of the last run, by the files in their folders. */
async function countIn(out: string): Promise<PlanEntry["steps"]> {
  const tooLarge = () => new LayergraftError("usage", "the list of steps is too large");
  const text = await readBounded(join(out, "steps", "index.txt"), 10 * MAX_BYTES, tooLarge).then(String, () => null);
  if (text === null) return null;
  const keys = text.split("\n").flatMap((line) => line.match(/^[\w-]+(?= )/)?.[0] ?? []);
  const counted = keys.slice(0, MAX_STEPS);
  const done = await Promise.all(counted.map((key) => exists(join(out, "steps", key, "result.json"))));
  return { done: done.filter(Boolean).length, known: keys.length };
}
