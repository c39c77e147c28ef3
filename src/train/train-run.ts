import { join, resolve } from "node:path";
import { isHere, loadSourceTemplate, loadSourceTokenizer, modelTextOf, openModelSource } from "../engine/index.js";
import type { MemoryEstimate } from "../engine/memory/index.js";
import { locateWeights, readSpec, weightsOf } from "../engine/model/index.js";
import { loadRuntime } from "../engine/runtime/index.js";
import { type Checkpoint, factorNames, type HubAccess, parameterCount } from "../formats/checkpoint/index.js";
import type { KeptChange } from "../kernels/index.js";
import { longestOf } from "../kit/arrays/index.js";
import { digestOfFile, exists, requireOutside } from "../kit/files/index.js";
import { CheckpointError, type Progress, RecipeError } from "../kit/index.js";
import { commandLine, formatSome, plural, type SayField } from "../kit/printing/index.js";
import { type OpenedPlan, planRecipe } from "../merge/index.js";
import { executePlan } from "../merge/output/index.js";
import { type Tokenizer, withTime } from "../text/index.js";
import { type Batch, type BatchOptions, type BatchPosition, BatchStream, type ExampleList } from "./data/batches.js";
import type { SetCounts } from "./data/counts.js";
import { dataWarnings } from "./data/data-warnings.js";
import type { DataInput } from "./data/declaration.js";
import { type PreparedData, prepareData } from "./data/prepare.js";
import { keptBySample, keptNotes } from "./kept-notes.js";
import { type LoraPlan, leftOutOfLora, loraBase, planLora } from "./loop/lora.js";
import { type MaskPlan, measureMasks, planMasks } from "./loop/masks.js";
import { findState } from "./loop/state.js";
import { train } from "./loop/trainer.js";
import { RUN_FILES } from "./loop/training-folder.js";
import type { BatchSource, TrainingBatch, TrainOptions, TrainResult } from "./loop/training-types.js";
import { LORA_DEFAULTS, type Run } from "./run/run-schema.js";
import { type RunData, type RunSettings, settleRun, trainedSelection } from "./run/run-settings.js";
import { resolveSelection } from "./run/selection.js";
import { requireTrainingMemory } from "./train-memory.js";
import { type TrlCluster, type TrlFolder, writeTrlRun } from "./trl/write.js";

export interface RunOptions
  extends Pick<TrainOptions, "run" | "resume" | "force" | "signal" | "onResume" | "onProgress" | "onCheckpoint"> {
  /** Folder that a relative `base` starts from; default the working folder, from which `out` starts. */
  readonly folder?: string | undefined;
  /** Folder that relative paths of data start from; default `folder`. */
  readonly dataFolder?: string | undefined;
  /** Access to the hub for a base that is not on this machine; none by default. */
  readonly hub?: HubAccess | undefined;
  /** Called with bytes of the base as they are read, of which a run keeps a digest. */
  readonly onRead?: ((progress: Progress) => void) | undefined;
  /** Once, before the first step. */
  readonly onReady?: ((ready: PreparedRun) => void) | undefined;
  /** Time that chat templates write; a resumed run keeps its own. Default: that of the call. */
  readonly started?: Date | undefined;
  /** How advice sets a field. Default: as in a file. */
  readonly say?: SayField | undefined;
}

export interface PreparedRun extends Pick<TrainOptions, "base" | "source" | "settings" | "trained" | "lora"> {
  readonly streams: readonly PreparedStream[];
  /** Of sparse fine-tuning. */
  readonly mask?: MaskPlan | undefined;
  /** What the embedded engine takes; with `checkMemory`. */
  readonly memory?: MemoryEstimate | undefined;
  /** What the element type of the checkpoints may keep of the change: an estimate. Undefined where it keeps all. */
  readonly kept?: KeptChange | undefined;
  readonly notes: readonly string[];
  /** What of the data keeps the model from learning it; usually empty. */
  readonly warnings: readonly string[];
}

export interface PreparedStream {
  readonly name: string;
  readonly counts: readonly SetCounts[];
  readonly data: PreparedData;
  readonly batches: BatchStream;
  /** The same stream at another position. */
  readonly openAt: (position?: BatchPosition) => BatchStream;
  /** How the sequences of a batch begin, for messages. */
  readonly describe: (batch: Batch) => string;
  /** Names of the tensors that it trains; undefined for all. */
  readonly trained: ReadonlySet<string> | undefined;
}

