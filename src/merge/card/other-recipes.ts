// Looks for what gives published weights better than their card does: its models swapped, another base, other weights.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Checkpoint, type HubAccess, openCheckpoint } from "../../formats/checkpoint/index.js";
import { CheckpointError, groupBy, HubError, LayergraftError } from "../../kit/index.js";
import type { StreamOptions } from "../../tensor/streaming/index.js";
import { recipeOf, type Weighted } from "../analysis/explained-recipe.js";
import { type ExplainedTensor, explainMerge } from "../analysis/index.js";
import { planRecipe } from "../plan/planner.js";
import { mapSources, type RecipeInput, sourcesOf } from "../recipe/recipe.js";
import { PlannedComparison } from "./compare-recipe.js";
import { mapNames, named, namesIn } from "./read-card.js";
import type { SampleSettings } from "./sample.js";
import { sampledView } from "./sampled-view.js";

/** What gives the published weights better than the card. */
export interface Better {
  /**
   * swapped: two of its models in each other's place; base: another base; adapter: a model without its adapter; weights: others, as
   * `explain` finds them.
   */
  readonly what: "swapped" | "base" | "adapter" | "weights";
  readonly recipe: RecipeInput;
  /** Of swapped models, both names; of a base, or a model with the adapter that it is without, its name. */
  readonly names: readonly string[];
  /** Tensors that it gives, to the bit or to rounding, of how many that were compared. */
  readonly given: number;
  readonly of: number;
}

/** Tensors that a trial compares. */
const TRIAL = 24;
const MOST_TRIALS = 8;

export interface Search extends SampleSettings {
  readonly hub: HubAccess | undefined;
  readonly opened: ReadonlyMap<string, Checkpoint>;
  /** Models that may be the base. */
  readonly bases: readonly string[];
  readonly stream: StreamOptions;
}

/** @param given share of the tensors that the recipe of the card gives */
export async function findBetter(
  recipe: RecipeInput,
  published: Checkpoint,
  given: number,
  search: Search,
): Promise<Better | undefined> {
  const opened = new Map(search.opened);
  const bases: string[] = [];
  for (const base of search.bases) if (await known(base, opened, search.hub)) bases.push(base);
  let best: Better | undefined;
  for (const variant of variantsOf(recipe, bases).slice(0, MOST_TRIALS)) {
    const found = await trial(variant, published, opened, search);
    if (found && found.given > (best?.given ?? given * found.of)) best = { ...variant, ...found };
  }
  if (best && best.given === best.of) return best;
  const weights = await otherWeights(recipe, published, opened, { ...search, bases });
  return weights && weights.given / weights.of > (best ? best.given / best.of : given) ? weights : best;
}

/** Whether a model can be opened; a base that is gone is none to try. */
async function known(source: string, opened: Map<string, Checkpoint>, hub: HubAccess | undefined): Promise<boolean> {
  try {
    if (!opened.has(source)) opened.set(source, await openCheckpoint(source, { hub }));
    return true;
  } catch (error) {
    if (error instanceof HubError || error instanceof CheckpointError) return false;
    throw error;
  }
}

type Variant = Pick<Better, "what" | "names" | "recipe">;

function variantsOf(recipe: RecipeInput, bases: readonly string[]): Variant[] {
  const names = sourcesOf(recipe).flatMap(({ source, kind }) =>
    typeof source === "string" && kind === "model" ? [source] : [],
  );
  const distinct = [...new Set(names)];
  const swapped = distinct.flatMap((a, i) =>
    distinct.slice(i + 1).map((b): Variant => {
      const other = new Map([
        [a, b],
        [b, a],
      ]);
      return { what: "swapped", names: [named(a), named(b)], recipe: mapNames(recipe, (one) => other.get(one) ?? one) };
    }),
  );
  const base = sourcesOf(recipe).find(({ label }) => label === "base")?.source;
  const others = bases.filter((one) => typeof base === "string" && one !== base);
  const onOthers = others.map(
    (one): Variant => ({
      what: "base",
      names: [named(one)],
      recipe: mapSources(recipe, (source, label) => (label === "base" ? one : source)),
    }),
  );
  const bare = distinct.filter((one) => one.includes("+"));
  const withoutAdapter = bare.map((one): Variant => {
    const model = one.slice(0, one.indexOf("+"));
    return {
      what: "adapter",
      names: [named(one)],
      recipe: mapNames(recipe, (name) => (name === one ? model : name)),
    };
  });
  return [...onOthers, ...withoutAdapter, ...swapped];
}

