// The recipe that is open: its text is the truth, and the board and the form write text. Every change is checked, saved, and
// can be undone.
import { computed, effect, signal } from "@preact/signals";
import { Document, parse, parseDocument } from "yaml";
import { OUTPUT_FIELDS } from "../../../merge/recipe/output-fields.js";
import { type Check, type Input, type Job, type Method, recipeSource } from "../../protocol/index.js";
import { type Board, boardOfRecipe, type RecipeValue, SWAP_WEIGHTS } from "../../recipe/board.js";
import { call, StudioError } from "../client.js";
import { nameFor } from "../names.js";
import { attempt, cardOf, change, inBackground, lookAt, onEvent, project, settings, trouble } from "../store.js";
import { AfterPause, latest } from "./in-turn.js";
import { Undo } from "./undo.js";

/** Milliseconds without typing, and without clicks, after which a text is checked and saved. */
const PAUSE = 350;
const PAUSE_OF_CLICKS = 80;
const WIDE = { lineWidth: 120 };

/** A recipe whose text is not on the disk, and why. Nothing is made of the recipe until it is. */
export interface Unsaved {
  readonly message: string;
  /** What is on the disk instead, by another tab or program; null: it was removed. */
  readonly theirs?: { readonly text: string; readonly version: string } | null;
}

/** What is on the disk, as far as it is known here. */
interface Stored {
  readonly text: string;
  readonly version: string | null;
}

/** The recipe that is open; a name of null is none. The text may be newer than what is stored, until it is saved. */
type State =
  | { readonly is: "loading"; readonly name: string | null }
  | { readonly is: "loaded"; readonly name: string | null; readonly stored: Stored }
  | { readonly is: "unsaved"; readonly name: string; readonly stored: Stored; readonly why: Unsaved };

const state = signal<State>({ is: "loading", name: null });
export const name = computed(() => state.value.name);
/** Whether the text is that of the recipe, which may then be changed. */
export const isLoaded = computed(() => state.value.is !== "loading");
export const unsaved = computed(() => (state.value.is === "unsaved" ? state.value.why : null));

export const text = signal("");
/** Counts changes of the text that were not typed: the editor then takes it. */
export const revision = signal(0);
/** The check of a text, which is that of a moment ago while another one is under way. */
export const check = signal<(Check & { readonly of: string }) | null>(null);
export const isChecking = computed(() => check.value?.of !== text.value);
export const methods = signal<readonly Method[]>([]);
/** Waits for the first check: on a slow line, the board is shown before the editor is loaded. */
export const whenChecked = () =>
  new Promise<void>((resolve) => {
    effect(() => {
      if (check.value !== null) resolve();
    });
  });
const edits = new Undo(3 * PAUSE);
export const { canUndo, canRedo } = edits;