export interface RunResult extends TrainResult {
  /** The base with the factors merged in (lora.merge). */
  readonly merged: string | null;
  readonly counts: Readonly<Record<string, readonly SetCounts[]>>;
  /** What the run settled by itself, such as a default learning rate; usually empty. */
  readonly notes: readonly string[];
  /** What of the data keeps the model from learning it, and what saving loses of it; usually empty. */
  readonly warnings: readonly string[];
}

/**
 * Trains.
 * @throws RecipeError or DataError or CheckpointError if base or data cannot be used
 * @throws as `train` does
 */
export async function trainRun(options: RunOptions): Promise<RunResult> {
  const { run, resume, force, signal, onResume, onProgress, onCheckpoint, onReady } = options;
  // Fails here if it is missing, before base and data are read.
  await loadRuntime();
  const started = (resume && (await startOf(run.out))) || (options.started ?? new Date());
  const prepared = await prepareRun({ ...options, started, checkMemory: true });
  onReady?.(prepared);
  const mergeBase = run.lora?.merge ? baseToMerge(prepared.base) : undefined;
  const settings = { signal, resume, force, started, onResume, onProgress, onCheckpoint };
  const result = await train({ ...(await trainOptions(prepared, options)), ...settings });
  return {
    ...result,
    merged: mergeBase === undefined ? null : await mergeAdapter(run, mergeBase, result.last, signal),
    counts: Object.fromEntries(prepared.streams.map(({ name, counts }) => [name, counts])),
    notes: prepared.notes,
    warnings: [...prepared.warnings, ...keptNotes(result.kept, options.say)],
  };
}

/** When the run of a folder began, so that its templates write the same date again; undefined if it kept no state. */
async function startOf(out: string): Promise<Date | undefined> {
  const { started } = (await findState(join(out, RUN_FILES.states))) ?? {};
  return started === undefined ? undefined : new Date(started);
}

export interface HandOverOptions
  extends Omit<RunOptions, "resume" | "force" | "onResume" | "onProgress" | "onCheckpoint"> {
  readonly cluster?: TrlCluster | undefined;
  /** Called with steps. */
  readonly onWritten?: ((done: number, of: number) => void) | undefined;
}

/**
 * Writes a run as a folder for TRL and PEFT, with the same sequences, rates and parts.
 * @throws RecipeError with every field that TRL cannot follow
 * @throws OutputError if the folder is not empty
 */
export async function handOverRun(options: HandOverOptions): Promise<TrlFolder> {
  const { run, signal, cluster, onReady, onWritten } = options;
  if (run.lora?.merge) {
    const message = "TRL does not support lora.merge. Merge its adapter afterwards, as FOLDER+ADAPTER.";
    throw RecipeError.at({ field: "lora.merge" }, message);
  }
  const prepared = await prepareRun(options);
  onReady?.(prepared);
  const tokenizer = await loadSourceTokenizer(prepared.source);
  return await writeTrlRun({
    folder: run.out,
    training: await trainOptions(prepared, options),
    pad: tokenizer.pad,
    cluster,
    signal,
    onProgress: ({ done, of }) => onWritten?.(done, of),
  });
}

async function trainOptions(prepared: PreparedRun, { run, folder, signal, onRead }: RunOptions): Promise<TrainOptions> {
  const { source, lora, streams, settings, mask } = prepared;
  const path = resolve(folder ?? ".", run.base);
  // A run that replaces an earlier one would remove what it is about to read.
  const first = mask?.opened.sources.get("models[0]");
  if (first) await requireOutside(run.out, [first.folder]);
  const revert = run.revert
    ? resolveSelection(run.revert, {
        tensors: source.tensors,
        layers: readSpec(source.config).layers.length,
        field: "revert",
      })
    : undefined;
  if (revert && lora)
    throw RecipeError.at({ field: "revert" }, "revert is for full fine-tuning. Leave layers out of train instead.");
  return {
    ...prepared,
    run,
    revert,
    masks: mask && (() => measureMasks(mask, signal)),
    // An absolute path if it is a folder, otherwise its name.
    baseName: (await exists(path)) ? path : run.base,
    out: run.out,
    streams: streams.map((stream) => ({ batches: batchSource(stream), trained: parametersOf(stream, lora) })),
    holdout: streams.flatMap(({ data }) => (data.heldOut ? [...inOrder(data.heldOut, run, settings)] : [])),
    stopIds: await modelTextOf(source).stopIds(),
    inputs: {
      data: Object.fromEntries(prepared.streams.map(({ name, data }) => [`data ${name}`, data.train.digest])),
      base: () => digestsOfBase(prepared, { signal, onRead }),
    },
  };
}

