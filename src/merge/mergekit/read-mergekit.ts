import { type HubAccess, locateOrFetch, openCheckpoint, readConfig } from "../../formats/checkpoint/index.js";
import { RecipeError } from "../../kit/index.js";
import { loadYaml, type Problem, readSettingsText } from "../../kit/settings/index.js";
import type { NestedRecipe } from "../methods/method.js";
import { mapSources, type RecipeInput } from "../recipe/recipe.js";
import { labelOf, type MergekitRecipe, type ModelFacts, refusalOf, translate } from "./translate.js";

/** How strictly a configuration is read. */
export interface MergekitReading {
  /** Note what mergekit silently passes over, such as a filter that matches no tensor, instead of refusing it. Default: false. */
  readonly asMergekit?: boolean | undefined;
}

export interface MergekitOptions extends MergekitReading {
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
  const opened = await open(text, file, options);
  return opened?.translate({ layers }).translated;
}

/**
 * Translates a mergekit configuration file to a recipe. Reads only the depth of the models, and the names of their tensors
 * if there are filters. Relative paths start from the working folder, as in mergekit.
 * @param hub access to the hub for models that are not on this machine; none by default
 * @returns undefined if the file is not a mergekit configuration
 * @throws RecipeError with every problem and all that is not supported, by line; or if it cannot be read
 */
export async function readMergekit(
  file: string,
  hub?: HubAccess,
  reading: MergekitReading = {},
): Promise<MergekitRecipe | undefined> {
  return readMergekitText(await readSettingsText(file, "recipe"), file, hub, reading);
}

/**
 * The same of a text.
 * @param file for messages
 * @param places where the models of the text are; what it throws ends the call. Default: what the text says
 */
export async function readMergekitText(
  text: string,
  file: string,
  hub: HubAccess | undefined,
  {
    places = (models) => models,
    ...reading
  }: MergekitReading & { readonly places?: (models: readonly string[]) => readonly string[] } = {},
): Promise<MergekitRecipe | undefined> {
  const opened = await open(text, file, reading);
  if (!opened) return undefined;
  const models = places(opened.models);
  const depths = await Promise.all(models.map((model) => depthOf(model, hub)));
  // Slices of models of other depths do not cover them.
  const layers = new Set(depths.filter((depth) => depth !== undefined)).size === 1 ? depths[0] : undefined;
  const tensors = /\bfilter\b/.test(text) ? await tensorsOf(models, hub) : undefined;
  return opened.translate({ layers, tensors }).translated;
}

interface Translated {
  readonly translated: MergekitRecipe;
  readonly models: readonly string[];
}

interface Opened {
  /** By which other merges of the file use its result. */
  readonly name: string | undefined;
  readonly models: readonly string[];
  readonly translate: (facts: ModelFacts) => Translated;
}

/** Parses a mergekit configuration, of one or several merges; undefined if the text is something else. */
async function open(text: string, file: string, reading: MergekitReading): Promise<Opened | undefined> {
  const texts = documentsOf(text);
  const [only] = texts;
  if (texts.length < 2) return openOne(only ?? text, file, reading);
  const stages: Opened[] = [];
  for (const one of texts) {
    const stage = await openOne(one, file, reading);
    if (!stage) return openOne(text, file, reading); // which says that there are several documents
    stages.push(stage);
  }
  const isStage = (model: string) => stages.some(({ name }) => name === model);
  const models = [...new Set(stages.flatMap((stage) => stage.models))].filter((model) => !isStage(model));
  return { name: undefined, models, translate: (facts) => joinStages(stages, facts, file) };
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
function joinStages(stages: readonly Opened[], facts: ModelFacts, file: string): Translated {
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
    const { translated, models: own } = stage.translate(facts);
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
async function openOne(text: string, file: string, reading: MergekitReading): Promise<Opened | undefined> {
  // Its schema takes time to build, which other merges need not wait for.
  const [{ isMergekit, readConfiguration, Strictness }, { isMixture, translateMixture }, bakllama] = await Promise.all([
    import("./mergekit-schema.js"),
    import("./mixtures.js"),
    import("./bakllama.js"),
  ]);
  const { openSettings } = await loadYaml();
  const { value, inLines } = openSettings(text, file, "PyYAML");
  const begin = () => new Strictness(reading.asMergekit ?? false);
  const whole = begin();
  const finish = (
    translated: MergekitRecipe | undefined,
    problems: readonly Problem[],
    notes: readonly string[],
    summary: string,
    own = begin(),
  ): MergekitRecipe => {
    const passed = [...whole.problems, ...own.problems];
    const all = [...problems, ...passed];
    const where = { file, ...(passed.length > 0 ? { option: "asMergekit" } : {}) };
    if (!translated || all.length > 0) throw new RecipeError(`${file} ${summary}:`, inLines(all), where);
    return { ...translated, notes: [...whole.notes, ...own.notes, ...notes, ...translated.notes] };
  };
  if (isMixture(value)) {
    const { translated, problems } = translateMixture(value, whole);
    const result = finish(translated, problems, [], "is not a valid mixture of experts");
    return { name: undefined, models: [], translate: () => ({ translated: result, models: [] }) };
  }
  const stack = bakllama.isBakllama(value) ? bakllama.asConfiguration(value, whole) : undefined;
  if (stack && !stack.configuration) finish(undefined, stack.problems, [], "is not a valid stack of layers");
  const written = stack ? stack.configuration : value;
  if (!isMergekit(written)) return undefined;
  const { config, problems, notes: others } = readConfiguration(written, whole);
  const notes = [...(stack?.notes ?? []), ...others];
  const isKnown = config !== undefined && refusalOf(config.merge_method) === undefined;
  return {
    name: config?.name ?? undefined,
    models: isKnown ? translate(config).models : [],
    translate: (facts) => {
      const own = begin();
      const found = isKnown ? translate(config, facts, own) : { models: [], problems: [] };
      const inStack = (problem: Problem) => ({ ...problem, path: bakllama.placeOf(problem.path) });
      const all = [...problems, ...found.problems].map(stack ? inStack : (problem) => problem);
      const translated = finish(found.translated, all, notes, "cannot be merged as it is", own);
      return { models: found.models, translated };
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

/** Names of all tensors of the models; undefined if one cannot be read. */
async function tensorsOf(models: readonly string[], hub: HubAccess | undefined): Promise<string[] | undefined> {
  try {
    const opened = await Promise.all(models.map((model) => openCheckpoint(model, { hub })));
    return [...new Set(opened.flatMap(({ tensors }) => [...tensors.keys()]))];
  } catch {
    return undefined; // the planner reports the problem
  }
}
