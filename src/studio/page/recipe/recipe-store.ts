// The recipe that is open: its text is the truth, and the board and the form write text. Every change is checked, saved, and
// can be undone.
import { computed, effect, type Signal, signal } from "@preact/signals";
import { Document, parse, parseDocument } from "yaml";
import { OUTPUT_FIELDS } from "../../../merge/recipe/output-fields.js";
import { type Check, type Input, type Job, type Method, recipeSource } from "../../protocol/index.js";
import { type Board, boardOfRecipe, type RecipeValue, SWAP_WEIGHTS } from "../../recipe/board.js";
import { call, StudioError } from "../client.js";
import { nameFor } from "../names.js";
import { attempt, cardOf, change, inBackground, lookAt, onEvent, project, settings, trouble } from "../store.js";

/** Milliseconds without typing, and without clicks, after which a text is checked and saved. */
const PAUSE = 350;
const PAUSE_OF_CLICKS = 80;
const MAX_UNDO = 200;
const WIDE = { lineWidth: 120 };

export const name = signal<string | null>(null);
export const text = signal("");
/** Counts changes of the text that were not typed: the editor then takes it. */
export const revision = signal(0);
/** Whether the text is that of the recipe, which may then be changed. */
export const isLoaded = signal(false);
export const check = signal<Check | null>(null);
export const methods = signal<readonly Method[]>([]);
/** Texts before, and after changes that were undone. */
const past = signal<readonly string[]>([]);
const future = signal<readonly string[]>([]);
export const canUndo = computed(() => past.value.length > 0);
export const canRedo = computed(() => future.value.length > 0);

let version: string | null = null;
let saved = "";
let timer: ReturnType<typeof setTimeout> | undefined;
let lastTyped = 0;

/** A recipe whose text is not on the disk, and why. Nothing is made of the recipe until it is. */
export interface Unsaved {
  readonly message: string;
  /** What is on the disk instead, by another tab or program; null: it was removed. */
  readonly theirs?: { readonly text: string; readonly version: string } | null;
}
export const unsaved = signal<Unsaved | null>(null);
addEventListener("beforeunload", (event) => {
  if (text.peek() !== saved) event.preventDefault();
});

/**
 * Opens the recipe that the project shows, in every tab, and reads it again where another tab or program wrote it. Called once,
 * and again whenever the server is back.
 */
export function follow(): () => void {
  void inBackground(async () => {
    if (methods.value.length === 0) methods.value = (await call("methods", {})).methods;
  });
  const stop = effect(() => {
    const wanted = settings.value?.recipe ?? null;
    // Another recipe would take the place of a text that is nowhere else.
    if (unsaved.value === null && wanted !== name.peek()) void open(wanted);
  });
  void look();
  const stopEvents = onEvent(({ type }) => {
    if (type === "project") void look();
  });
  return () => {
    stop();
    stopEvents();
  };
}

/** Reads what is on the disk, or tries again to save what is not. What is being typed is saved by its own timer. */
async function look(): Promise<void> {
  if (unsaved.peek() !== null) await settle();
  else if (text.peek() === saved && settings.peek()?.recipe === name.peek()) await inBackground(reread, reread);
}

async function open(wanted: string | null): Promise<void> {
  await settle();
  if (unsaved.peek() !== null) return;
  isLoaded.value = false;
  // Another recipe may have the same text.
  [name.value, version] = [wanted, null];
  [past.value, future.value, check.value] = [[], [], null];
  if (wanted === null) show("", null);
  else await inBackground(reread, reread);
}

async function reread(): Promise<void> {
  const wanted = name.peek();
  if (wanted === null) return;
  const before = { version, text: text.peek() };
  try {
    const found = await call("recipe.read", { name: wanted });
    if (wanted !== name.peek()) return;
    if (found.version === version) {
      // The server may have gone while it checked.
      if (check.peek() === null) await runCheck();
      return;
    }
    // What was changed or saved here in the meantime is newer than what was read.
    if (version !== before.version || text.peek() !== before.text) return;
    show(found.text, found.version);
    await runCheck();
  } catch (error) {
    // Removed in another tab, or renamed.
    if (isOf(error, "not-found")) await change(({ recipe }) => (recipe === wanted ? { recipe: null } : {}));
    else if (!isOf(error, "offline")) throw error;
  }
}

function show(content: string, of: string | null): void {
  text.value = content;
  revision.value++;
  isLoaded.value = true;
  [saved, version] = [content, of];
}

const isOf = (error: unknown, code: string) => error instanceof StudioError && error.code === code;

/** Makes a recipe and opens it. @param called its name, unless another recipe has that */
export async function create(called: string, content: string): Promise<void> {
  const wanted = nameFor(called, project.peek()?.recipes ?? []);
  await attempt(async () => {
    await call("recipe.write", { name: wanted, text: content, version: null });
    await change(() => ({ recipe: wanted }));
    location.hash = "#/recipe";
  });
}

/** The text of the recipe that a mergekit configuration is, with notes on what differs as comments. */
export async function recipeOfMergekit(configuration: string): Promise<string> {
  const card = cardOf(settings.value?.base ?? "");
  const layers = typeof card === "object" ? card.layers : null;
  const { recipe, notes } = await call("recipe.convert", { text: configuration, layers });
  const document = new Document(recipe);
  document.commentBefore = notes.map((note) => ` ${note}`).join("\n");
  return document.toString(WIDE);
}

/** Changes the text. @param isTyped changes in quick succession are undone together */
export function edit(content: string, isTyped = false): void {
  if (content === text.peek()) return;
  const isContinued = isTyped && performance.now() - lastTyped < 3 * PAUSE;
  if (!isContinued) past.value = [...past.peek(), text.peek()].slice(-MAX_UNDO);
  lastTyped = isTyped ? performance.now() : 0;
  future.value = [];
  apply(content, isTyped);
}