export interface PrepareOptions extends Omit<RunOptions, "resume" | "force"> {
  /** Whether to refuse what does not fit into memory, before data is read and weights are downloaded. Default: false. */
  readonly checkMemory?: boolean | undefined;
}

/**
 * Opens base and data, and settles what depends on them.
 * @throws LayergraftError code `memory`, with `checkMemory`
 */
export async function prepareRun(options: PrepareOptions): Promise<PreparedRun> {
  const { run, folder, dataFolder = folder, hub, signal, checkMemory = false, started = new Date() } = options;
  const open = (access: HubAccess | undefined) =>
    planRecipe({ method: "soup", models: [run.base] }, { ...(folder ? { folder } : {}), hub: access });
  let base = await open(checkMemory && hub ? { ...hub, fetch: "plan" } : hub);
  let source = await openModelSource(base);
  if (source.sources.size > 1) {
    const message = `base: ${run.base} is a recipe. Write it first: ${commandLine`merge ${run.base} --out FOLDER`}`;
    throw RecipeError.at({ field: "base" }, message);
  }
  const spec = readSpec(source.config, source.tensors.keys());
  const checkpoint = [...source.sources.values()][0];
  const model = { parameters: checkpoint ? parameterCount(checkpoint) : 0, contextLength: spec.contextLength };
  const { stored } = locateWeights(spec, source.tensors.keys(), source.name);
  const own = new Set(stored.values());
  const constants = weightsOf(spec).filter(({ isConstant }) => isConstant);
  const leftOut = run.method === "lora" ? leftOutOfLora(spec, source.config.modelType) : [];
  const fixed = new Set([...leftOut, ...constants].map(({ name }) => stored.get(name) ?? name));
  const notes = [...source.notes, ...(run.method === "lora" && checkpoint ? peftNotes(run.base, checkpoint) : [])];
  const select = (selection: string, field: string): ReadonlySet<string> => {
    const chosen = resolveSelection(selection, { tensors: source.tensors, layers: spec.layers.length, field });
    const inside = [...chosen].filter((name) => own.has(name));
    const known = new Set(inside.filter((name) => !fixed.has(name)));
    if (known.size === 0)
      throw RecipeError.at(
        { field },
        `${field}: ${selection} is outside of what ${run.method === "lora" ? "LoRA trains here" : "the decoder trains"}`,
      );
    if (inside.length < chosen.size)
      notes.push(`${chosen.size - inside.length} tensors of ${field} are outside the decoder and not trained`);
    if (known.size < inside.length) {
      const why = leftOut.length > 0 ? "PEFT has no factors for routers and out_proj of Mamba" : "they are constants";
      notes.push(`not trained: ${plural(inside.length - known.size, "tensor")} of ${field}, as ${why}`);
    }
    return known;
  };

  const { sequenceLength } = settleRun(run, model, { samples: 1, sequences: 1 });
  const whole = trainedSelection(run);
  const chosen = whole === undefined ? undefined : select(whole, "train");
  const loraOf = (part: ReadonlySet<string>) =>
    run.method === "lora" ? planLora(part, loraBase(source, spec, stored), run.lora ?? LORA_DEFAULTS) : undefined;
  const requireMemory = (part: ReadonlySet<string>, tokens: number) => {
    const { method, batch: texts, accumulation } = run;
    const use = { method, trained: part, lora: loraOf(part), heldOut: run.holdout !== undefined, accumulation };
    return checkMemory ? requireTrainingMemory(source, { ...use, texts, tokens }) : undefined;
  };
  // Without packing, a batch is as wide as its longest example, which may be far shorter.
  if (chosen) requireMemory(chosen, run.packing ? sequenceLength : 1);
  if (!isHere(source) && hub?.fetch === "files") {
    base = await open(hub);
    source = await openModelSource(base);
  }
  const tokenizer = await loadSourceTokenizer(source);
  const chatTemplate = withTime(await loadSourceTemplate(source), started);
  const endIds = await modelTextOf(source).declaredEndIds();
  const declared = run.partition
    ? run.partition.map(({ name, train: part, data }, i) => ({ name, data, part, field: `partition[${i}].train` }))
    : [{ name: "data", data: run.data, part: undefined, field: "train" }];
  const streams: PreparedStream[] = [];
  const warnings: string[] = [];
  for (const { name, data, part, field } of declared) {
    const prepared = await prepareData({
      data: data as DataInput,
      tokenizer,
      chatTemplate,
      sequenceLength,
      signal,
      seed: run.seed,
      loss: run.loss_on,
      folder: dataFolder,
      heldOut: run.holdout,
      endIds,
    });
    warnings.push(...prepared.counts.flatMap((set) => dataWarnings(set, { sequenceLength, tokenizer, endIds })));
    const openAt = (from?: BatchPosition) => streamOf(prepared, run, { sequenceLength, pad: tokenizer.pad, from });
    const trained = part === undefined ? undefined : select(part, field);
    const describe = (batch: Batch) => beginningsOf(batch, tokenizer);
    streams.push({ name, counts: prepared.counts, data: prepared, batches: openAt(), openAt, describe, trained });
    requireKnownTokens(prepared, tokenizer, spec.vocabularySize);
  }
  const trained = chosen ?? new Set(streams.flatMap((stream) => [...(stream.trained ?? [])]));
  const memory = requireMemory(trained, run.packing ? sequenceLength : longestExample(streams));
  const settings = settleRun(run, model, sizeOf(streams));
  const lora = loraOf(trained);
  const mask = run.mask && planMasks(await openChange(run.mask.from, options), trained, run.mask.share);
  const kept = checkpoint && (await keptBySample(run, checkpoint, trained, settings));
  const all = [...notes, ...settings.notes];
  return { base, source, settings, trained, lora, mask, streams, memory, kept, notes: all, warnings };
}

