import { basename, join, relative } from "node:path";
import { hubPlace } from "../../formats/checkpoint/index.js";
import { usageError } from "../../kit/index.js";
import { commandLine, formatSome, plural, suggestName, visible } from "../../kit/printing/index.js";
import type { RecipeInput } from "../../merge/index.js";
import type { PlanModel } from "../expand/plan-models.js";
import { type Experiment, type ExperimentStatus, statusOfVariant } from "../experiment.js";
import { freeId } from "../plan/matrix.js";
import type { Store } from "../run/store.js";
import type { Location, ModelSource } from "../steps/step.js";
import { withFolders } from "../steps/step-state.js";
import type { ExperimentReport, PlanReport, ReportRecipe } from "./report-data.js";
import type { Sheet } from "./score-sheet.js";

/** Folder of the report, in the experiment's folder, and folder of the recipes, in the report's. */
export const REPORT = "report";
export const RECIPES = "recipes";
/** Folder of the reports of a matrix's variants, in the report's. */
export const VARIANTS = "variants";

/** What a list of recipes is, in sentences. */
export const RECIPES_LEAD =
  "Each reported merge can be made again. Run a command from the plan's folder to write the model. layergraft push publishes " +
  "it, and layergraft export writes it for llama.cpp.";

/** A sentence on the recipes that are not shown; empty if there are none. */
export const moreRecipes = (count: number) => (count > 0 ? ` ${plural(count, "more recipe")} in report/recipes.` : "");

/** What says where the recipes of an experiment are, and how they are made again. */
type Origin = Pick<Experiment, "out" | "planFolder" | "file" | "isAsWritten" | "id">;

/** Folder of the recipes of an experiment, or of a variant. */
const recipesIn = ({ out, id }: Origin) => join(out, REPORT, ...(id === "" ? [] : [VARIANTS, id]), RECIPES);

/** Recipes of all reported merges and of trained experts, in the order of the tables. */
export function reportRecipes(
  sheet: Sheet,
  overviews: PlanReport["overviews"],
  { origin, store }: { readonly origin: Origin; readonly store: Pick<Store, "locate"> },
): ReportRecipe[] {
  const rows = new Map<string, Set<string>>();
  for (const { bars } of overviews) {
    for (const { label, models, isSummary } of bars) {
      if (isSummary) continue;
      for (const model of models) rows.set(model, (rows.get(model) ?? new Set()).add(label));
    }
  }
  const reported = [
    ...sheet.experts.filter(({ origin }) => origin !== undefined),
    ...sheet.merges.filter((model) => sheet.isReported(model)),
  ];
  const folder = recipesIn(origin);
  const taken = new Set<string>();
  return reported.map((model): ReportRecipe => {
    const id = freeId(model.name, taken, "recipe");
    const recipe = recipeIn(model, store, folder);
    return {
      id,
      model: model.name,
      rows: [...(rows.get(model.name) ?? [])],
      text: recipeText(recipe, oneLine(model.name)),
      command: commandOf(id, origin),
    };
  });
}

/** The command that writes a reported model, from the plan's folder. */
function commandOf(id: string, origin: Origin): string {
  const row = origin.id === "" ? id : `${origin.id}/${id}`;
  if (origin.isAsWritten) {
    return commandLine`experiment ${basename(origin.file)} export ${row} --out ${id}`;
  }
  // Options of the run are not known here, and the recipe has what they led to.
  const recipe = join(relative(origin.planFolder, recipesIn(origin)), `${id}.yaml`);
  return commandLine`merge ${recipe} --out ${id}`;
}

const oneLine = (text: string) => visible(text.replace(/\s+/g, " "));

/** A model as a recipe; an expert or the base is a copy. @param at where a source is */
function recipeOf({ source, locations }: Pick<PlanModel, "source" | "locations">, at: (location: Location) => string) {
  const places = Object.fromEntries(Object.entries(locations).map(([identity, one]) => [identity, at(one)]));
  const whole: ModelSource = typeof source === "string" ? { method: "soup", models: [source] } : source;
  return withFolders(whole, places) as RecipeInput;
}

/**
 * A source as a recipe in a folder names it: a path relative to the folder, so that both can be moved together, or the name
 * on the hub with its commit.
 */
function relativePlace(
  location: Location,
  { locations }: Pick<PlanModel, "locations">,
  store: Pick<Store, "locate">,
  folder: string,
): string {
  if ("step" in location) {
    const own = relative(folder, store.locate({ step: location.step, path: location.path }, {}));
    const base = location.adapterOf === undefined ? undefined : locations[location.adapterOf];
    return base ? `${relativePlace(base, { locations }, store, folder)}+${own}` : own;
  }
  const onHub = placeOnHub(location.folder);
  if (onHub !== undefined) return onHub;
  // Where FOLDER+ADAPTER is divided is not known here.
  return location.folder.includes("+") ? location.folder : relative(folder, location.folder);
}

