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

const sourcesOf = ({ base, experts }: Pick<Settings, "base" | "experts">) => [
  ...(base === null ? [] : [base]),
  ...experts.map(({ source }) => source),
];

/** Whether the models and recipes that something was made of have changed since. */
export const isStale = (made: Pick<Job, "fingerprints">, now = fingerprints.value) =>
  haveChanged(made.fingerprints, now);

/** Requests that may take long, as a model on the hub does: a browser has six at once, of which clicks need some. */
const MAX_SLOW = 3;
let slow = 0;
const waiting: (() => void)[] = [];
async function slowly<T>(work: () => Promise<T>): Promise<T> {
  if (slow >= MAX_SLOW) await new Promise<void>((go) => waiting.push(go));
  slow++;
  try {
    return await work();
  } finally {
    slow--;
    waiting.shift()?.();
  }
}

/** Of each source, the look that will begin next, or else the one under way. */
const looks = new Map<string, { readonly done: Promise<void>; hasBegun: boolean }>();

/** Looks at sources, each by itself and one look after another: a later one has what is there now. */
export async function lookAt(sources: readonly string[]): Promise<void> {
  await Promise.all(sources.map(lookAtOne));
}

function lookAtOne(source: string): Promise<void> {
  const last = looks.get(source);
  if (last && !last.hasBegun) return last.done;
  const begin = async () => {
    await last?.done.catch(() => undefined);
    await slowly(async () => {
      look.hasBegun = true;
      const found = await call("fingerprints", { sources: [source] });
      dropCards(source, found[source] ?? null);
      fingerprints.value = { ...fingerprints.peek(), ...found };
    });
  };
  const look = { done: Promise.resolve().then(begin), hasBegun: false };
  looks.set(source, look);
  return look.done;
}

/** Drops the cards of a model that has changed, and those of experts whose base has. */
function dropCards(source: string, now: string | null): void {
  const before = fingerprints.peek()[source];
  if (before === undefined || before === now) return;
  models.value = new Map([...models.peek()].filter(([key]) => !key.split("\n").includes(source)));
}

/** Opens cards of new models, and looks at the files of all: cards of those that changed are opened again. */
export async function refresh(): Promise<void> {
  if (!settings.value) return;
  const { recipe } = settings.value;
  const look = async (source: string) => {
    await lookAt([source]);
    await loadModels();
  };
  await Promise.all([
    loadModels(),
    ...sourcesOf(settings.value).map(look),
    recipe === null ? undefined : lookAt([recipeSource(recipe)]),
  ]);
}
addEventListener("focus", () => void inBackground(refresh));

/** Cards that are being opened. */
const opening = new Map<string, Promise<void>>();

/** Opens the cards of all models that have none, each with one request. */
async function loadModels(): Promise<void> {
  const now = settings.value;
  if (!now) return;
  await Promise.all(
    sourcesOf(now).map((source) => {
      const key = cardKey(source, now.base);
      if (models.value.has(key)) return undefined;
      const work = opening.get(key) ?? openCard(key, source, now.base).finally(() => opening.delete(key));
      opening.set(key, work);
      return work;
    }),
  );
}

async function openCard(key: string, source: string, base: string | null): Promise<void> {
  const card = await slowly(() => call("inspect", { source, base })).catch((error: Error) => {
    // Says nothing about the model, which is opened when the server is back.
    if (error instanceof StudioError && error.code === "offline") throw error;
    return error.message;
  });
  models.value = new Map([...models.value, [key, card]]);
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

/** Whether all models are known: what they are made of, and whether they fit. */
export const areKnown = computed(() =>
  sourcesOf(settings.value ?? { base: null, experts: [] }).every((one) => cardOf(one)),
);

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
      name: recipeLabel(name, experts),
      source: recipeSource(name),
      own: "merge" as const,
      isRecipe: true,
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