/** PEFT opens the base that an adapter names with transformers. */
function peftNotes(base: string, { files }: Checkpoint): string[] {
  if (!files.some(({ path }) => path.endsWith(".gguf"))) return [];
  const folder = commandLine`export ${base} --format hf --out FOLDER`;
  return [
    `PEFT does not open an adapter of a GGUF file. To use it there, write the base as a folder first, and train on that: ${folder}`,
  ];
}

/** The change of a first run. @throws RecipeError if it is not of the same architecture as the base */
async function openChange(from: string, { run, folder, hub }: PrepareOptions): Promise<OpenedPlan> {
  const recipe = { method: "task_arithmetic", models: [from], base: run.base, dtype: "float32" } as const;
  return await planRecipe(recipe, { ...(folder ? { folder } : {}), hub });
}

/** A tokenizer may have more tokens than its model, if the data has none of them. */
function requireKnownTokens({ train, heldOut }: PreparedData, tokenizer: Tokenizer, size: number): void {
  if (tokenizer.vocabularySize <= size) return;
  for (const list of heldOut ? [train, heldOut] : [train]) {
    for (const { name, examples } of list.sets) {
      for (const { ids } of examples) {
        const unknown = ids.find((id) => id >= size);
        if (unknown === undefined) continue;
        throw new CheckpointError(
          `${name} has the token ${unknown} (${JSON.stringify(tokenizer.tokenOf(unknown) ?? "")}), but the model has embeddings for 0 to ${size - 1}. Use the tokenizer of the model, or a base whose vocabulary was extended.`,
          { field: "data", expected: `below ${size}`, actual: String(unknown) },
        );
      }
    }
  }
}

function streamOf(
  { train: examples, repeat }: PreparedData,
  { batch, packing, seed }: Run,
  options: Pick<BatchOptions, "sequenceLength" | "pad" | "from">,
): BatchStream {
  // Bucketing only saves time, as padding is neither attended to nor learned.
  return new BatchStream({ examples, repeat, batch, packing, seed, bucketing: !packing, ...options });
}

function inOrder(examples: ExampleList, run: Run, { sequenceLength }: RunSettings): BatchStream {
  const { batch, seed } = run;
  return new BatchStream({ examples, sequenceLength, batch, seed, shuffle: false, bucketing: true, passes: 1 });
}