/** `org/name@COMMIT` of a folder in the cache of the hub, or of FOLDER+ADAPTER where both are in it. */
function placeOnHub(source: string): string | undefined {
  const places = source.split("+").map(hubPlace);
  return places.every((place) => place !== undefined)
    ? places.map((place) => `${place?.name}@${place?.commit}`).join("+")
    : undefined;
}

/** The recipe of a model with sources relative to a folder. */
export function recipeIn(model: PlanModel, store: Pick<Store, "locate">, folder: string): RecipeInput {
  return recipeOf(model, (location) => relativePlace(location, model, store, folder));
}

/** A recipe as the text of its file: a field a line, with JSON values. @param title for its first line */
export function recipeText(recipe: RecipeInput, title: string): string {
  const lines = Object.entries(recipe).map(([field, value]) => `${field}: ${JSON.stringify(value)}`);
  return `# ${title}\n${lines.join("\n")}\n`;
}

interface FoundRecipe {
  /** The model's own name. */
  readonly name: string;
  readonly recipe: RecipeInput;
  /** The tables that it is in. */
  readonly overviews: PlanReport["overviews"];
}

/**
 * Finds a model by a row of the report, its own name, or the name of its recipe; with a matrix, after its variant:
 * `aya-LoRA/soup`.
 * @returns its recipe with absolute folders, and names and commits of models on the hub
 * @throws LayergraftError code `usage` if there is none, or the row has several
 */
export function findRecipe(row: string, report: ExperimentReport, status: ExperimentStatus): FoundRecipe {
  if (report.kind === "plan") return findRow(row, report, status);
  const i = report.variants.findIndex(({ id }) => row.startsWith(`${id}/`));
  const [variant, planned] = [report.variants[i], status.variants[i]];
  if (!variant || !planned) {
    const ids = report.variants.map(({ id }) => id);
    const [own = ""] = row.split("/");
    const hint = suggestName(own, ids);
    throw usageError(`Write the variant before the row, as in ${ids[0]}/ROW. There is no variant ${own}${hint}`);
  }
  return findRow(row.slice(variant.id.length + 1), variant.report, statusOfVariant(status, planned));
}

function findRow(
  row: string,
  report: Pick<PlanReport, "recipes" | "overviews">,
  { expansion, store }: Pick<ExperimentStatus, "expansion" | "store">,
): FoundRecipe {
  const models = new Map(expansion.models.map(({ model }) => [model.name, model]));
  const byId = report.recipes.find(({ id }) => id === row)?.model;
  const bars = report.overviews.flatMap((overview) => overview.bars).filter(({ isSummary }) => !isSummary);
  const inRows = [...new Set(bars.filter(({ label }) => label === row).flatMap((bar) => bar.models))];
  const names = models.has(row) ? [row] : byId === undefined ? inRows : [byId];
  const [name = ""] = names;
  const idOf = (model: string) => report.recipes.find((one) => one.model === model)?.id ?? model;
  if (names.length > 1) {
    throw usageError(
      `${row} is the mean of ${names.length} models. Export one of them: ${formatSome(names.map(idOf), 8)}`,
    );
  }
  const model = models.get(name);
  if (model) {
    const at = (location: Location) =>
      ("folder" in location ? placeOnHub(location.folder) : undefined) ?? store.locate(location, model.locations);
    const overviews = report.overviews.filter((overview) => overview.bars.some((bar) => bar.models.includes(name)));
    return { name, recipe: recipeOf(model, at), overviews };
  }
  const { warnings } = expansion;
  if (report.recipes.length === 0 && warnings.length === 0) {
    throw usageError(`there is no row ${row}: no merge or trained expert is known yet. Run the plan first.`);
  }
  // Checkpoints that a selection left out have no row.
  const offered = [...models.values()].flatMap((one) => ("isCandidate" in one && one.isCandidate ? [] : [one.name]));
  const ofMerge = expansion.models.flatMap(({ model: one }) =>
    "merge" in one && one.merge.name === row && report.recipes.some((recipe) => recipe.model === one.name)
      ? [idOf(one.name)]
      : [],
  );
  if (ofMerge.length > 0) {
    throw usageError(`${row} is a merge with several rows. Export one of them: ${formatSome(ofMerge, 8)}`);
  }
  const known = new Set([...report.recipes.map(({ id }) => id), ...bars.map(({ label }) => label), ...offered]);
  const hint = suggestName(row, [...known]);
  const end = hint.endsWith("?") || warnings.length === 0 ? "" : ".";
  throw usageError([`there is no row ${row} in the report${hint}${end}`, ...warnings].join(" "));
}
