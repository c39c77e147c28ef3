// Plans of the project, and the experiment that is shown. Both are read again while the view is open.
import { signal } from "@preact/signals";
import type { Experiment, PlanEntry } from "../../protocol/index.js";
import { call, StudioError } from "../client.js";
import { onEvent } from "../store.js";

/** Milliseconds between looks at the folder. */
const PAUSE = 2000;
/** Looks at the list for each at the shown experiment. */
const LIST_EVERY = 3;

export const plans = signal<readonly PlanEntry[] | null>(null);
export const shown = signal<string | null>(null);
export const experiment = signal<Experiment | null>(null);
/** Why the shown experiment, or the list, cannot be read. */
export const problem = signal<string | null>(null);

let reads = 0;

/** Reads what is shown. @param isForced even if nothing changed */
export async function read(isForced = false): Promise<void> {
  const plan = shown.peek();
  if (plan === null) return;
  const mine = ++reads;
  const before = experiment.peek();
  const version = isForced || before?.plan !== plan ? null : before.version;
  const found = await call("experiment.read", { plan, version }).catch(problemOf);
  // Another one was chosen in the meantime, or a later read has come first.
  if (plan !== shown.peek() || mine !== reads) return;
  problem.value = typeof found === "string" ? found : null;
  if (typeof found === "string") experiment.value = null;
  else if (found !== null) experiment.value = found;
}

export async function list(): Promise<void> {
  try {
    const found = await call("experiment.list", {});
    plans.value = found;
    if (shown.peek() === null || !found.some(({ plan }) => plan === shown.peek())) choose(firstOf(found));
  } catch (error) {
    problem.value = problemOf(error);
  }
}

/** Null where only the server is gone, which the page says above all views. */
function problemOf(error: unknown): string | null {
  return error instanceof StudioError && error.code === "offline" ? null : (error as Error).message;
}

/** The one that runs, else one that ran. */
function firstOf(found: readonly PlanEntry[]): string | null {
  const best = found.find(({ runner }) => runner) ?? found.find(({ steps }) => steps) ?? found[0];
  return best?.plan ?? null;
}

export function choose(plan: string | null): void {
  if (shown.peek() === plan) return;
  [shown.value, experiment.value, problem.value] = [plan, null, null];
  void read();
}

/** Shows a plan, and runs it where nothing has to be fixed or trusted first. */
export async function runAndShow(plan: string): Promise<void> {
  choose(plan);
  location.hash = "#/experiments";
  const found = await call("experiment.read", { plan, version: null });
  if (!found || found.runner || found.problems.length > 0 || found.programs.length > 0) return;
  await call("job.start", { kind: "experiment", input: { plan, planDigest: found.planDigest, allowCode: false } });
  await Promise.all([list(), read(true)]);
}

/** Follows the folder for as long as the view is open. */
export function follow(): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isOpen = true;
  let looks = 0;
  const look = async () => {
    // A plan that cannot be read is read again when someone asks for it.
    if (!document.hidden) {
      if (looks++ % LIST_EVERY === 0) await list();
      if (problem.peek() === null && !experiment.peek()?.problems.length) await read();
    }
    if (isOpen) timer = setTimeout(look, PAUSE);
  };
  void look();
  const stop = onEvent((event) => {
    if (event.type === "job" && event.job.kind === "experiment" && event.job.state !== "running") {
      void list().then(() => read(true));
    }
  });
  return () => {
    isOpen = false;
    clearTimeout(timer);
    stop();
  };
}
