// Reads mergekit configurations and reports all problems with their lines.

import { RecipeError } from "../../core/index.js";
import { loadYaml, readSettingsText } from "../../settings/index.js";
import { type HubAccess, locateOrFetch, readConfig } from "../../weights/index.js";
import { refusalOf } from "./method-translations.js";
import { type MergekitRecipe, translate } from "./translate.js";

export interface MergekitOptions {
  /** Name of the text in messages; default "mergekit configuration". */
  readonly file?: string;
  /** Number of layers of the models; if given, slices that cover all layers become one merge. */
  readonly layers?: number | undefined;
}

/**
 * Translates a mergekit configuration to a recipe.
 * @returns undefined if the text is not a mergekit configuration, a YAML mapping with a merge_method
 * @throws RecipeError with every problem and all that is not supported, by line
 */
export async function parseMergekit(text: string, options: MergekitOptions = {}): Promise<MergekitRecipe | undefined> {
  const { file = "mergekit configuration", layers } = options;
  const opened = await open(text, file);
  return opened?.translate(layers).translated;
}

/**
 * Translates a mergekit configuration file to a recipe. Reads only the depth of the first model. Relative paths start
 * from the working folder, as in mergekit.
 * @param hub access to the hub for models that are not on this machine; none by default
 * @returns undefined if the file is not a mergekit configuration
 * @throws RecipeError with every problem and all that is not supported, by line; or if it cannot be read
 */
export async function readMergekit(file: string, hub?: HubAccess): Promise<MergekitRecipe | undefined> {
  const opened = await open(await readSettingsText(file, "recipe"), file);
  if (!opened) return undefined;
  const first = opened.translate(undefined);
  const layers = await depthOf(first.models[0] ?? "", hub);
  return layers === undefined ? first.translated : opened.translate(layers).translated;
}

interface Translated {
  readonly translated: MergekitRecipe;
  readonly models: readonly string[];
}

interface Opened {
  /** @param layers number of layers of the models, if known */
  readonly translate: (layers: number | undefined) => Translated;
}

/** Parses a mergekit configuration; undefined if the text is something else. */
async function open(text: string, file: string): Promise<Opened | undefined> {
  // Its schema takes time to build, which other merges need not wait for.
  const { isMergekit, mixtureOf, readConfiguration } = await import("./mergekit-schema.js");
  const { openSettings } = await loadYaml();
  const { value, inLines } = openSettings(text, file, "PyYAML");
  const mixture = mixtureOf(value);
  if (mixture !== undefined) throw RecipeError.at({ file }, `${file} ${mixture}`);
  if (!isMergekit(value)) return undefined;
  const { config, problems, notes } = readConfiguration(value);
  const isKnown = config !== undefined && refusalOf(config.merge_method) === undefined;
  const nothing = { translated: undefined, models: [], problems: [] };
  return {
    translate: (layers) => {
      const { translated, models, problems: more } = isKnown ? translate(config, layers) : nothing;
      if (translated && problems.length === 0) {
        return { models, translated: { ...translated, notes: [...notes, ...translated.notes] } };
      }
      throw new RecipeError(`${file} cannot be merged as it is:`, inLines([...problems, ...more]), { file });
    },
  };
}

/** Number of layers of a model; undefined if unknown. */
async function depthOf(model: string, hub: HubAccess | undefined): Promise<number | undefined> {
  try {
    const { folder } = await locateOrFetch(model, undefined, hub && { ...hub, fetch: "headers" });
    return (await readConfig(folder)).layers;
  } catch {
    return undefined; // the planner reports the problem
  }
}