function apply(content: string, isTyped = false): void {
  trouble.value = null;
  text.value = content;
  if (!isTyped) revision.value++;
  clearTimeout(timer);
  timer = setTimeout(() => void settle(), isTyped ? PAUSE : PAUSE_OF_CLICKS);
}

/** Goes to the last text of one list, and keeps the present one in the other. */
function step(from: Signal<readonly string[]>, to: Signal<readonly string[]>): void {
  const found = from.peek().at(-1);
  if (found === undefined) return;
  from.value = from.peek().slice(0, -1);
  to.value = [...to.peek(), text.peek()];
  apply(found);
}
export const undo = () => step(past, future);
export const redo = () => step(future, past);

let saving: Promise<void> = Promise.resolve();

/** Saves and checks what was changed, at once. One save waits for another, as it needs the version that the other makes. */
export function settle(): Promise<void> {
  clearTimeout(timer);
  saving = saving.then(save);
  return saving;
}

async function save(): Promise<void> {
  const [to, content] = [name.peek(), text.peek()];
  if (to === null || content === saved) return;
  try {
    ({ version } = await call("recipe.write", { name: to, text: content, version }));
    [saved, unsaved.value] = [content, null];
  } catch (error) {
    unsaved.value = isOf(error, "conflict")
      ? await changedElsewhere(to)
      : { message: `${to} is not saved. ${(error as Error).message}` };
  }
  await runCheck();
}

async function changedElsewhere(to: string): Promise<Unsaved> {
  try {
    const theirs = await call("recipe.read", { name: to });
    return { message: `${to} was changed elsewhere, and here.`, theirs };
  } catch (error) {
    if (isOf(error, "not-found")) return { message: `${to} was removed elsewhere, and changed here.`, theirs: null };
    return { message: `${to} is not saved. ${(error as Error).message}` };
  }
}

/** Saves the text over what is on the disk. */
export async function keepMine(): Promise<void> {
  const { theirs } = unsaved.peek() ?? {};
  if (theirs !== undefined) version = theirs?.version ?? null;
  await settle();
}

/** Opens what is on the disk; undo brings the text back. */
export async function takeTheirs(): Promise<void> {
  const theirs = unsaved.peek()?.theirs;
  if (theirs) {
    past.value = [...past.peek(), text.peek()];
    show(theirs.text, theirs.version);
  } else saved = text.peek();
  unsaved.value = null;
  if (theirs) await runCheck();
  else await change(({ recipe }) => (recipe === name.peek() ? { recipe: null } : {}));
}

/** Does work that reads recipes, once the open one is on the disk as it is shown; not while it is not. */
export async function whenSaved<T>(work: () => Promise<T>): Promise<T | undefined> {
  await settle();
  return unsaved.peek() === null ? attempt(work) : undefined;
}

export const problemText = ({ line, message }: Check["problems"][number]) =>
  `${line === null ? "" : `Line ${line}: `}${message}`;

/** Why nothing can be made of the open recipe as it is; null where it can. */
export const refusal = computed(() => {
  if (unsaved.value !== null) return "Save the recipe first.";
  if (check.value === null) return "The recipe is being checked.";
  return check.value.plan === null ? "Fix the recipe first." : null;
});

export const startSaved = (job: Input<"job.start">) => whenSaved(() => call("job.start", job));

/** Resumes a job. */
export function again({ kind, input }: Job): void {
  const more = kind === "merge" || kind === "export" ? { resume: true } : {};
  void startSaved({ kind, input: { ...Object(input), ...more } } as Input<"job.start">);
}

let checks = 0;
async function runCheck(): Promise<void> {
  const mine = ++checks;
  const of = name.peek();
  await inBackground(async () => {
    const [found] = await Promise.all([
      call("recipe.check", { text: text.peek() }),
      of === null ? undefined : lookAt([recipeSource(of)]),
    ]);
    // A later text has a check of its own.
    if (mine === checks) check.value = found;
  }, runCheck);
}

/** Writes a recipe into the text: comments and fields of the output stay. */
export function writeRecipe(recipe: RecipeValue): void {
  const before = recipeOfText(text.peek());
  if (!before) {
    edit(new Document(recipe).toString(WIDE));
    return;
  }
  const isSwap = before.method === "swap" && recipe.method === "swap";
  const kept = [...OUTPUT_FIELDS, ...(isSwap ? SWAP_WEIGHTS : [])];
  const gone = Object.keys(before).filter((key) => !(key in recipe) && !kept.includes(key));
  setFields({ ...Object.fromEntries(gone.map((key) => [key, undefined])), ...recipe });
}

/** Sets fields of the recipe; undefined removes one. */
export function setFields(fields: Readonly<Record<string, unknown>>): void {
  const before = recipeOfText(text.peek());
  if (!before) return;
  const document = parseDocument(text.peek());
  for (const [key, value] of Object.entries(fields)) {
    if (value === undefined) document.delete(key);
    else if (JSON.stringify(before[key]) !== JSON.stringify(value)) document.set(key, document.createNode(value));
  }
  edit(document.toString(WIDE));
}

export type Defaults = NonNullable<Check["plan"]>["defaults"] | undefined;

/** The recipe of a text; undefined while it is none. */
export function recipeOfText(text: string): RecipeValue | undefined {
  try {
    const value: unknown = parse(text, { maxAliasCount: 0 });
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as RecipeValue) : undefined;
  } catch {
    return undefined;
  }
}

export function boardOfText(recipe: RecipeValue | undefined, layers: number, defaults: Defaults): Board | undefined {
  return recipe && layers > 0 ? boardOfRecipe(recipe, layers, defaults) : undefined;
}
