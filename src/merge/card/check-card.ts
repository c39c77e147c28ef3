// Checks whether published weights are what their model card says.
import { resolve } from "node:path";
import { type Checkpoint, type HubAccess, hubPlace, openCheckpoint } from "../../formats/checkpoint/index.js";
import { exists } from "../../kit/files/index.js";
import { CheckpointError, HubError, LayergraftError, usageError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import type { StreamOptions } from "../../tensor/streaming/index.js";
import { planRecipe } from "../plan/planner.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { PlannedComparison, type RecipeCheck } from "./compare-recipe.js";
import type { TensorCheck } from "./judge-tensor.js";
import { type Better, findBetter, isGiven } from "./other-recipes.js";
import { compareDraws, isRandom, type RandomCheck } from "./random-method.js";
import {
  type Card,
  type CardRecipe,
  mapNames,
  named,
  namesIn,
  type Places,
  placeOf,
  type RefusedBlock,
  readCard,
} from "./read-card.js";
import type { Certainty, SampleSettings } from "./sample.js";

/** What a card is worth, the best first. */
export const VERDICTS = [
  /** Every compared tensor is what the recipe gives, bit for bit. */
  "identical",
  /** To a few roundings of a dtype. */
  "rounding",
  /** But for elements at a cut among equal values. */
  "ties",
  /** A random method, with the statistics of its recipe. */
  "statistics",
  "differs",
  /** A source that the recipe names cannot be read. */
  "source-missing",
  /** The recipe cannot be planned: it is not valid, or its models do not fit together. */
  "invalid-recipe",
  /** It names folders that only its author has. */
  "local-source",
  /** Its method is a program, which is not run. */
  "own-code",
  "no-recipe",
] as const;
export type CardVerdict = (typeof VERDICTS)[number];

export interface CardSource {
  /** As the card names it. */
  readonly name: string;
  /** Commit that was read, of the model and of its adapter. */
  readonly commits: readonly string[];
  /** Why it cannot be read; null if it can. */
  readonly missing: string | null;
}

/** A recipe of a card that was tried. */
export interface TriedRecipe extends Pick<CardRecipe, "line" | "from"> {
  readonly method: string;
  readonly verdict: CardVerdict;
}

export interface CardCheck extends SampleSettings {
  readonly model: string;
  /** Commit of the model; null of a folder. */
  readonly commit: string | null;
  readonly verdict: CardVerdict;
  /** The recipe that the verdict is of: of several the one with the best verdict, then the first. */
  readonly recipe: TriedRecipe | null;
  readonly recipes: readonly TriedRecipe[];
  readonly refused: readonly RefusedBlock[];
  readonly sources: readonly CardSource[];
  /** How many tensors were compared, by verdict. */
  readonly tensors: Readonly<Record<TensorCheck["verdict"], number>> & { readonly compared: number };
  /** Tensors that are not identical. */
  readonly deviations: readonly TensorCheck[];
  /** Layers with tensors that the recipe does not give. */
  readonly layers: readonly number[];
  /** Tensors of the recipe that are not published, and the other way round. */
  readonly missing: readonly string[];
  readonly extra: readonly string[];
  /** What was rounded, where the weights are what the card says otherwise. */
  readonly rounding: { readonly dtype: string; readonly roundings: number; readonly left: number | null } | null;
  /** Median over the differing tensors of what they are off, by norm, as a share of what the merge changed. */
  readonly left: number | null;
  readonly random: RandomCheck | null;
  readonly better: Better | null;
  readonly certainty: Certainty | null;
  /** Why the recipe cannot be planned. */
  readonly problems: readonly string[];
  /** Bytes of weights that were expected to be fetched from the hub where nothing differs, and that were. */
  readonly bytesToFetch: number;
  readonly bytesFetched: number;
  readonly bytesRead: number;
  readonly notes: readonly string[];
}

/** What a check would compare. */
export interface CardPlan extends SampleSettings, Pick<CardCheck, "model" | "commit" | "refused" | "sources"> {
  readonly recipes: readonly (Pick<CardRecipe, "line" | "from"> & {
    readonly method: string;
    readonly certainty: Certainty | null;
    readonly bytesToFetch: number;
  })[];
  readonly bytesToFetch: number;
}

export interface CardOptions extends StreamOptions, SampleSettings {
  /** Folder that a relative path starts from. */
  readonly folder?: string | undefined;
  readonly hub?: HubAccess | undefined;
  /** Folders of models that the card names, by its names for them. */
  readonly places?: Places | undefined;
  /** Models that may be the base besides those that the card names. */
  readonly bases?: readonly string[] | undefined;
  /** Called with what is planned before weights are compared; what it throws ends the check. */
  readonly onPlan?: ((plan: CardPlan) => void) | undefined;
}

/** A recipe that is ready to be compared, or why it is not. */
interface Prepared {
  readonly card: CardRecipe;
  readonly comparison?: PlannedComparison;
  readonly verdict?: "source-missing" | "invalid-recipe";
  readonly problems: readonly string[];
}

/** What is found of one recipe. */
type Found = Pick<
  CardCheck,
  | "verdict"
  | "tensors"
  | "deviations"
  | "layers"
  | "missing"
  | "extra"
  | "rounding"
  | "left"
  | "random"
  | "certainty"
  | "problems"
  | "bytesRead"
>;

class CardChecker {
  readonly #options: CardOptions;
  readonly #opened = new Map<string, Checkpoint>();
  readonly #missing = new Map<string, string>();
  readonly #names = new Set<string>();

  constructor(options: CardOptions) {
    this.#options = options;
  }

  async prepare(model: string) {
    const { hub, folder, places } = this.#options;
    const published = await openCheckpoint(model, { hub, ...(folder === undefined ? {} : { base: folder }) });
    const card = await readCard(published.folder, hub, places);
    this.#requireNamed(card);
    const prepared: Prepared[] = [];
    for (const one of card.recipes) prepared.push(await this.#prepare(one, published));
    const bases = await this.#openBases();
    const commit = hubPlace(published.folder)?.commit ?? null;
    return { published, card, prepared, bases, plan: this.#plan(model, commit, card, prepared) };
  }

  /** @throws LayergraftError code `usage` for a folder of a model that neither the card nor the user names */
  #requireNamed({ named: names }: Card): void {
    const { places = {}, bases = [] } = this.#options;
    const unknown = Object.keys(places).filter((name) => ![...names, ...bases].includes(name));
    if (unknown.length === 0) return;
    const what = names.length === 0 ? "which names no models" : `which names ${formatSome(names)}`;
    throw usageError(`${formatSome(unknown)} ${unknown.length === 1 ? "is" : "are"} not in the card, ${what}.`);
  }

  /** Bases that the user names: folders, too, and none that cannot be opened. */
  async #openBases(): Promise<string[]> {
    const { hub, folder = ".", bases = [], places: given } = this.#options;
    const places: string[] = [];
    for (const name of bases) {
      const path = resolve(folder, name);
      const place = (await exists(path)) ? path : placeOf(name, given);
      if (!this.#opened.has(place)) this.#opened.set(place, await openCheckpoint(place, { hub }));
      places.push(place);
    }
    return places;
  }

  async #prepare(card: CardRecipe, published: Checkpoint): Promise<Prepared> {
    const names = namesIn(card.recipe);
    for (const name of names) await this.#open(name);
    const missing = names.filter((name) => this.#missing.has(name));
    if (missing.length > 0) {
      const problems = missing.map((name) => this.#missing.get(name) as string);
      return { card, verdict: "source-missing", problems };
    }
    try {
      const { share, seed } = this.#options;
      const planned = await this.planned(card.recipe);
      return { card, comparison: new PlannedComparison(planned, published, { share, seed }), problems: [] };
    } catch (error) {
      if (!isOfRecipe(error)) throw error;
      return { card, verdict: "invalid-recipe", problems: error.reasons };
    }
  }

  planned(recipe: RecipeInput, seed?: number) {
    const { hub } = this.#options;
    return planRecipe(recipe, { hub, opened: this.#opened, ...(seed === undefined ? {} : { seed }) });
  }

  /** Opens a source once; what the hub refuses is kept as missing. */
  async #open(source: string): Promise<void> {
    this.#names.add(source);
    if (this.#opened.has(source) || this.#missing.has(source)) return;
    try {
      this.#opened.set(source, await openCheckpoint(source, { hub: this.#options.hub }));
    } catch (error) {
      if (!isGone(error)) throw error;
      this.#missing.set(source, named(error.message));
    }
  }

  #plan(model: string, commit: string | null, { refused }: Card, prepared: readonly Prepared[]): CardPlan {
    const { share, seed } = this.#options;
    const recipes = prepared.map(({ card: { line, from, recipe }, comparison }) => ({
      line,
      from,
      method: recipe.method,
      certainty: comparison?.certainty ?? null,
      bytesToFetch: comparison?.bytesToFetch() ?? 0,
    }));
    const bytesToFetch = recipes.reduce((sum, one) => sum + one.bytesToFetch, 0);
    return { model, commit, share, seed, refused, sources: this.#sources(), recipes, bytesToFetch };
  }

  #sources(): CardSource[] {
    return [...this.#names].map((name) => {
      const { folder, adapter } = this.#opened.get(name) ?? {};
      const commits = [folder, adapter?.path].flatMap((path) => (path && hubPlace(path)?.commit) || []);
      return { name: named(name), commits, missing: this.#missing.get(name) ?? null };
    });
  }

  async check(model: string): Promise<CardCheck> {
    const { share, seed, onPlan, hub } = this.#options;
    const { published, card, prepared, bases, plan } = await this.prepare(model);
    onPlan?.(plan);
    const all: { readonly one: Prepared; readonly found: Found }[] = [];
    for (const one of prepared) all.push({ one, found: await this.#compare(one) });
    const rank = ({ verdict }: Found) => VERDICTS.indexOf(verdict);
    const best = all.toSorted((a, b) => rank(a.found) - rank(b.found))[0];
    const tried = ({ one: { card: own }, found }: (typeof all)[number]): TriedRecipe => ({
      line: own.line,
      from: own.from,
      method: own.recipe.method,
      verdict: found.verdict,
    });
    const found = best?.found ?? nothing(refusal(card));
    let better: Better | null = null;
    if (best && found.verdict === "differs" && !found.random) {
      const { tensors } = found;
      const given = tensors.compared > 0 ? 1 - (tensors.differs + tensors.form) / tensors.compared : 0;
      const candidates = [
        ...new Set([...bases, ...card.bases.map((one) => placeOf(one, this.#options.places))]),
      ].filter((one) => named(one) !== model);
      const search = { hub, share, seed, opened: this.#opened, bases: candidates, stream: this.#stream };
      const other = await findBetter(best.one.card.recipe, published, given, search);
      better = other ? { ...other, recipe: mapNames(other.recipe, named) } : null;
    }
    const files = new Set([published, ...this.#opened.values()].flatMap((one) => one.files));
    const notes = [...(best?.one.card.notes ?? []), ...(best?.one.comparison?.opened.plan.notes ?? [])];
    return {
      ...found,
      model,
      commit: plan.commit,
      share,
      seed,
      better,
      notes: notes.map(named),
      recipe: best ? tried(best) : null,
      recipes: all.map(tried),
      refused: card.refused,
      sources: this.#sources(),
      bytesToFetch: plan.bytesToFetch,
      bytesFetched: [...files].reduce((sum, { remote }) => sum + (remote?.fetched ?? 0), 0),
    };
  }

  get #stream(): StreamOptions {
    const { threads, memory, signal, onProgress } = this.#options;
    return { threads, memory, signal, onProgress };
  }

  async #compare({ card, comparison, verdict, problems }: Prepared): Promise<Found> {
    if (!comparison) return { ...nothing(verdict ?? "invalid-recipe"), problems };
    try {
      const found = foundOf(await comparison.run(this.#stream));
      if (found.verdict !== "differs" || !isRandom(card.recipe)) return found;
      const { share, seed } = this.#options;
      const again = await this.planned(card.recipe, seed + 1);
      const second = new PlannedComparison(again, comparison.published, { share, seed });
      const random = (await compareDraws(comparison, second, { share, seed }, this.#stream)) ?? null;
      const isWhole = found.missing.length + found.extra.length + found.tensors.form === 0;
      return { ...found, random, verdict: random?.agrees && isWhole ? "statistics" : "differs" };
    } catch (error) {
      if (!isOfRecipe(error)) throw error;
      return { ...nothing("invalid-recipe"), problems: error.reasons };
    }
  }
}

/** Why a card without a usable recipe has none. */
function refusal({ refused: [first] }: Card): CardVerdict {
  const verdicts = { invalid: "invalid-recipe", local: "local-source", code: "own-code" } as const;
  return first ? verdicts[first.why] : "no-recipe";
}

const NONE = { compared: 0, identical: 0, rounding: 0, ties: 0, differs: 0, form: 0 };

const nothing = (verdict: CardVerdict): Found => ({
  verdict,
  tensors: NONE,
  deviations: [],
  layers: [],
  missing: [],
  extra: [],
  rounding: null,
  left: null,
  random: null,
  certainty: null,
  problems: [],
  bytesRead: 0,
});

function foundOf({ tensors, missing, extra, certainty, bytesRead }: RecipeCheck): Found {
  const counts = { ...NONE, compared: tensors.length };
  for (const { verdict } of tensors) counts[verdict]++;
  const wrong = tensors.filter((one) => !isGiven(one));
  const layers = [...new Set(wrong.flatMap(({ layer }) => layer ?? []))].sort((a, b) => a - b);
  const rounded = tensors.filter(({ verdict, roundings }) => ["rounding", "ties"].includes(verdict) && roundings !== 0);
  const verdict =
    wrong.length + missing.length + extra.length > 0 || tensors.length === 0
      ? "differs"
      : counts.ties > 0
        ? "ties"
        : counts.rounding > 0
          ? "rounding"
          : "identical";
  const lefts = (some: readonly TensorCheck[]) => some.flatMap(({ left }) => left ?? []).sort((a, b) => a - b);
  const median = (values: readonly number[]) => values[Math.floor(values.length / 2)] ?? null;
  const coarsest = ["BF16", "F16", "F32"].find((dtype) => rounded.some((one) => one.dtype === dtype));
  const rounding =
    verdict !== "differs" && coarsest
      ? {
          dtype: coarsest,
          roundings: rounded.reduce(
            (most, one) => (one.dtype === coarsest ? Math.max(most, one.roundings ?? 0) : most),
            0,
          ),
          left: median(lefts(rounded)),
        }
      : null;
  const deviations = tensors.filter((one) => one.verdict !== "identical");
  return {
    verdict,
    tensors: counts,
    deviations,
    layers,
    missing,
    extra,
    rounding,
    left: median(lefts(wrong)),
    random: null,
    certainty,
    problems: [],
    bytesRead,
  };
}

/** The hub answered that a model is not there, or not for everyone; or it is none that can be read. */
function isGone(error: unknown): error is LayergraftError {
  if (error instanceof CheckpointError) return true;
  const { statusCode } = Object(error instanceof HubError ? error.cause : undefined) as {
    readonly statusCode?: number;
  };
  return statusCode !== undefined && [401, 403, 404].includes(statusCode);
}

/** What a recipe is the reason for. */
function isOfRecipe(error: unknown): error is LayergraftError {
  return error instanceof LayergraftError && ["recipe", "mismatch", "checkpoint", "usage"].includes(error.code);
}

/** See `open-check.ts`. */
export const checkCard = (model: string, options: CardOptions): Promise<CardCheck> =>
  new CardChecker(options).check(model);

export const planCard = async (model: string, options: CardOptions): Promise<CardPlan> =>
  (await new CardChecker(options).prepare(model)).plan;
