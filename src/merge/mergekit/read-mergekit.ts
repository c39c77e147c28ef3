// Reading mergekit configurations from text and files: problems all at once, with their lines.

import type { DocumentOptions, SchemaOptions } from "yaml";
import { RecipeError } from "../../core/index.js";
import { loadYaml, readSettingsText } from "../../settings/index.js";
import { locateSource, readConfig } from "../../weights/index.js";
import { isMergekit, mixtureOf, readConfiguration } from "./mergekit-schema.js";
import { refusalOf } from "./method-translations.js";
import { type MergekitRecipe, translate } from "./translate.js";

export interface MergekitOptions {
  /** What to call the text in messages; default "mergekit configuration". */
  readonly file?: string;
  /** How many layers the models have; slices that cover them all are then written as one merge. */
  readonly layers?: number | undefined;
}

/**
 * The recipe that does what a mergekit configuration does.
 * @returns undefined if the text is not a mergekit configuration, a YAML mapping with a merge_method
 * @throws RecipeError with every problem and all that is not supported, by line
 */
export async function parseMergekit(text: string, options: MergekitOptions = {}): Promise<MergekitRecipe | undefined> {
  const { file = "mergekit configuration", layers } = options;
  const opened = await open(text, file);
  return opened?.translate(layers).translated;
}

/**
 * The recipe that does what the mergekit configuration in a file does. Of the models only the depth of the first is
 * looked up; relative paths start from the working folder, as mergekit's do.
 * @returns undefined if the file is not a mergekit configuration
 * @throws RecipeError with every problem and all that is not supported, by line; or if it cannot be read
 */
export async function readMergekit(file: string): Promise<MergekitRecipe | undefined> {
  const opened = await open(await readSettingsText(file, "recipe"), file);
  if (!opened) return undefined;
  const first = opened.translate(undefined);
  const layers = await depthOf(first.models[0] ?? "");
  return layers === undefined ? first.translated : opened.translate(layers).translated;
}

/** As PyYAML reads, which mergekit uses: `yes` is true and `<<` merges mappings, but `y` and `n` are texts. */
const AS_PYYAML: DocumentOptions & SchemaOptions = {
  version: "1.1",
  customTags: (tags) =>
    tags.map((tag) => {
      if (typeof tag === "string" || tag.collection || tag.tag !== "tag:yaml.org,2002:bool" || !tag.test) return tag;
      return { ...tag, test: new RegExp(`(?=..)${tag.test.source}`) };
    }),
};

interface Translated {
  readonly translated: MergekitRecipe;
  readonly models: readonly string[];
}

interface Opened {
  /** @param layers how many the models have, where that is known */
  readonly translate: (layers: number | undefined) => Translated;
}

/** A text as a mergekit configuration; undefined if it is meant for something else. */
async function open(text: string, file: string): Promise<Opened | undefined> {
  const { openSettings } = await loadYaml();
  const { value, inLines } = openSettings(text, file, AS_PYYAML);
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

/** How many layers a model has; undefined if its folder does not show it. */
async function depthOf(model: string): Promise<number | undefined> {
  try {
    const { folder } = await locateSource(model);
    return (await readConfig(folder)).layers;
  } catch {
    return undefined; // the planner reports the problem
  }
}