/** Tokens of the longest example. */
function longestExample(streams: readonly PreparedStream[]): number {
  const examples = streams.flatMap(({ data }) => data.train.sets.map((set) => set.examples));
  return longestOf(
    examples.flatMap((list) => list.map(({ ids }) => ids)),
    1,
  );
}

/** One pass over the longest stream, and as much of the others. */
function sizeOf(streams: readonly PreparedStream[]): RunData {
  const longest = (sizeOf: (batches: BatchStream) => number) =>
    streams.length * Math.max(...streams.map(({ batches }) => sizeOf(batches)));
  return {
    samples: longest(({ mixture }) => mixture.size),
    sequences: longest((batches) => batches.sequencesPerPass()),
  };
}

function batchSource({ name, openAt, describe }: PreparedStream): BatchSource {
  let stream = openAt();
  let count = 0;
  return {
    name,
    next: () => {
      const batch = stream.next() as Batch; // endless, as no passes were given
      const number = ++count;
      return {
        ...batch,
        samples: batch.examples,
        get name() {
          return `batch ${number} of ${name} (${describe(batch)})`;
        },
      } satisfies TrainingBatch;
    },
    position: () => ({ ...stream.position, waiting: [...stream.position.waiting], count }),
    seek: (position) => {
      const { count: before, ...at } = position as unknown as BatchPosition & { readonly count: number };
      stream = openAt(at);
      count = before;
    },
  };
}

const SHOWN_TOKENS = 40;
const SHOWN_CHARACTERS = 70;

/** How the sequences of a batch begin, so that people find them in their data. */
function beginningsOf({ rows, time, ids, segments }: Batch, tokenizer: Tokenizer): string {
  const begins = Array.from({ length: rows }, (_, row) => {
    const place = Array.from({ length: Math.min(SHOWN_TOKENS, time) }, (_, i) => row * time + i);
    const text = tokenizer.decode(
      place.filter((at) => segments[at] !== 0).map((at) => ids[at] ?? 0),
      { skipSpecialTokens: true },
    );
    return JSON.stringify(text.slice(0, SHOWN_CHARACTERS));
  });
  return formatSome(begins, 2);
}

/** Names of the parameters that a stream updates: its tensors, or their factors. */
function parametersOf({ trained }: PreparedStream, lora: LoraPlan | undefined): ReadonlySet<string> | undefined {
  if (!trained || !lora) return trained;
  return new Set(
    lora.modules
      .filter(({ tensors }) => tensors.some((tensor) => trained.has(tensor)))
      .flatMap((module) => Object.values(factorNames(module))),
  );
}

/** Digests of the weights of the base and of what a mask is measured from: fine-tuned models of one base have the same headers. */
async function digestsOfBase(
  { base, mask }: PreparedRun,
  { signal, onRead }: Pick<RunOptions, "signal" | "onRead">,
): Promise<Record<string, string>> {
  const first = mask?.opened.sources.get("models[0]") ?? [];
  const read = { base: [...base.sources.values()], mask: [first].flat() };
  const all = Object.entries(read).flatMap(([role, list]) => list.map((one) => [role, one] as const));
  const total = all.flatMap(([, { files }]) => files).reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  const report = (bytes: number) => {
    done += bytes;
    onRead?.({ phase: "reading the base", done, total, unit: "bytes" });
  };
  const sources = await Promise.all(
    all.map(async ([role, { name, files }]) => {
      const digests = await Promise.all(files.map(({ path }) => digestOfFile(path, { signal, onRead: report })));
      return [`${role} ${name}`, digests.join(" ")];
    }),
  );
  return Object.fromEntries(sources) as Record<string, string>;
}

/** The folder that factors are merged into. @throws RecipeError if it has an adapter of its own */
function baseToMerge({ sources }: OpenedPlan): string {
  const [checkpoint] = sources.values();
  if (checkpoint && !checkpoint.adapter) return checkpoint.folder;
  const message = "lora.merge needs a base without an adapter. Merge the adapter of the base first.";
  throw RecipeError.at({ field: "lora.merge" }, message);
}

async function mergeAdapter(run: Run, base: string, adapter: string, signal?: AbortSignal): Promise<string> {
  const out = join(run.out, RUN_FILES.merged);
  const opened = await planRecipe({ method: "soup", models: [`${base}+${resolve(adapter)}`], dtype: run.save_dtype });
  await executePlan(opened, { out, force: true, ...(signal ? { signal } : {}) });
  return out;
}
