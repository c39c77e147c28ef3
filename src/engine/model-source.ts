// Opens what the engine runs: a folder, a folder with an adapter, or a recipe. All have the same form: a value for each
// tensor, as in merges. Reads headers and configurations, not weights.

import { isAbsolute, join } from "node:path";
import {
  type Checkpoint,
  type CheckpointConfig,
  type HubAccess,
  openCheckpoint,
  parseConfig,
} from "../formats/checkpoint/index.js";
import { type AddedToken, textFoldersOf } from "../formats/vocabulary/index.js";
import { digestOfJson, stampOf } from "../kit/files/index.js";
import { CheckpointError, MismatchError, RecipeError } from "../kit/index.js";
import { commandLine, plural } from "../kit/printing/index.js";
import {
  isOnFactors,
  isRecipeFile,
  type OpenedPlan,
  planRecipe,
  planRecipeFile,
  type RecipeInput,
  type Step,
} from "../merge/index.js";
import { outputConfig } from "../merge/output/index.js";
import type { Measured, Sources } from "../tensor/expressions/index.js";
import type { Measurement } from "../tensor/measurements/index.js";

export interface ModelSource {
  /** Display name: the folder's, or a summary of the recipe. */
  readonly name: string;
  /** Changes with sources and recipe, and when a weight file is rewritten, even with the same content. */
  readonly digest: string;
  readonly config: CheckpointConfig;
  readonly tensors: ReadonlyMap<string, Step>;
  readonly sources: Sources;
  readonly measurements: readonly Measurement[];
  /** Results of measurements that are not among these. */
  readonly measured?: Measured | undefined;
  /** Folders to search for tokenizer, template and generation configuration, in this order. */
  readonly textFolders: readonly string[];
  /** Tokens that the plan adds to the tokenizer. */
  readonly addedTokens: readonly AddedToken[];
  readonly notes: readonly string[];
}

/** A model to open: FOLDER, FOLDER+ADAPTER, a recipe's file, a recipe, or a plan. */
export type EngineSource = string | RecipeInput | OpenedPlan;

/**
 * Opens a model.
 * @param options.folder folder of relative paths; default the working folder. Paths in a recipe file are relative to the
 *   file's folder, those in a mergekit configuration to the working folder, as in merges.
 * @param options.hub access to the hub for models that are not on this machine; none by default
 * @throws CheckpointError or FormatError or RecipeError or MismatchError if it cannot be used
 */
export async function openModelSource(
  source: EngineSource,
  options: { folder?: string | undefined; hub?: HubAccess | undefined } = {},
): Promise<ModelSource> {
  const { folder = ".", hub } = options;
  if (typeof source !== "string")
    return fromPlan("plan" in source ? source : await planRecipe(source, { folder, hub }));
  const file = isAbsolute(source) ? source : join(folder, source);
  if (!(await isRecipeFile(file))) return sourceOf(await openCheckpoint(source, { base: folder, hub }));
  const { opened, notes } = await planRecipeFile(file, { hub });
  const planned = await fromPlan(opened);
  return { ...planned, notes: [...notes, ...planned.notes] };
}

/** Whether all weights of a model are on this machine. */
export function isHere({ sources }: ModelSource): boolean {
  return [...sources.values()].every(({ files }) => files.every(({ remote }) => !remote));
}

// The source of a checkpoint that is run as it is.
const ITSELF = "model";

/** @throws CheckpointError if layers are missing, or more than the configuration says */
export async function sourceOf(checkpoint: Checkpoint): Promise<ModelSource> {
  const { statedLayers, layersField, layers, file } = checkpoint.config;
  if (statedLayers !== undefined) {
    throw new CheckpointError(
      `${file} says ${layersField} ${statedLayers}, but the weights have ${plural(layers ?? 0, "layer")}. Download the missing files, or correct the number.`,
      { file, field: layersField, expected: `${statedLayers}`, actual: `${layers}` },
    );
  }
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
    notes: [...checkpoint.notes, ...roundingNotes(checkpoint)],
  };
}

/** Of an adapter on a base in a narrow type: its weights are those of PEFT's merge, which lose some of its change. */
function roundingNotes({ source, tensors }: Checkpoint): string[] {
  const narrow = [...tensors.values()].find(({ lowRank, dtype }) => lowRank && (dtype === "BF16" || dtype === "F16"));
  if (!narrow) return [];
  const dtype = narrow.dtype === "BF16" ? "bfloat16" : "float16";
  const merge = commandLine`export ${source} --format hf --type float32 --out FOLDER`;
  return [
    `the sum of base and adapter is rounded to ${dtype}, as PEFT merges them, which loses some of the change. To keep all of it: ${merge}`,
  ];
}

async function fromPlan({ plan, sources }: OpenedPlan): Promise<ModelSource> {
  if (isOnFactors(plan.recipe)) {
    throw RecipeError.at(
      { field: "as" },
      "this recipe merges the factors of adapters, and cannot be run before it is written. Write it with merge, and give BASE+OUT.",
    );
  }
  const lead = requireSource(sources, plan.configFrom);
  const { whileRunning } = lead.config;
  return {
    name: `${plan.recipe.method} of ${plan.sources.map(({ name }) => name).join(", ")}`,
    digest: await versionOf([plan.recipe, plan.sources.map(({ digest }) => digest)], [...sources.values()]),
    config: {
      ...parseConfig(outputConfig(plan, lead.config), lead.config.file),
      quantized: lead.config.quantized,
      ...(whileRunning ? { whileRunning } : {}),
    },
    tensors: new Map(plan.steps.map((step) => [step.tensor, step])),
    sources,
    measurements: plan.measurements,
    textFolders: textFoldersOf(requireSource(sources, plan.tokenizerFrom)),
    addedTokens: plan.vocabulary?.added ?? [],
    notes: [...plan.notes, ...(plan.unrelated ?? [])],
  };
}

/**
 * A digest of a model's description and of the stamps of its weight files. Headers do not distinguish fine-tuned models of
 * one base, and reading all weights could take longer than an evaluation.
 */
async function versionOf(description: unknown, checkpoints: readonly Checkpoint[]): Promise<string> {
  const files = await Promise.all(
    checkpoints.flatMap(({ files: list }) =>
      // A commit on the hub never changes.
      list.map(async ({ path, headerDigest, remote }) => [headerDigest, remote ? path : await stampOf(path)]),
    ),
  );
  return digestOfJson([description, files]);
}

function requireSource(sources: Sources, id: string): Checkpoint {
  const found = sources.get(id);
  if (!found) throw new MismatchError("the plan names a source that it does not have:", [id]);
  return found;
}
