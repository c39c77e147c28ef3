// Finds recipes in a model card, as data of a stranger: bounded in size, and with sources on the hub only.
import { join } from "node:path";
import { HUB_PREFIX, type HubAccess, hubPlace, parseHubName } from "../../formats/checkpoint/index.js";
import { hubSettings, openRepository } from "../../formats/hub/index.js";
import { exists, readBounded } from "../../kit/files/index.js";
import { CheckpointError, HubError, isObject, LayergraftError, RecipeError } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import { frontMatterOf, loadYaml } from "../../kit/settings/index.js";
import type { SourceRecipe } from "../methods/method.js";
import { isOwnMethod } from "../recipe/own-methods.js";
import { mapSources, type RecipeInput, sourcesOf } from "../recipe/recipe.js";
import { parseRecipe } from "../recipe/recipe-file.js";
import { CARD } from "./open-check.js";

/** Cards have a few kilobytes; those with large tables a few hundred. */
const MAX_CARD_BYTES = 1_000_000;
/** A recipe of a hundred slices has 20 kB. */
const MAX_BLOCK_CHARACTERS = 100_000;
/** Blocks that look like recipes, of which each is read. */
const MAX_BLOCKS = 8;
const MAX_BASES = 4;
/** Models of a recipe, each of which is asked for on the hub; the largest published merges have about twenty. */
const MAX_MODELS = 32;

/** Folders of models, by the names that a card has for them. */
export type Places = Readonly<Record<string, string>>;

/** Folders by a card's names, and the names that are found in it, which grow. */
interface Names {
  readonly places: Places;
  readonly named: Set<string>;
}

/** A recipe of a card, whose sources begin with `hub:`, or are folders that the user named. */
export interface CardRecipe {
  /** Line of the card that its block begins after, from 1. */
  readonly line: number;
  readonly from: "mergekit" | "layergraft";
  readonly recipe: RecipeInput;
  /** How a mergekit configuration was read. */
  readonly notes: readonly string[];
}

/** A block that looks like a recipe and is not used. */
export interface RefusedBlock {
  readonly line: number;
  /**
   * invalid: it is not a recipe that layergraft can plan; local: it names folders that only its author has; code: its method is a
   * program.
   */
  readonly why: "invalid" | "local" | "code";
  /** What is invalid, or the names. */
  readonly what: readonly string[];
}

export interface Card {
  readonly recipes: readonly CardRecipe[];
  readonly refused: readonly RefusedBlock[];
  /** Models and adapters that its blocks name. */
  readonly named: readonly string[];
  /** Models on the hub that its front matter names as bases. */
  readonly bases: readonly string[];
}

/** The card of a model; programs that load models leave it out of the cache. */
async function fileOf(folder: string, access: HubAccess | undefined): Promise<string | undefined> {
  const file = join(folder, CARD);
  if (await exists(file)) return file;
  const place = hubPlace(folder);
  if (!place || !access) return undefined;
  const { name, commit } = place;
  const settings = await hubSettings();
  if (settings.offline) {
    const what = `${CARD} of ${name} is not in the cache, and HF_HUB_OFFLINE is set. Unset it once to download it.`;
    throw new HubError(what, { file: settings.cache });
  }
  const repository = name.split("/").slice(0, 2).join("/");
  const { files, download } = await openRepository(settings, {
    ...access,
    type: "model",
    name: repository,
    revision: commit,
  });
  const found = files.get(CARD);
  return found && found.size <= MAX_CARD_BYTES ? (await download([found]))[0] : undefined;
}

/**
 * Reads the recipes of a model's card.
 * @param hub to fetch the card, and to read the depth of models that a mergekit configuration names
 * @param places folders of models by the names that the card has for them, which are taken in place of the hub's
 * @throws CheckpointError if the card is too large
 * @throws HubError if the card is not here and the hub cannot be reached
 */
export async function readCard(folder: string, hub: HubAccess | undefined, places: Places = {}): Promise<Card> {
  const file = await fileOf(folder, hub);
  if (file === undefined) return { recipes: [], refused: [], named: [], bases: [] };
  const tooLarge = () =>
    new CheckpointError(`${file} has more than ${formatBytes(MAX_CARD_BYTES)}, which is not a model card`, { file });
  const text = (await readBounded(file, MAX_CARD_BYTES, tooLarge)).toString("utf8");
  const lines = text.split(/\r?\n/);
  const recipes: CardRecipe[] = [];
  const refused: RefusedBlock[] = [];
  const named = new Set<string>();
  for (const block of blocksOf(lines).slice(0, MAX_BLOCKS)) {
    try {
      const found = await readBlock(block, hub, { places, named });
      if (found) recipes.push(found);
    } catch (error) {
      if (!(error instanceof LayergraftError) || error.code === "hub") throw error;
      const why = error instanceof RefusedError ? error.why : "invalid";
      refused.push({ line: block.line, why, what: error.reasons });
    }
  }
  return { recipes, refused, named: [...named], bases: await basesOf(text) };
}

interface Block {
  readonly line: number;
  readonly text: string;
}

