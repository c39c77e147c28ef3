import { type HubAccess, locateOrFetch, readConfig } from "../../formats/checkpoint/index.js";
import { RecipeError } from "../../kit/index.js";
import { loadYaml, readSettingsText } from "../../kit/settings/index.js";
import type { NestedRecipe } from "../methods/method.js";
import { mapSources, type RecipeInput } from "../recipe/recipe.js";
import { labelOf, type MergekitRecipe, refusalOf, translate } from "./translate.js";

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
 * Translates a mergekit configuration file to a recipe. Reads only the depth of the models. Relative paths start
 * from the working folder, as in mergekit.
 * @param hub access to the hub for models that are not on this machine; none by default
 * @returns undefined if the file is not a mergekit configuration
 * @throws RecipeError with every problem and all that is not supported, by line; or if it cannot be read
 */
export async function readMergekit(file: string, hub?: HubAccess): Promise<MergekitRecipe | undefined> {
  const opened = await open(await readSettingsText(file, "recipe"), file);
  if (!opened) return undefined;
  const first = opened.translate(undefined);
  const depths = await Promise.all(first.models.map((model) => depthOf(model, hub)));
  // Slices of models of other depths do not cover them.
  const layers = new Set(depths.filter((depth) => depth !== undefined)).size === 1 ? depths[0] : undefined;
  return layers === undefined ? first.translated : opened.translate(layers).translated;
}

interface Translated {
  readonly translated: MergekitRecipe;
  readonly models: readonly string[];
}

interface Opened {
  /** By which other merges of the file use its result. */
  readonly name: string | undefined;
  /** @param layers number of layers of the models, if known */
  readonly translate: (layers: number | undefined) => Translated;
}

/** Parses a mergekit configuration, of one or several merges; undefined if the text is something else. */
async function open(text: string, file: string): Promise<Opened | undefined> {
  const texts = documentsOf(text);
  const [only] = texts;
  if (texts.length < 2) return openOne(only ?? text, file);
  const stages: Opened[] = [];
  for (const one of texts) {
    const stage = await openOne(one, file);
    if (!stage) return openOne(text, file); // which says that there are several documents
    stages.push(stage);
  }
  return { name: undefined, translate: (layers) => joinStages(stages, layers, file) };
}

/** The documents of a YAML text, each on its own lines. */
function documentsOf(text: string): string[] {
  const lines = text.split("\n");
  const starts = [0, ...lines.flatMap((line, i) => (/^---\s*(#.*)?$/.test(line) ? [i + 1] : []))];
  const documents = starts.map((from, i) => {
    const until = (starts[i + 1] ?? lines.length + 1) - 1;
    return "\n".repeat(from) + lines.slice(from, until).join("\n");
  });
  return documents.filter((document) => /^\s*[^\s#]/m.test(document));
}

/** Merges that use each other by name (mergekit-multi) as one recipe: that of the merge without a name, or the last. */
function joinStages(stages: readonly Opened[], layers: number | undefined, file: string): Translated {
  const notes = new Set(["the merges of the file are computed as one: nothing between them is written or rounded"]);
  const models = new Set<string>();
  const stageOf = (source: unknown) => stages.find(({ name }) => name !== undefined && name === source);
  const make = (stage: Opened, trail: readonly Opened[]): RecipeInput => {
    if (trail.includes(stage)) {
      throw RecipeError.at(
        { file },
        `the merges of ${file} use each other in a circle, by way of ${stage.name}. Break it.`,
      );
    }
    const { translated, models: own } = stage.translate(layers);
    for (const note of translated.notes) notes.add(note);
    for (const model of own) if (!stageOf(model)) models.add(model);
    const { tokenizer_from: tokenizer, ...recipe } = translated.recipe;
    const from = tokenizer !== undefined && stageOf(tokenizer) ? labelOf(recipe as NestedRecipe, tokenizer) : tokenizer;
    return {
      ...inlined(recipe, [...trail, stage]),
      ...(from === undefined ? {} : { tokenizer_from: from }),
    } as RecipeInput;
  };
  const inlined = <R extends object>(recipe: R, trail: readonly Opened[]): R =>
    mapSources(recipe, (source) => {
      if (typeof source !== "string") return inlined(source, trail);
      const stage = stageOf(source);
      if (!stage) return source;
      const { dtype: _, vocabulary: __, tokenizer_from: ___, chat_template: ____, ...inner } = make(stage, trail);
      return inner;
    });
  const last = (stages.find(({ name }) => name === undefined) ?? stages.at(-1)) as Opened;
  return { translated: { recipe: make(last, []), notes: [...notes] }, models: [...models] };
}

/** Parses one configuration; undefined if the text is something else. */
async function openOne(text: string, file: string): Promise<Opened | undefined> {
  // Its schema takes time to build, which other merges need not wait for.
  const [{ isMergekit, readConfiguration }, { isMixture, translateMixture }] = await Promise.all([
    import("./mergekit-schema.js"),
    import("./mixtures.js"),
  ]);
  const { openSettings } = await loadYaml();
  const { value, inLines } = openSettings(text, file, "PyYAML");
  if (isMixture(value)) {
    const { translated, problems } = translateMixture(value);
    if (translated && problems.length === 0) return { name: undefined, translate: () => ({ translated, models: [] }) };
    throw new RecipeError(`${file} is not a valid mixture of experts:`, inLines(problems), { file });
  }
  if (!isMergekit(value)) return undefined;
  const { config, problems, notes } = readConfiguration(value);
  const isKnown = config !== undefined && refusalOf(config.merge_method) === undefined;
  const nothing = { translated: undefined, models: [], problems: [] };
  return {
    name: config?.name ?? undefined,
    translate: (layers) => {
      const { translated, models, problems: more } = isKnown ? translate(config, layers) : nothing;
      if (translated && problems.length === 0) {
        return { models, translated: { ...translated, notes: [...notes, ...translated.notes] } };
      }
      throw new RecipeError(`${file} cannot be merged as it is:`, inLines([...problems, ...more]), { file });
    },
  };
}

async function depthOf(model: string, hub: HubAccess | undefined): Promise<number | undefined> {
  try {
    const { folder } = await locateOrFetch(model, undefined, hub && { ...hub, fetch: "headers" });
    return (await readConfig(folder)).layers;
  } catch {
    return undefined; // the planner reports the problem
  }
}
