// What all views share: the project, models, jobs, and the problem that is shown. Views keep the rest to themselves.
import { computed, signal } from "@preact/signals";
import type { Job, Model, Project, Settings, StudioEvent } from "../protocol/index.ts";
import { call, followEvents, StudioError } from "./client.ts";

export const project = signal<Project | null>(null);
export const jobs = signal<readonly Job[]>([]);
export const isConnected = signal(true);
/** A sentence that is shown until it is dismissed. */
export const trouble = signal<string | null>(null);
/** Cards by source; a text is why a source cannot be opened. */
export const models = signal<ReadonlyMap<string, Model | string>>(new Map());

export const settings = computed<Settings | null>(() => project.value?.settings ?? null);

type Listener = (event: StudioEvent) => void;
const listeners = new Set<Listener>();

/** Called for every event until the returned function is called. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Runs work of a button; what goes wrong is shown. */
export async function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    const result = await work();
    trouble.value = null;
    return result;
  } catch (error) {
    trouble.value = error instanceof Error ? error.message : String(error);
    return undefined;
  }
}

export async function start(): Promise<void> {
  void followEvents(receive, (connected) => {
    const isBack = connected && !isConnected.value;
    isConnected.value = connected;
    if (isBack) void load();
  });
  await load();
}

async function load(): Promise<void> {
  await attempt(async () => {
    [project.value, jobs.value] = await Promise.all([call("project.read", {}), call("job.list", {})]);
    await loadModels();
  });
}

function receive(event: StudioEvent): void {
  if (event.type === "job") {
    const others = jobs.value.filter(({ id }) => id !== event.job.id);
    jobs.value = [event.job, ...others].sort((a, b) => b.started - a.started);
  } else if (event.type === "project" && event.revision !== project.value?.revision) {
    void attempt(async () => {
      project.value = await call("project.read", {});
      await loadModels();
    });
  }
  for (const listener of listeners) listener(event);
}

let changes: Promise<void> = Promise.resolve();

/** Changes the settings: one change of this tab after another, on top of what another tab changed. */
export async function change(make: (now: Settings) => Partial<Settings>): Promise<void> {
  changes = changes.then(() => attempt(() => changeNow(make)));
  await changes;
  await attempt(loadModels);
}

async function changeNow(make: (now: Settings) => Partial<Settings>): Promise<void> {
  for (let attempts = 0; ; attempts++) {
    const now = project.value;
    if (!now) return;
    try {
      project.value = await call("project.change", { revision: now.revision, change: make(now.settings) });
      return;
    } catch (error) {
      if (!(error instanceof StudioError && error.code === "conflict") || attempts === 3) throw error;
      project.value = await call("project.read", {});
    }
  }
}

/** Opens the cards of all models that have none. */
async function loadModels(): Promise<void> {
  const now = settings.value;
  if (!now) return;
  const sources = [now.base, ...now.experts.map(({ source }) => source)].filter((source) => source !== null);
  const keyOf = (source: string) => cardKey(source, now.base);
  await Promise.all(
    sources
      .filter((source) => !models.value.has(keyOf(source)))
      .map(async (source) => {
        const card = await call("inspect", { source, base: now.base }).catch((error: Error) => error.message);
        models.value = new Map([...models.value, [keyOf(source), card]]);
      }),
  );
}

/** Opens a card again, after its problem was fixed. */
export async function reload(source: string): Promise<void> {
  const rest = new Map(models.value);
  rest.delete(cardKey(source, settings.value?.base ?? null));
  models.value = rest;
  await loadModels();
}

/** Problems of a card depend on the base. */
export const cardKey = (source: string, base: string | null) => `${source}\n${base ?? ""}`;
export const cardOf = (source: string) => models.value.get(cardKey(source, settings.value?.base ?? null));