/** Each part is taken once, so a long line of a stranger's card costs no more than its length. */
const FENCE = /^([ \t>]*)(`{3,}|~{3,})(.*)$/s;
/** Languages of blocks that may be recipes. */
const LANGUAGES = ["", "yaml", "yml", "json", "text", "txt", "plaintext"];
/** A key that every mergekit configuration or recipe has at its left edge. */
const RECIPE = /^["']?(merge_method|method|slices|models|modules|experts|layer_slices)["']?[ \t]*:|^\{/m;

/** Code blocks that look like recipes, and that a reader of the card sees: not those in a comment. */
function blocksOf(lines: readonly string[]): Block[] {
  const blocks: Block[] = [];
  let isHidden = false;
  let open:
    | {
        readonly line: number;
        readonly margin: string;
        readonly fence: string;
        readonly language: string;
        text: string[];
      }
    | undefined;
  for (const [i, line] of lines.entries()) {
    const [, margin = "", marks = "", rest = ""] = FENCE.exec(line) ?? [];
    const fence = rest.includes("`") ? "" : marks;
    const [language = ""] = rest.trim().split(/\s/, 1);
    if (!open) {
      if (isHidden || line.trimStart().startsWith("<!--")) {
        isHidden = !line.includes("-->");
        continue;
      }
      if (fence !== "") open = { line: i + 1, margin, fence, language, text: [] };
      continue;
    }
    if (!fence.startsWith(open.fence) || language !== "") {
      open.text.push(line.startsWith(open.margin) ? line.slice(open.margin.length) : line);
      continue;
    }
    const text = open.text.join("\n");
    const isSettings = LANGUAGES.includes(open.language.toLowerCase());
    if (isSettings && text.length <= MAX_BLOCK_CHARACTERS && RECIPE.test(text)) blocks.push({ line: open.line, text });
    open = undefined;
  }
  return blocks;
}

class RefusedError extends RecipeError {
  readonly why: "local" | "code";

  constructor(why: "local" | "code", names: readonly string[]) {
    super(`${why}:`, names);
    this.why = why;
  }
}

/** Undefined if a block is something else, such as a program's settings. */
async function readBlock(
  { line, text }: Block,
  hub: HubAccess | undefined,
  names: Names,
): Promise<CardRecipe | undefined> {
  const file = `the block after line ${line}`;
  const { readMergekitText } = await import("../mergekit/index.js");
  // What mergekit passes over in silence must not hinder a card of it.
  const options = { places: (models: readonly string[]) => placesOf(models, names), asMergekit: true };
  const converted = await readMergekitText(text, file, hub, options);
  if (converted) return { line, from: "mergekit", recipe: pinned(converted.recipe, names), notes: converted.notes };
  const { openSettings } = await loadYaml();
  const { value } = openSettings(text, file);
  if (!isObject(value) || typeof value.method !== "string") return undefined;
  requireNoCode(value);
  const recipe = (await parseRecipe(text, file)) as RecipeInput;
  return { line, from: "layergraft", recipe: pinned(recipe, names), notes: [] };
}

/** @throws RefusedError if a method is a program, of the recipe or of one within it */
function requireNoCode(recipe: object): void {
  const { method } = recipe as { readonly method?: unknown };
  if (isOwnMethod(method)) throw new RefusedError("code", [method]);
  for (const { source } of sourcesOf(recipe)) if (isObject(source)) requireNoCode(source);
}

/**
 * The recipe with sources that are on the hub, or where the user says, and nowhere else. Its tokenizer matters only where vocabularies differ.
 * @throws RefusedError with all local ones
 */
function pinned({ chat_template: _, tokenizer_from: __, ...recipe }: RecipeInput, of: Names): RecipeInput {
  const names = namesIn(recipe);
  const places = new Map(placesOf(names, of).map((place, i) => [names[i], place]));
  return mapNames(recipe as RecipeInput, (name) => places.get(name) as string);
}

/** The same recipe with other names for its models. */
export function mapNames(recipe: RecipeInput, to: (name: string) => string): RecipeInput {
  const map = <R extends object>(one: R): R =>
    mapSources(one, (source) => (typeof source === "string" ? to(source) : map(source)));
  return map(recipe);
}

/** The names of all models of a recipe, and of the recipes within it. */
export function namesIn(recipe: object): string[] {
  const of = (source: SourceRecipe): string[] => (typeof source === "string" ? [source] : namesIn(source));
  return [...new Set(sourcesOf(recipe).flatMap(({ source }) => of(source)))];
}

/** Sources as they are opened. @throws RefusedError if some are not models on the hub, RecipeError if they are too many */
function placesOf(names: readonly string[], { places: given, named }: Names): string[] {
  for (const part of names.flatMap((name) => name.split("+"))) named.add(part);
  if (names.length > MAX_MODELS)
    throw new RecipeError(`it names ${names.length} models; at most ${MAX_MODELS} are read`);
  const isHere = (name: string) => Object.hasOwn(given, name);
  const local = names.filter((name) => !name.split("+").every((part) => isHere(part) || isOnHub(part)));
  if (local.length > 0) throw new RefusedError("local", local);
  return names.map((name) =>
    name
      .split("+")
      .map((part) => placeOf(part, given))
      .join("+"),
  );
}

/** Where a model that a card names is: where the user says, or on the hub. */
export function placeOf(name: string, places: Places = {}): string {
  if (Object.hasOwn(places, name)) return places[name] as string;
  return name.startsWith(HUB_PREFIX) ? name : `${HUB_PREFIX}${name}`;
}

/** A recipe's file is read where it is, so that it is no name of a model. */
const isOnHub = (name: string) => parseHubName(name) !== undefined && !/\.(ya?ml|json)(@|$)/i.test(name);

/** A source as its card names it. */
export const named = (source: string): string => source.replaceAll(HUB_PREFIX, "");

async function basesOf(text: string): Promise<string[]> {
  const { base_model } = await frontMatterOf(text);
  return [base_model]
    .flat()
    .filter((one): one is string => typeof one === "string" && isOnHub(one))
    .slice(0, MAX_BASES);
}
