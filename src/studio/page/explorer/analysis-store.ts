// Analyses of the project's models: what was measured, and whether it is of the models as they are now.
import { computed, signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Analysis, type Expert, type Job, jobInputs } from "../../protocol/index.js";
import { call } from "../client.js";
import { inBackground, isStale, jobs, misfitOf, settings } from "../store.js";

/** By job. */
const loaded = signal<ReadonlyMap<string, Analysis>>(new Map());

export const inputOf = (job: Job | undefined) => jobInputs.analyze.safeParse(job?.input).data;

/** Experts that fit the base: another one would keep all from being measured. */
export const fitting = computed(() =>
  (settings.value?.experts ?? []).filter(({ source }) => misfitOf(source) === undefined),
);

const sources = (of: readonly Expert[] = []) => JSON.stringify(of.map(({ source }) => source).sort());

export function isCurrent(job: Job): boolean {
  const input = inputOf(job);
  return input?.base === settings.value?.base && sources(input?.experts) === sources(fitting.value) && !isStale(job);
}

export const measured = computed(() => jobs.value.filter(({ kind, state }) => kind === "analyze" && state === "done"));

/** What a job found; undefined while it is loaded. */
export function useAnalysis(id: string | undefined): Analysis | undefined {
  useEffect(() => {
    if (id === undefined || loaded.value.has(id)) return;
    void inBackground(async () => {
      const found = await call("analysis.read", { id });
      loaded.value = new Map([...loaded.value, [id, found]]);
    });
  }, [id]);
  return id === undefined ? undefined : loaded.value.get(id);
}
