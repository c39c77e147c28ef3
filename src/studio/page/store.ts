// What all views share: the project, models, jobs, and the problem that is shown. Views keep the rest to themselves.
import { computed, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import {
  type Expert,
  haveChanged,
  type Job,
  type Model,
  type Output,
  type Project,
  recipeSource,
  type Settings,
  type StudioEvent,
} from "../protocol/index.js";
import { call, followEvents, StudioError } from "./client.js";
import { nameFor } from "./names.js";

export const project = signal<Project | null>(null);
export const jobs = signal<readonly Job[]>([]);
export const isConnected = signal(true);
/** Counts times that the server was there again: views then start anew, and read all they show. */
export const connections = signal(0);
/** What went wrong in some work: shown until that work succeeds, a button or an edit follows, or it is dismissed. */
export const trouble = signal<{ readonly message: string; readonly work: unknown } | null>(null);
/** Cards by source; a text is why a source cannot be opened. */
export const models = signal<ReadonlyMap<string, Model | string>>(new Map());

/** Of the models and the open recipe when they were last looked at, by source; null for those that could not be opened. */
export const fingerprints = signal<Output<"fingerprints">>({});

export const settings = computed<Settings | null>(() => project.value?.settings ?? null);

type Listener = (event: StudioEvent) => void;
const listeners = new Set<Listener>();

/** Called for every event until the returned function is called. */
export function onEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Runs work of a button; what goes wrong is shown until the next one. */
export function attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
  trouble.value = null;
  return inBackground(work);
}

/**
 * Runs work that nobody asked for. What goes wrong is shown, except that the server is gone, which the page says anyway.
 * @param name the same wherever this work is repeated
 */
export async function inBackground<T>(work: () => Promise<T>, name: unknown = work): Promise<T | undefined> {
  try {
    const found = await work();
    endTrouble(name);
    return found;
  } catch (error) {
    const isOffline = error instanceof StudioError && error.code === "offline" && !isConnected.value;
    if (!isOffline) trouble.value = { message: error instanceof Error ? error.message : String(error), work: name };
    return undefined;
  }
}

function endTrouble(work: unknown): void {
  if (trouble.peek()?.work === work) trouble.value = null;
}

export async function start(): Promise<void> {
  void followEvents(receive, (connected) => {
    const isBack = connected && !isConnected.value;
    isConnected.value = connected;
    if (isBack) trouble.value = null;
    if (isBack) void load().then(() => connections.value++);
  });
  await load();
}

async function load(): Promise<void> {
  await inBackground(async () => {
    [project.value, jobs.value] = await Promise.all([call("project.read", {}), call("job.list", {})]);
    await refresh();
  });
}

function tell(event: StudioEvent): void {
  for (const listener of listeners) listener(event);
}

function receive(event: StudioEvent): void {
  if (event.type === "job") {
    const others = jobs.value.filter(({ id }) => id !== event.job.id);
    jobs.value = [event.job, ...others].sort((a, b) => b.started - a.started);
    // A merge may have written one of the models.
    if (event.job.state !== "running") void inBackground(refresh);
  } else if (event.type === "project") {
    void inBackground(async () => {
      project.value = await call("project.read", {});
      tell(event);
      await loadModels();
    });
    return;
  }
  tell(event);
}

let changes: Promise<void> = Promise.resolve();

/** Changes the settings: one change of this tab after another, on top of what another tab changed. */
export const change = (make: (now: Settings) => Partial<Settings>) =>
  inTurn(({ revision, settings: now }) => call("project.change", { revision, change: make(now) }));

/** Writes the example, and opens its models. */
export const openExample = () => inTurn(({ revision }) => call("project.example", { revision }));

async function inTurn(make: (now: Project) => Promise<Project>): Promise<void> {
  changes = changes.then(() => attempt(() => changeNow(make)));
  await changes;
  await inBackground(refresh);
}

async function changeNow(make: (now: Project) => Promise<Project>): Promise<void> {
  for (let attempts = 0; ; attempts++) {
    const now = project.value;
    if (!now) return;
    try {
      project.value = await make(now);
      return;
    } catch (error) {
      if (!(error instanceof StudioError && error.code === "conflict") || attempts === 3) throw error;
      project.value = await call("project.read", {});
    }
  }
}

/** Experts, and those of the sources that are not among them. */
export function withExperts(experts: readonly Expert[], sources: readonly string[]): Expert[] {
  const all = [...experts];
  for (const source of sources) {
    if (all.some((one) => one.source === source)) continue;
    all.push({
      name: nameFor(
        source,
        all.map(({ name }) => name),
      ),
      source,
    });
  }
  return all;
}