/** Whether the text is not on the disk. */
function isChanged(): boolean {
  const now = state.peek();
  return now.is !== "loading" && text.peek() !== now.stored.text;
}
addEventListener("beforeunload", (event) => {
  if (isChanged()) event.preventDefault();
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
  else if (!isChanged() && settings.peek()?.recipe === name.peek()) await inBackground(reread, reread);
}

async function open(wanted: string | null): Promise<void> {
  await settle();
  if (unsaved.peek() !== null) return;
  state.value = { is: "loading", name: wanted };
  edits.forget();
  check.value = null;
  if (wanted === null) show({ text: "", version: null });
  else await inBackground(reread, reread);
}

async function reread(): Promise<void> {
  const before = state.peek();
  const wanted = before.name;
  if (wanted === null) return;
  const shown = text.peek();
  try {
    const found = await call("recipe.read", { name: wanted });
    if (wanted !== name.peek()) return;
    const now = state.peek();
    if (now.is !== "loading" && found.version === now.stored.version) {
      // The server may have gone while it checked.
      if (check.peek() === null) await runCheck();
      return;
    }
    // What was changed or saved here in the meantime is newer than what was read.
    if (now !== before || text.peek() !== shown) return;
    show(found);
    await runCheck();
  } catch (error) {
    // Removed in another tab, or renamed.
    if (isOf(error, "not-found")) await change(({ recipe }) => (recipe === wanted ? { recipe: null } : {}));
    else if (!isOf(error, "offline")) throw error;
  }
}

function show(stored: Stored): void {
  text.value = stored.text;
  revision.value++;
  state.value = { is: "loaded", name: name.peek(), stored: { text: stored.text, version: stored.version } };
}

const isOf = (error: unknown, code: string) => error instanceof StudioError && error.code === code;

/** The text of a recipe whose paths inside the project start from the recipe's folder, so that the project can be moved. */
function portable(content: string): string {
  const folder = project.peek()?.folder.replace(/\/$/, "") ?? "";
  const inside = new RegExp(`(?<![\\w./~-])${folder.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}/`, "g");
  return folder === "" ? content : content.replace(inside, "../");
}

/** A path from the recipe's folder as the project has it; other values as they are. */
function placed(value: unknown): unknown {
  const folder = project.value?.folder;
  if (typeof value !== "string" || folder === undefined || !/^\.\.?\//.test(value)) return value;
  const path = [...folder.split("/"), "recipes"];
  for (const part of value.split("/")) {
    if (part === "..") path.pop();
    else if (part !== ".") path.push(part);
  }
  return path.join("/");
}

/** Makes a recipe and opens it. @param called its name, unless another recipe has that */
export async function create(called: string, content: string): Promise<void> {
  const wanted = nameFor(called, project.peek()?.recipes ?? []);
  await attempt(async () => {
    await call("recipe.write", { name: wanted, text: portable(content), version: null });
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
  edits.changed(text.peek(), isTyped ? performance.now() : undefined);
  apply(content, isTyped);
}

function apply(content: string, isTyped = false): void {
  trouble.value = null;
  text.value = content;
  if (!isTyped) revision.value++;
  saving.wait(isTyped ? PAUSE : PAUSE_OF_CLICKS);
}

export const undo = () => restore(edits.undo(text.peek()));
export const redo = () => restore(edits.redo(text.peek()));

function restore(found: string | undefined): void {
  if (found !== undefined) apply(found);
}

/** One save waits for another, as it needs the version that the other makes. */
const saving = new AfterPause(save);

/** Saves and checks what was changed, at once. */
export const settle = () => saving.now();

async function save(): Promise<void> {
  const [now, content] = [state.peek(), text.peek()];
  if (now.is === "loading" || now.name === null || content === now.stored.text) return;
  const to = now.name;
  try {
    const { version } = await call("recipe.write", { name: to, text: content, version: now.stored.version });
    state.value = { is: "loaded", name: to, stored: { text: content, version } };
  } catch (error) {
    const why = isOf(error, "conflict")
      ? await changedElsewhere(to)
      : { message: `${to} is not saved. ${(error as Error).message}` };
    // A person may have chosen a version meanwhile, which the next save takes.
    if (state.peek() === now) state.value = { is: "unsaved", name: to, stored: now.stored, why };
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
  const now = state.peek();
  if (now.is === "unsaved" && now.why.theirs !== undefined) {
    state.value = { ...now, stored: { ...now.stored, version: now.why.theirs?.version ?? null } };
  }
  await settle();
}

/** Opens what is on the disk; undo brings the text back. */
export async function takeTheirs(): Promise<void> {
  const now = state.peek();
  if (now.is !== "unsaved") return;
  const { theirs } = now.why;
  if (theirs) {
    edits.changed(text.peek());
    show(theirs);
    await runCheck();
    return;
  }
  state.value = { is: "loaded", name: now.name, stored: { ...now.stored, text: text.peek() } };
  await change(({ recipe }) => (recipe === name.peek() ? { recipe: null } : {}));
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
  if (check.value === null || isChecking.value) return "The recipe is being checked.";
  return check.value.plan === null ? "Fix the recipe first." : null;
});

export const startSaved = (job: Input<"job.start">) => whenSaved(() => call("job.start", job));

/** Resumes a job. */
export function again({ kind, input }: Job): void {
  const more = kind === "merge" || kind === "export" ? { resume: true } : {};
  void startSaved({ kind, input: { ...Object(input), ...more } } as Input<"job.start">);
}

/** A later text has a check of its own. */
const checked = latest<Check & { readonly of: string }>((found) => {
  check.value = found;
});

async function runCheck(): Promise<void> {
  const of = name.peek();
  const work = async () => {
    const content = text.peek();
    const [found] = await Promise.all([
      call("recipe.check", { text: content }),
      of === null ? undefined : lookAt([recipeSource(of)]),
    ]);
    return { ...found, of: content };
  };
  await inBackground(() => checked(work), runCheck);
}

/** Writes a recipe into the text: comments and fields of the output stay. */
export function writeRecipe(recipe: RecipeValue): void {
  const before = recipeOfText(text.peek());
  if (!before) {
    edit(portable(new Document(recipe).toString(WIDE)));
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
  edit(portable(document.toString(WIDE)));
}

export type Defaults = NonNullable<Check["plan"]>["defaults"] | undefined;

/** The recipe of a text; undefined while it is none. */
export function recipeOfText(text: string): RecipeValue | undefined {
  try {
    const value: unknown = parse(text, { maxAliasCount: 0 });
    if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
    return JSON.parse(JSON.stringify(value), (_, one) => placed(one)) as RecipeValue;
  } catch {
    return undefined;
  }
}

export function boardOfText(recipe: RecipeValue | undefined, layers: number, defaults: Defaults): Board | undefined {
  return recipe && layers > 0 ? boardOfRecipe(recipe, layers, defaults) : undefined;
}
