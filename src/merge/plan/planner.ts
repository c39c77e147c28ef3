// Turns a recipe into a plan. Reads headers, configurations and a sample of the weights.

import { basename, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import {
  type Checkpoint,
  companionNotes,
  type HubAccess,
  requireStackable,
  type SourceOptions,
  unquantise,
} from "../../formats/checkpoint/index.js";
import { type Alignment, isWithin, moveTokenIds } from "../../formats/vocabulary/index.js";
import { isFloatDType, MismatchError, RecipeError } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import { hasOperation, leavesOf, Resolver, sourcesRead } from "../../tensor/expressions/index.js";
import { measuredSources, placeholders } from "../../tensor/measurements/index.js";
import { type Job, requireKernelMemory } from "../../tensor/streaming/index.js";
import type { Method } from "../methods/method.js";
import type { Operand } from "../methods/operand.js";
import { PLAN_FORMAT, type PlanSource, type Step } from "../model-plan.js";
import { settleRecipe } from "../recipe/inner-recipes.js";
import { mapSources, methodOf, type Plan, type Recipe, type RecipeInput } from "../recipe/recipe.js";
import { checkRecipe, readRecipe } from "../recipe/recipe-file.js";
import { planAdapter, requireOneBase } from "./adapter-plan.js";
import { chooseBlocks, type ReadBlocks, withinBudget } from "./budget.js";
import { factorSources, isOnFactors } from "./factor-sources.js";
import { planFp8 } from "./fp8-plan.js";
import { OperandBuilder } from "./operand-builder.js";
import { withDType } from "./output-dtypes.js";
import { compareWeights, type Relatedness } from "./relatedness.js";
import { roundAdapters } from "./rounded-adapters.js";
import { copiesCodes, keepsTogether } from "./stored-plan.js";

/** A plan with its opened checkpoints. */
export interface OpenedPlan {
  readonly plan: Plan;
  readonly sources: ReadonlyMap<string, Checkpoint>;
  /** What is written in its place: codes and scales, where all tensors are copies of them, or as FP8. */
  readonly asStored?: OpenedPlan;
}

/** The plan that is written; others compute with values. */
export const toWrite = (opened: OpenedPlan): OpenedPlan => opened.asStored ?? opened;

export interface PlanOptions extends SourceOptions {
  /** Checkpoints that are open already, by source. */
  readonly opened?: ReadonlyMap<string, Checkpoint> | undefined;
  /** Whether to run a file that the recipe names as its method. Default: false. */
  readonly allowCode?: boolean | undefined;
  /** Seed of each method in the recipe that makes random choices. Default: those of the recipe. */
  readonly seed?: number | undefined;
}

/**
 * Plans a recipe.
 * @throws HubError if the hub refuses or cannot be reached
 * @throws RecipeError if the recipe asks for something impossible
 * @throws MismatchError if the sources do not fit together, with every reason
 * @throws CheckpointError or FormatError if a source cannot be used
 * @throws LayergraftError code `memory` if a method takes a matrix whole that is too large for that
 */
export async function planRecipe(recipe: RecipeInput, options: PlanOptions = {}): Promise<OpenedPlan> {
  return (await planWhole(recipe, options)).opened;
}

async function planWhole(recipe: RecipeInput, options: PlanOptions) {
  const { folder = ".", allowCode = false, seed } = options;
  const { recipe: settled, code, notes } = await settleRecipe(recipe, folder, allowCode, seed);
  const planner = new Planner(settled, options);
  const planned = await planner.plan(notes);
  const asStored =
    settled.dtype === "fp8"
      ? planFp8(planned)
      : copiesCodes(planned)
        ? await planAsStored(settled, options, planned, notes)
        : undefined;
  const { plan, sources } = planned;
  const whole = code.length > 0 ? { ...plan, code } : plan;
  return { opened: { plan: whole, sources, ...(asStored ? { asStored } : {}) }, planner, settled };
}

/** How a recipe file is planned. */
export interface PlanFileOptions {
  /** Fields that override those of the file. */
  readonly fields?: Partial<RecipeInput> | undefined;
  /** Access to the hub for sources that are not on this machine; none by default. */
  readonly hub?: HubAccess | undefined;
  /** Whether to run a file that the recipe names as its method. Default: false. */
  readonly allowCode?: boolean | undefined;
  /** Seed of each method in it that makes random choices; default: those of the recipe. */
  readonly seed?: number | undefined;
  /** Note what mergekit silently passes over, instead of refusing it. Default: false. */
  readonly asMergekit?: boolean | undefined;
}

/**
 * Plans many recipes over the same sources. Only the first of those that differ in nothing but numbers is planned whole: of
 * the others, what their numbers decide.
 * @returns a function that throws what `planRecipe` does; it returns the plan where the recipe was planned whole, which
 *   `isWhole` asks for
 */
export function planVersions(options: PlanOptions = {}) {
  const known = new Map<string, Planner>();
  return async (recipe: RecipeInput, isWhole = false): Promise<OpenedPlan | undefined> => {
    const kind = kindOf(recipe);
    const alike = isWhole ? undefined : known.get(kind);
    if (alike) {
      alike.tryNumbers(checkRecipe(recipe));
      return undefined;
    }
    const { opened, planner, settled } = await planWhole(recipe, options);
    // Files inside a recipe are read each time, as is what a budget chooses.
    const isPlain = settled.budget === undefined && settled.as !== "adapter";
    if (isPlain && isDeepStrictEqual(settled, checkRecipe(recipe))) known.set(kind, planner);
    return opened;
  };
}

/** A recipe without its numbers. 0 and 1 stay: they leave a source out, or take all of it. */
const kindOf = (recipe: RecipeInput): string =>
  JSON.stringify(recipe, (_, value) => (typeof value === "number" && value !== 0 && value !== 1 ? "number" : value));

/**
 * Plans a recipe file or a mergekit configuration. Relative paths start from the recipe's folder, or for a mergekit
 * configuration from the working folder, as in mergekit.
 * @returns the plan, and notes on the translation of a mergekit configuration
 * @throws RecipeError with the line of each problem, including problems that only the models reveal
 * @throws see `planRecipe`
 */
export async function planRecipeFile(
  file: string,
  { fields = {}, hub, allowCode = false, seed, asMergekit }: PlanFileOptions = {},
): Promise<{ readonly opened: OpenedPlan; readonly notes: readonly string[] }> {
  const { readMergekit } = await import("../mergekit/index.js");
  const converted = await readMergekit(file, hub, { asMergekit });
  if (converted) {
    const recipe = { ...converted.recipe, ...fields } as RecipeInput;
    return { opened: await planRecipe(recipe, { hub, seed }), notes: converted.notes };
  }
  const { recipe: written, folder, lineOf } = await readRecipe(file);
  try {
    const recipe = { ...written, ...fields } as RecipeInput;
    return { opened: await planRecipe(recipe, { folder, hub, allowCode, seed }), notes: [] };
  } catch (error) {
    const line = error instanceof RecipeError && error.where.field ? lineOf(error.where.field) : undefined;
    if (!(error instanceof RecipeError) || line === undefined) throw error;
    throw RecipeError.at(error.where, `${file}, line ${line}: ${error.message}`);
  }
}

/** The plan over codes and scales; undefined where the sources have different ones, or it would separate them. */
async function planAsStored(
  recipe: Recipe,
  options: PlanOptions,
  values: OpenedPlan,
  notes: readonly string[],
): Promise<OpenedPlan | undefined> {
  const opened = new Map([...values.sources.values()].map((one) => [one.source, one.asStored ?? one]));
  try {
    const stored = await new Planner(recipe, { ...options, opened }, true).plan(notes);
    return keepsTogether(stored, values) ? stored : undefined;
  } catch (error) {
    if (error instanceof MismatchError || error instanceof RecipeError) return undefined;
    throw error;
  }
}

class Planner {
  readonly #recipe: Recipe;
  readonly #method: Method;
  readonly #builder: OperandBuilder;
  readonly #asStored: boolean;

  /** @param asStored whether the opened checkpoints have codes and scales as tensors */
  constructor(recipe: Recipe, { folder = ".", hub, opened }: PlanOptions, asStored = false) {
    this.#recipe = recipe;
    this.#method = methodOf(recipe);
    this.#asStored = asStored;
    this.#builder = new OperandBuilder(folder, hub, opened, recipe.tensors);
  }

  async plan(notes: readonly string[]): Promise<OpenedPlan> {
    const builder = this.#builder;
    this.#note(notes);
    await this.#open();
    const { vocabulary } = this.#recipe;
    const alignment = await builder.requireCompatible(vocabulary, "merged", this.#method.layersOnly);
    const whole = builder.merged;
    const blocks = await this.#chooseBlocks(whole);
    const merged = builder.merge(this.#recipe, "");
    if (merged.layerOrder) requireStackable(merged.lead.checkpoint, merged.layerOrder);
    const recipe = withDefaults(this.#recipe, merged.layers);
    const steps = this.#steps(merged);
    // Rejects unsupported arithmetic before weights are read.
    this.#requireComputable(steps);
    this.#requireKernels(steps);
    const related = await this.#compare(whole);
    const warning = this.#method.warn?.(recipe, merged.layers, related.changeIn);
    if (!warning && !blocks) this.#noteUnused(steps);
    this.#note(warning?.notes);
    this.#notePacked(steps);
    const tokenizer = await this.#tokenizer(merged, alignment);
    const config = { ...merged.config, ...tokenizer.config };
    const plan: Plan = {
      format: PLAN_FORMAT,
      recipe,
      layers: merged.layers,
      ...(merged.layerOrder ? { layerOrder: merged.layerOrder } : {}),
      architecture: merged.lead.checkpoint.architecture,
      sources: [...builder.sources].map(([id, checkpoint]) => describe(id, checkpoint, this.#asStored)),
      measurements: [...builder.measurements.values()],
      steps,
      ...(alignment ? { vocabulary: { rows: alignment.rows, digest: alignment.digest, added: alignment.added } } : {}),
      ...(blocks ? { blocks } : {}),
      configFrom: merged.lead.id,
      ...(Object.keys(config).length > 0 ? { config } : {}),
      tokenizerFrom: tokenizer.from,
      notes: builder.notes,
      ...(warning?.suspicion ? { suspicion: warning.suspicion } : {}),
      ...(related.unrelated.length > 0 ? { unrelated: related.unrelated } : {}),
    };
    const opened = { plan, sources: builder.sources };
    if (recipe.as === "adapter") planAdapter(opened);
    return opened;
  }

  /** @throws what `plan` does for the numbers of a recipe that is like the planned one otherwise */
  tryNumbers(recipe: Recipe): void {
    const { lead, layerOrder } = this.#builder.again().merge(recipe, "");
    if (layerOrder) requireStackable(lead.checkpoint, layerOrder);
  }

  #note(notes: readonly string[] = []): void {
    for (const note of notes) this.#builder.note(note);
  }

  /** Opens the sources, in the form that they are merged in. */
  async #open(): Promise<void> {
    const { sources } = this.#builder;
    await this.#builder.openAll(this.#recipe, "");
    roundAdapters(sources, this.#recipe.lora_merge_dtype);
    if (isOnFactors(this.#recipe)) {
      requireOneBase([...sources]);
      for (const [label, factors] of factorSources(this.#recipe, sources)) sources.set(label, factors);
      this.#builder.isOnFactors = true;
      this.#builder.note(
        `${this.#method.title} merges the adapters' factors A and B, as PEFT does, not their products; a merge without as: adapter merges the products`,
      );
    }
    if (this.#method.layersOnly && this.#recipe.vocabulary !== undefined) {
      throw RecipeError.at(
        { field: "vocabulary" },
        "vocabulary has no meaning here: all tokens are those of one model. Remove it.",
      );
    }
  }

  /** With a budget: the blocks to read, with the base's in place of the others. */
  async #chooseBlocks(models: ReadonlyMap<string, Checkpoint>): Promise<ReadBlocks | undefined> {
    const { budget } = this.#recipe;
    const chosen =
      budget === undefined ? undefined : await chooseBlocks(budget, models, (one) => this.#builder.isBase(one));
    this.#note(chosen?.notes);
    for (const [label, source] of withinBudget(models, chosen?.read ?? {})) this.#builder.sources.set(label, source);
    return chosen?.read;
  }

  /** @throws MismatchError if a step needs arithmetic that its tensors do not have */
  #requireComputable(steps: readonly Step[]): void {
    const [mixed, others] = [this.#mixedDTypes(steps), this.#uncomputable(steps)];
    const problems = [...mixed, ...others];
    const where = others.length === 0 ? { option: "dtype" } : {};
    if (problems.length > 0) throw new MismatchError("This merge cannot be computed:", problems, where);
  }

  /** Compares the sources with each other. */
  async #compare(models: ReadonlyMap<string, Checkpoint>): Promise<Relatedness> {
    const builder = this.#builder;
    for (const labels of builder.duplicates()) {
      builder.note(`${labels.length > 3 ? formatSome(labels) : labels.join(" and ")} are the same model`);
    }
    // The factors of two trainings have nothing in common.
    if (builder.isOnFactors) return { notes: [], unrelated: [], changeIn: () => undefined };
    const related = await compareWeights(models, (label) => builder.isBase(label));
    this.#note(related.notes);
    return related;
  }

  #notePacked(steps: readonly Step[]): void {
    const { dtype } = this.#recipe;
    const packed = steps.filter((step) => dtype !== "keep" && dtype !== "fp8" && /^F[468](_|$)/.test(step.dtype));
    if (packed.length === 0) return;
    const what = `${plural(packed.length, "packed tensor")} (${packed[0]?.dtype})`;
    this.#builder.note(`${what} cannot be converted and keep their dtype`);
  }

  /** The source of the tokenizer, and fields of config.json that follow from it. */
  async #tokenizer({ lead, tokenizerFrom }: Operand, alignment: Alignment | undefined) {
    const { sources } = this.#builder;
    const from = this.#tokenizerFrom(alignment?.leader ?? tokenizerFrom);
    const tokenizer = sources.get(from);
    if (!tokenizer) return { from };
    this.#note(await companionNotes(lead.checkpoint, tokenizer, sources.values()));
    const config = { label: lead.id, checkpoint: sources.get(lead.id) ?? lead.checkpoint };
    const moved = await moveTokenIds(config, { label: from, checkpoint: tokenizer }, alignment);
    this.#note(moved.notes);
    return { from, config: moved.fields };
  }

  /** Notes sources that no step reads. */
  #noteUnused(steps: readonly Step[]): void {
    const used = sourcesRead(steps.map(({ value }) => value));
    for (const source of measuredSources([...this.#builder.measurements.values()])) used.add(source);
    for (const label of this.#builder.sources.keys()) {
      if (this.#builder.isBase(label) && !used.has(label)) this.#builder.note(`${label} is not needed and ignored`);
    }
  }

  #steps({ tensors, lead }: Operand): readonly Step[] {
    const { dtype: asked } = this.#recipe;
    const steps = [...tensors].map(([tensor, { transposed: _, ...from }]): Step => ({ tensor, ...from }));
    if (asked === "keep" || asked === "fp8") return steps;
    const converted = withDType(steps, asked, lead.checkpoint, this.#builder.merged);
    for (const note of converted.notes) this.#builder.note(note);
    return converted.steps;
  }

  /** With `dtype: keep`, each tensor must have the same dtype in all sources; with `fp8`, each that none has as codes. */
  #mixedDTypes(steps: readonly Step[]): string[] {
    const { dtype } = this.#recipe;
    if (dtype !== "keep" && dtype !== "fp8") return [];
    const entering = sourcesRead(steps.map(({ value }) => value));
    const compared = new Set<Checkpoint>();
    const [first, ...others] = [...this.#builder.merged].filter(([label, checkpoint]) => {
      const counts = !compared.has(checkpoint) && (!this.#builder.isBase(label) || entering.has(label));
      if (counts) compared.add(checkpoint);
      return counts;
    });
    if (!first) return [];
    return others.flatMap(([label, checkpoint]) => {
      const dtypes = (tensor: string) => [first[1].tensors.get(tensor)?.dtype, checkpoint.tensors.get(tensor)?.dtype];
      const differing = steps.filter(({ tensor }) => {
        const [a, b] = dtypes(tensor);
        const isEncoded = dtype === "fp8" && [first[1], checkpoint].some((one) => one.tensors.get(tensor)?.coded);
        return a !== undefined && b !== undefined && a !== b && !isEncoded;
      });
      const [example] = differing;
      if (!example) return [];
      const [a, b] = dtypes(example.tensor);
      return [
        `${plural(differing.length, "tensor")} of ${first[0]} and ${label} differ in dtype, such as ${example.tensor} (${a} and ${b}); ` +
          "choose the dtype of the output: bfloat16, float16 or float32",
      ];
    });
  }

  #uncomputable(steps: readonly Step[]): string[] {
    const packed = new Map<string, string[]>();
    const quantized = new Map<string, { method: string; unread: string | undefined; tensors: string[] }>();
    const wide = new Set<string>();
    for (const { tensor, dtype, value } of steps) {
      const leaves = leavesOf(value);
      for (const leaf of leaves) {
        const source = this.#builder.sources.get(leaf.source);
        const stored = source?.tensors.get(leaf.tensor);
        const method = source?.config.quantized;
        if (method && !this.#asStored && (leaves.length > 1 || this.#recipe.dtype !== "keep")) {
          const unread = source.config.unread;
          const one = quantized.get(`${method} ${unread}`) ?? { method, unread, tensors: [] };
          one.tensors.push(tensor);
          quantized.set(`${method} ${unread}`, one);
        }
        const computed =
          leaves.length > 1 || hasOperation(value) || stored?.lowRank !== undefined || stored?.dtype !== dtype;
        if (!computed || !stored) continue;
        if (!isFloatDType(stored.dtype)) packed.set(stored.dtype, [...(packed.get(stored.dtype) ?? []), tensor]);
        if (stored.dtype === "F64") wide.add(tensor);
      }
    }
    if (wide.size > 0) {
      const verb = wide.size === 1 ? "is" : "are";
      this.#builder.note(
        `${plural(wide.size, "tensor")} ${verb} stored in float64 and computed in float32 (${formatSome([...wide])})`,
      );
    }
    const refused = [...quantized.values()].map(({ method, unread, tensors }) => {
      const reason = unread === undefined ? "" : ` and only copied, as ${unread}`;
      return `the checkpoints are quantised (${method})${reason}, so computing or converting ${formatSome([...new Set(tensors)])} would be wrong; ${unquantise(method)}`;
    });
    if (refused.length > 0) return refused;
    return [...packed].map(
      ([dtype, tensors]) =>
        `${plural(new Set(tensors).size, "tensor")} of dtype ${dtype} would need arithmetic, which is not supported (${formatSome([...new Set(tensors)])}); ` +
        "use checkpoints in bfloat16, float16 or float32",
    );
  }

  /** Refuses matrices that are too large to be taken whole. */
  #requireKernels(steps: readonly Step[]): void {
    const whole = steps.filter(({ value }) => hasOperation(value, "whole-matrix"));
    if (whole.length === 0) return;
    const resolver = new Resolver(this.#builder.sources, placeholders([...this.#builder.measurements.values()]));
    const jobs = whole.map(({ tensor, value }): Job => {
      return { kind: "delta", name: tensor, value: resolver.evaluation(value) };
    });
    requireKernelMemory({ jobs });
  }

  #tokenizerFrom(lead: string): string {
    const asked = this.#recipe.tokenizer_from;
    if (asked === undefined) return lead;
    if (this.#recipe.vocabulary !== undefined) {
      throw RecipeError.at(
        { field: "tokenizer_from", actual: asked },
        "tokenizer_from cannot be combined with vocabulary, which sets the tokenizer. Remove tokenizer_from.",
      );
    }
    // A nested recipe refers to its own lead.
    const path = resolve(this.#builder.folder, asked);
    const found = [...this.#builder.sources].find(
      ([id, { source, folder }]) => isWithin(id, asked) || source === asked || folder === path,
    );
    if (found) return found[0];
    throw RecipeError.at(
      { field: "tokenizer_from", actual: asked },
      `tokenizer_from names ${JSON.stringify(asked)}, which is not a source (${formatSome([...this.#builder.sources.keys()], 8)})`,
    );
  }
}

/** Fills depth-dependent defaults into a recipe and its nested recipes, for the record in the output. */
function withDefaults<R extends { readonly method: string }>(recipe: R, layers: number): R {
  const complete = (methodOf(recipe).complete?.(recipe, layers) ?? recipe) as R;
  return mapSources(complete, (source) => (typeof source === "string" ? source : withDefaults(source, layers)));
}

function describe(id: string, checkpoint: Checkpoint, asStored: boolean): PlanSource {
  return {
    id,
    folder: checkpoint.folder,
    ...(checkpoint.adapter ? { adapter: checkpoint.adapter.path } : {}),
    ...(checkpoint.revision === undefined ? {} : { revision: checkpoint.revision }),
    ...(checkpoint.adapterRevision === undefined ? {} : { adapterRevision: checkpoint.adapterRevision }),
    name: checkpoint.name,
    ...(asStored ? { asStored } : {}),
    digest: checkpoint.digest,
    files: checkpoint.files.map(({ path, bytes, headerDigest }) => ({ name: basename(path), bytes, headerDigest })),
  };
}
