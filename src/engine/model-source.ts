// What the engine is asked to run: a folder, a folder with an adapter, or a recipe that nothing has executed. All are brought
// to one form: for each tensor a value, as merges have it. Reads headers and configurations, never weights.

import { stat } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { digestOfJson, MismatchError, stampOf } from "../core/index.js";
import {
  type Measurement,
  type OpenedPlan,
  outputConfig,
  planRecipe,
  planRecipeFile,
  type RecipeInput,
  type Sources,
  type Step,
} from "../merge/index.js";
import {
  type AddedToken,
  type Checkpoint,
  type CheckpointConfig,
  openCheckpoint,
  parseConfig,
} from "../weights/index.js";

/** A model that may be run. */
export interface ModelSource {
  /** For people: the folder's name, or what the recipe does. */
  readonly name: string;
  /** Changes when sources or recipe do, and when a weight file is written anew, whatever is in it. */
  readonly digest: string;
  readonly config: CheckpointConfig;
  /** What each tensor is made of, by its name. */
  readonly tensors: ReadonlyMap<string, Step>;
  readonly sources: Sources;
  readonly measurements: readonly Measurement[];
  /** Folders to look for tokenizer, template and generation configuration in, the first first. */
  readonly textFolders: readonly string[];
  /** Tokens that the tokenizer has beside its own. */
  readonly addedTokens: readonly AddedToken[];
  readonly notes: readonly string[];
}

/** What can be run: FOLDER, FOLDER+ADAPTER, a recipe's file, a recipe, or a plan. */
export type EngineSource = string | RecipeInput | OpenedPlan;

/**
 * Opens what is to be run.
 * @param options.folder folder that relative paths start from; the working folder by default. Those within a recipe's file
 *   start from the file's folder, those within a mergekit configuration from the working folder, as in merges.
 * @throws {CheckpointError | FormatError | RecipeError | MismatchError} if it cannot be used
 */
export async function openModelSource(source: EngineSource, options: { folder?: string } = {}): Promise<ModelSource> {
  if (typeof source !== "string") return fromPlan("plan" in source ? source : await planRecipe(source, options));
  const { folder = "." } = options;
  const file = isAbsolute(source) ? source : join(folder, source);
  if (await isRecipeFile(file)) return fromFile(file);
  return fromCheckpoint(await openCheckpoint(source, { base: folder }));
}

async function isRecipeFile(path: string): Promise<boolean> {
  if (!/\.(ya?ml|json)$/i.test(path)) return false;
  const stats = await stat(path).catch(() => undefined);
  return stats?.isFile() ?? false;
}

async function fromFile(file: string): Promise<ModelSource> {
  const { opened, notes } = await planRecipeFile(file);
  const source = await fromPlan(opened);
  return { ...source, notes: [...notes, ...source.notes] };
}

// The one source of a checkpoint that is run as it is.
const ITSELF = "model";

async function fromCheckpoint(checkpoint: Checkpoint): Promise<ModelSource> {
  const steps = [...checkpoint.tensors.values()].map(({ name, dtype, shape, layer, part }): [string, Step] => [
    name,
    { tensor: name, dtype, shape, layer, part, origin: [ITSELF], value: { source: ITSELF, tensor: name } },
  ]);
  return {
    name: checkpoint.name,
    digest: await versionOf([checkpoint.digest], [checkpoint]),
    config: checkpoint.config,
    tensors: new Map(steps),
    sources: new Map([[ITSELF, checkpoint]]),
    measurements: [],
    textFolders: textFoldersOf(checkpoint),
    addedTokens: [],
    notes: checkpoint.notes,
  };
}

async function fromPlan({ plan, sources }: OpenedPlan): Promise<ModelSource> {
  const lead = requireSource(sources, plan.configFrom);
  return {
    name: `${plan.recipe.method} of ${plan.sources.map(({ name }) => name).join(", ")}`,
    digest: await versionOf([plan.recipe, plan.sources.map(({ digest }) => digest)], [...sources.values()]),
    config: parseConfig(outputConfig(plan, lead.config), lead.config.file),
    tensors: new Map(plan.steps.map((step) => [step.tensor, step])),
    sources,
    measurements: plan.measurements,
    textFolders: textFoldersOf(requireSource(sources, plan.tokenizerFrom)),
    addedTokens: plan.vocabulary?.added ?? [],
    notes: [...plan.notes, ...(plan.unrelated ?? [])],
  };
}

/**
 * A digest of what is said of a model and of its weight files as they are now. Headers alone do not tell fine-tuned models
 * of one base apart, and reading all weights would take longer than many an evaluation.
 */
async function versionOf(said: unknown, checkpoints: readonly Checkpoint[]): Promise<string> {
  const files = await Promise.all(
    checkpoints.flatMap(({ files: list }) =>
      list.map(async ({ path, headerDigest }) => [headerDigest, await stampOf(path)]),
    ),
  );
  return digestOfJson([said, files]);
}

function requireSource(sources: Sources, id: string): Checkpoint {
  const found = sources.get(id);
  if (!found) throw new MismatchError("the plan names a source that it does not have:", [id]);
  return found;
}

/** PEFT saves the tokenizer that was trained with beside the adapter; it then goes before the base's. */
function textFoldersOf({ folder, adapter }: Checkpoint): string[] {
  return adapter ? [adapter.path, folder] : [folder];
}