async function trial(
  { recipe }: Variant,
  published: Checkpoint,
  opened: ReadonlyMap<string, Checkpoint>,
  { hub, share, seed, stream }: Search,
): Promise<Pick<Better, "given" | "of"> | undefined> {
  try {
    const planned = await planRecipe(recipe, { hub, opened });
    const { tensors } = await new PlannedComparison(planned, published, { share, seed, most: TRIAL }).run(stream);
    return { given: tensors.filter(isGiven).length, of: tensors.length };
  } catch (error) {
    if (isOfModels(error)) return undefined;
    throw error;
  }
}

export const isGiven = ({ verdict }: { readonly verdict: string }) => !["differs", "form"].includes(verdict);

/** Weights of all models by `explain`, over some rows of their matrices. */
async function otherWeights(
  recipe: RecipeInput,
  published: Checkpoint,
  opened: ReadonlyMap<string, Checkpoint>,
  search: Search,
): Promise<Better | undefined> {
  const { share, seed, bases, stream } = search;
  const base = sourcesOf(recipe).find(({ label }) => label === "base")?.source;
  const names = [...namesIn(recipe), ...bases].filter((one, i, all) => all.indexOf(one) === i && opened.has(one));
  const sources = [
    ...names.filter((one) => one !== base),
    ...(typeof base === "string" && names.includes(base) ? [base] : []),
  ];
  if (sources.length < 2 || published.asStored) return undefined;
  const folder = await mkdtemp(join(tmpdir(), "layergraft-card-"));
  try {
    const viewed = (one: Checkpoint, name: string) => sampledView(one, { share, seed }, folder, name, stream.signal);
    const view = await viewed(published, "published");
    const models = [];
    for (const [i, source] of sources.entries()) {
      models.push({ source, checkpoint: await viewed(opened.get(source) as Checkpoint, String(i)) });
    }
    const hasBase = base !== undefined;
    const { recipe: found, tensors } = await explainMerge(view, models, { ...stream, hasBase });
    // Few rows tell weights of single tensors less well than those that most tensors have.
    const [most] = [...groupBy(tensors.filter(isWeighed), ({ weights }) => `${weights}`).values()].toSorted(
      (a, b) => b.length - a.length,
    );
    const common =
      most &&
      recipeOf(
        most.flatMap((one) => weighed(one, view)),
        [],
        sources,
        hasBase,
      );
    const dtype = recipe.dtype === undefined ? {} : { dtype: recipe.dtype };
    const simple: Variant | undefined = common && {
      what: "weights",
      names: [],
      recipe: { ...common, ...dtype } as RecipeInput,
    };
    const tried = simple && (await trial(simple, published, opened, search));
    if (simple && tried && (tried.given === tried.of || !found)) return { ...simple, ...tried };
    const given = tensors.filter(({ verdict }) => verdict !== "unexplained").length;
    return found && { what: "weights", recipe: found, names: [], given, of: tensors.length };
  } catch (error) {
    if (isOfModels(error)) return undefined;
    throw error;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Whether weights of a tensor were found that say something. */
const isWeighed = ({ verdict, weights }: ExplainedTensor) =>
  weights !== null && (verdict === "identical" || verdict === "rounding");

function weighed({ tensor, weights }: ExplainedTensor, { tensors }: Checkpoint): Weighted[] {
  const stored = tensors.get(tensor);
  return stored && weights ? [{ stored, weights }] : [];
}

/** What does not fit together explains nothing. */
const isOfModels = (error: unknown) =>
  error instanceof LayergraftError && ["recipe", "mismatch", "checkpoint"].includes(error.code);
