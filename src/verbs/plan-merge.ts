import { type CallOptions, CancelledError, RecipeError } from "../kit/index.js";
import {
  type OpenedPlan,
  openPlan as openSaved,
  PLAN_FORMAT,
  type Plan,
  type PlanSource,
  planRecipe,
  planRecipeFile,
  type Step,
  toWrite,
} from "../merge/index.js";
import {
  checkOutput,
  type ExecuteOptions,
  type ExecuteResult,
  executePlan,
  type PlanSummary,
  summarizePlan,
} from "../merge/output/index.js";
import type { MeasureGates } from "../tensor/measurements/index.js";
import type { RecipeInput } from "./inputs.js";
import { type FolderOptions, hubOf } from "./options.js";

/** Options of `planMerge`. */
export interface PlanMergeOptions extends FolderOptions, Pick<CallOptions, "signal"> {
  /** Run a file that the recipe names as its method. Default: false. */
  readonly allowCode?: boolean | undefined;
  /** Recipe files: fields that override those of the file. Default: none. */
  readonly fields?: Partial<RecipeInput> | undefined;
  /** Recipe files: seed of every method in it that makes random choices. Default: those of the recipe. */
  readonly seed?: number | undefined;
  /** mergekit configurations: note what mergekit silently passes over, such as a filter that matches no tensor, instead of refusing it. Default: false. */
  readonly asMergekit?: boolean | undefined;
}

/** Computes gates with the engine, which other merges do not load. */
const gates: MeasureGates = async (...args) => (await import("../engine/index.js")).measureGates(...args);

/** A planned merge: the value of each output tensor. No weights are computed yet. */
export class MergePlan {
  /** The recipe with every default filled in; `planMerge` takes it again. */
  readonly recipe: RecipeInput;
  /** Number of transformer layers of the result. */
  readonly layers: number;
  /** Family of the models, such as `Llama`. */
  readonly architecture: string;
  /** The models that the plan reads, with the names that steps use. */
  readonly sources: readonly PlanSource[];
  /** One step per output tensor, in the order of the output's files. */
  readonly steps: readonly Step[];
  /** Notes to read before writing. */
  readonly notes: readonly string[];
  /** Why sources look unrelated; `write` then needs `allowUnrelated`. Empty for models of one base. */
  readonly unrelated: readonly string[];
  /** Summary of the plan: tensors, parameters, bytes to read and write, and the source of each layer. */
  readonly summary: PlanSummary;
  readonly #opened: OpenedPlan;

  /** @internal Use `planMerge` or `openPlan`. */
  constructor(opened: OpenedPlan, notes: readonly string[] = []) {
    const { plan } = toWrite(opened);
    this.#opened = opened;
    this.recipe = plan.recipe;
    this.layers = plan.layers;
    this.architecture = plan.architecture;
    this.sources = plan.sources;
    this.steps = plan.steps;
    this.notes = [...notes, ...plan.notes];
    this.unrelated = plan.unrelated ?? [];
    this.summary = summarizePlan(toWrite(opened));
  }

  /** @internal */
  static openedOf(plan: MergePlan): OpenedPlan {
    return plan.#opened;
  }

  /**
   * Checks that the merged model can be written, and writes nothing.
   * @throws OutputError or MismatchError as `write` does
   */
  check(options: ExecuteOptions): Promise<void> {
    return checkOutput(toWrite(this.#opened), options);
  }

  /**
   * Writes the merged model. An interrupted run leaves `OUT.partial`, which `resume` completes to the same bytes.
   * @throws OutputError if the folder cannot be written, or exists and `force` is not set
   * @throws DiskFullError if the disk fills up
   * @throws MismatchError if the models look unrelated and `allowUnrelated` is not set
   * @throws CancelledError if the signal fires
   * @throws LayergraftError with code `changed` if a source changes during the write
   */
  write(options: ExecuteOptions): Promise<ExecuteResult> {
    return executePlan(this.#opened, { ...options, gates });
  }

  /** The plan as plain data, for `JSON.stringify`; `openPlan` takes it again. */
  toJSON(): Plan {
    return toWrite(this.#opened).plan;
  }
}

/**
 * Plans a merge. Reads headers, configurations and a sample of the weights.
 * @param recipe a recipe; or the path of a recipe file or mergekit configuration, whose relative paths start from the
 *   recipe's folder and from the working folder
 * @throws RecipeError if the recipe is not valid, with every problem
 * @throws MismatchError if the models do not fit together, with every reason
 * @throws CheckpointError or FormatError if a model cannot be read
 * @throws CancelledError if the signal fires
 */
export async function planMerge(recipe: RecipeInput | string, options: PlanMergeOptions = {}): Promise<MergePlan> {
  const { folder = ".", signal, allowCode, fields, seed, asMergekit } = options;
  if (signal?.aborted) throw new CancelledError("stopped; nothing was written");
  if (typeof recipe === "string") {
    const { opened, notes } = await planRecipeFile(recipe, {
      fields,
      hub: hubOf(options),
      allowCode,
      seed,
      asMergekit,
    });
    return new MergePlan(opened, notes);
  }
  return new MergePlan(await planRecipe(recipe, { folder, hub: hubOf(options), allowCode }));
}

/**
 * Opens a plan that was saved as JSON.
 * @param saved the parsed JSON of a `MergePlan`
 * @param options `allowCode` for a plan with a method that is a file
 * @throws RecipeError if it is not a plan of this version
 * @throws LayergraftError with code `changed` if a source changed since planning
 * @throws CheckpointError or FormatError if a source cannot be read
 */
export async function openPlan(saved: Plan, options: Pick<PlanMergeOptions, "allowCode"> = {}): Promise<MergePlan> {
  const { format } = Object(saved) as Partial<Plan>;
  if (format !== PLAN_FORMAT) {
    throw new RecipeError(`The saved plan has format ${format}, and this version reads ${PLAN_FORMAT}. Plan again.`);
  }
  const { plan, sources } = await openSaved(saved, hubOf({}), undefined, options.allowCode);
  return new MergePlan({ plan, sources });
}