export const addExpert = (source: string) => change(({ experts }) => ({ experts: withExperts(experts, [source]) }));

const sourcesOf = ({ base, experts }: Settings) => [
  ...(base === null ? [] : [base]),
  ...experts.map(({ source }) => source),
];

/** Whether the models and recipes that something was made of have changed since. */
export const isStale = (made: Pick<Job, "fingerprints">, now = fingerprints.value) =>
  haveChanged(made.fingerprints, now);

let looks: Promise<unknown> = Promise.resolve();
/** Looks at sources, one look after another: a later one has what is there now. */
export async function lookAt(sources: readonly string[]): Promise<void> {
  const found = looks.then(() => call("fingerprints", { sources: [...sources] }));
  looks = found.catch(() => undefined);
  fingerprints.value = { ...fingerprints.peek(), ...(await found) };
}

/** Looks at the files of all models: cards of those that changed are opened again. */
export async function refresh(): Promise<void> {
  if (!settings.value) return;
  const before = fingerprints.value;
  const { recipe } = settings.value;
  await lookAt([...sourcesOf(settings.value), ...(recipe === null ? [] : [recipeSource(recipe)])]);
  const isSame = (key: string) => {
    const [source = "", base = ""] = key.split("\n");
    return [source, base].every((one) => (before[one] ?? null) === (fingerprints.value[one] ?? null));
  };
  models.value = new Map([...models.value].filter(([key]) => isSame(key)));
  await loadModels();
}
addEventListener("focus", () => void inBackground(refresh));

/** Opens the cards of all models that have none. */
async function loadModels(): Promise<void> {
  const now = settings.value;
  if (!now) return;
  const sources = sourcesOf(now);
  const keyOf = (source: string) => cardKey(source, now.base);
  await Promise.all(
    sources
      .filter((source) => !models.value.has(keyOf(source)))
      .map(async (source) => {
        const card = await call("inspect", { source, base: now.base }).catch((error: Error) => {
          // Says nothing about the model, which is opened when the server is back.
          if (error instanceof StudioError && error.code === "offline") throw error;
          return error.message;
        });
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

/** Why a model cannot be merged with the base; undefined if it can, or while nothing is known. */
export function misfitOf(source: string): string | undefined {
  const card = cardOf(source);
  return typeof card === "object" ? card.problems[0] : card;
}

export interface Choice {
  readonly name: string;
  readonly source: string;
  /** Its colour: recipes have those after the experts'. */
  readonly own: number | "base" | "merge";
  readonly isRecipe: boolean;
}

export const choices = computed<readonly Choice[]>(() => {
  const { base = null, experts = [] } = settings.value ?? {};
  return [
    ...(base === null ? [] : [{ name: "base", source: base, own: "base" as const, isRecipe: false }]),
    ...experts.map(({ name, source }, own) => ({ name, source, own, isRecipe: false })),
    ...(project.value?.recipes ?? []).map((name) => ({
      ...{ name: recipeLabel(name, experts), source: recipeSource(name), own: "merge" as const, isRecipe: true },
    })),
  ];
});

/** Of the deepest of models that fit the base. */
export function layersOfModels(sources: readonly string[]): number {
  const fitting = sources.filter((source) => misfitOf(source) === undefined).map(cardOf);
  return Math.max(0, ...fitting.map((card) => (typeof card === "object" ? card.layers : 0)));
}

/** `recipe mine`; not `recipe recipe-2`, unless an expert has that name. */
function recipeLabel(name: string, experts: readonly { readonly name: string }[]): string {
  const isClear = /^recipe/i.test(name) && experts.every((expert) => expert.name !== name);
  return isClear ? name : `recipe ${name}`;
}

/** What a question is answered, asked again whenever `when` changes; undefined until the first answer. */
export function useAnswer<T>(ask: () => Promise<T> | undefined, when: readonly unknown[]): T | undefined {
  const [found, setFound] = useState<T>();
  useEffect(() => {
    let isLatest = true;
    // An answer that comes too late, or not at all, is not missed.
    void inBackground(async () => {
      const answer = await ask();
      if (isLatest) setFound(answer);
    }, setFound).then(() => isLatest || endTrouble(setFound));
    return () => {
      isLatest = false;
      endTrouble(setFound);
    };
  }, when);
  return found;
}
