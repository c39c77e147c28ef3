import { rm } from "node:fs/promises";
import { join } from "node:path";
import { openEngine } from "../../engine/index.js";
import { type Backend, modelBackend, openServed, readTexts } from "../../evaluate/index.js";
import type { FileType } from "../../export/index.js";
import { openLlama } from "../../export/llama/index.js";
import { openCheckpoint, parameterCount } from "../../formats/checkpoint/index.js";
import { canonicalJson, digestOfValue } from "../../kit/files/index.js";
import { DiskFullError, elementCount, OutputError } from "../../kit/index.js";
import { planRecipe, type RecipeInput } from "../../merge/index.js";
import { type MergeOptions, merge } from "../../verbs/index.js";
import { LLAMA, type ModelSource, WRITTEN_MODEL } from "./step.js";

export interface OpenModelOptions {
  /** `engine`, `llama`, or `serve:COMMAND`. */
  readonly backend: string;
  /** llama.cpp: encoding of the weights. */
  readonly type?: FileType | undefined;
  readonly templateVariables?: Readonly<Record<string, unknown>> | undefined;
  /** The step's folder, for a server's log and merged model. */
  readonly folder: string;
  readonly threads?: number | undefined;
  /** The source with identities in place of folders, so that saved answers stay valid when a model moves. */
  readonly identity?: ModelSource | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((what: string) => void) | undefined;
  /** Called with what a person should know of the model. Not of a model that is open already. */
  readonly onNote?: ((note: string) => void) | undefined;
}

export interface OpenedModel {
  readonly backend: Backend;
  /** Seconds until it was ready; 0 if it was open already. */
  readonly openSeconds: number;
  /** Seconds of merging, which are part of `openSeconds`. */
  readonly mergeSeconds: number;
}

/** A model that is open, but for the time that took. */
type Opened = Omit<PooledModel, "openSeconds">;

interface PooledModel extends OpenedModel {
  /** Bytes of its weights in memory. A server shares the machine with no other model, so its are infinite. */
  readonly bytes: number;
  close(): Promise<void>;
}

/** Memory of open models that are not in use: many small ones, but not a second large one. */
const MAX_OPEN_BYTES = 1e9;

/** Keeps models open between steps, as most are evaluated in several. Closes the least recently used first. */
export class ModelPool {
  readonly #open = new Map<string, PooledModel>();

  /**
   * Opens a model, which the pool closes.
   * @param source a folder, FOLDER+ADAPTER, or a recipe of such
   */
  async get(source: ModelSource, options: OpenModelOptions): Promise<OpenedModel> {
    const { backend, type, templateVariables, threads } = options;
    const key = canonicalJson([source, backend, type, templateVariables, threads]);
    const known = this.#open.get(key);
    this.#open.delete(key);
    if (!known && isServer(options)) await this.close();
    const opened = known ? { ...known, openSeconds: 0, mergeSeconds: 0 } : await openModel(source, options);
    this.#open.set(key, opened);
    let bytes = 0;
    for (const [other, one] of [...this.#open].reverse()) {
      bytes += one.bytes;
      if (other === key || bytes <= MAX_OPEN_BYTES) continue;
      this.#open.delete(other);
      await one.close();
    }
    return opened;
  }

  async close(): Promise<void> {
    const opened = [...this.#open.values()];
    this.#open.clear();
    for (const model of opened) await model.close();
  }
}

async function openModel(source: ModelSource, options: OpenModelOptions): Promise<PooledModel> {
  const began = performance.now();
  const opened = await (isServer(options) ? openBehindServer : openHere)(source, options);
  return { ...opened, openSeconds: (performance.now() - began) / 1000 };
}

function isServer({ backend }: OpenModelOptions): boolean {
  return backend.startsWith("serve:");
}

/** Bytes of a weight in the engine, and at most in llama.cpp. */
const FLOAT32 = 4;

async function openHere(source: ModelSource, options: OpenModelOptions): Promise<Opened> {
  const { backend: chosen, type, threads, identity, templateVariables, signal, onProgress, onNote } = options;
  const began = performance.now();
  const plan = typeof source === "string" ? undefined : await planRecipe(source as RecipeInput);
  const planSeconds = plan ? (performance.now() - began) / 1000 : 0;
  let mergeSeconds = planSeconds;
  let mergeBegan = 0;
  // Between planning and computing merged weights, the engine builds the model's graph.
  const merging = (done: number) => {
    if (done === 0) mergeBegan = performance.now();
    if (plan) mergeSeconds = planSeconds + (performance.now() - mergeBegan) / 1000;
  };
  const inLlama = () =>
    openLlama(plan ?? (source as string), {
      type,
      threads,
      signal,
      onProgress: ({ phase, done, total }) => {
        const isLoading = phase === "loading";
        if (!isLoading) merging(done);
        onProgress?.(`${isLoading ? "loading" : `exporting ${type}`}, ${Math.round((100 * done) / total)}%`);
      },
    });
  const inEngine = () =>
    openEngine(plan ?? (source as string), {
      ...(threads === undefined ? {} : { threads }),
      ...(signal ? { signal } : {}),
      onProgress: ({ done }) => merging(done),
    });
  const engine = await (chosen === LLAMA ? inLlama() : inEngine());
  try {
    for (const note of engine.notes) onNote?.(note);
    const known = identity === undefined ? {} : { model: "model", digest: digestOfValue(identity) };
    const backend = await modelBackend(engine, { ...known, templateVariables });
    const elements = plan
      ? plan.plan.steps.reduce((sum, { shape }) => sum + elementCount(shape), 0)
      : parameterCount(await openCheckpoint(source as string));
    return { backend, mergeSeconds, bytes: FLOAT32 * elements, close: () => backend.close() };
  } catch (error) {
    await engine.close();
    throw error;
  }
}

async function openBehindServer(source: ModelSource, options: OpenModelOptions): Promise<Opened> {
  const { backend, folder, threads, templateVariables, signal, onNote } = options;
  const began = performance.now();
  const isFolder = typeof source === "string" && !source.includes("+");
  // A merge, or a model with an adapter, is written into the step's folder.
  const model = isFolder
    ? source
    : await writeModel(source, { out: join(folder, WRITTEN_MODEL), threads, signal, onNote });
  const mergeSeconds = typeof source === "string" ? 0 : (performance.now() - began) / 1000;
  const command = backend.slice("serve:".length);
  const log = join(folder, "server.log");
  const { backend: opened } = await openServed(
    { command, model, log, signal },
    await readTexts(model, templateVariables),
  );
  const close = async () => {
    await opened.close();
    if (model !== source) await rm(model, { recursive: true, force: true });
  };
  return { backend: opened, mergeSeconds, bytes: Number.POSITIVE_INFINITY, close };
}

export interface WriteModelOptions extends Pick<MergeOptions, "threads" | "signal" | "onProgress"> {
  readonly out: string;
  /** Whether to resume an interrupted attempt with the same inputs. Default: start over. */
  readonly resume?: boolean;
  /** Called with what a person should know of the merge. */
  readonly onNote?: ((note: string) => void) | undefined;
}

/**
 * Writes a merge, or a model with its adapter, as a whole model. It appears when it is complete.
 * @param source a folder, FOLDER+ADAPTER, or a recipe of such
 * @returns its folder
 */
export async function writeModel(source: ModelSource, { out, resume = false, onNote, ...how }: WriteModelOptions) {
  const recipe = typeof source === "string" ? { method: "soup", models: [source] } : source;
  // Whatever form the recipe would write, servers and training open whole models. The check of the experiment's plan has asked
  // whether its models are related.
  const options = { ...how, out, resume, force: true, as: "model", allowUnrelated: true } as const;
  const write = async () => {
    const { notes, warnings } = await merge(recipe as RecipeInput, options);
    for (const note of [...notes, ...warnings]) onNote?.(note);
  };
  try {
    await write();
  } catch (error) {
    if (!resume || !(error instanceof OutputError) || error instanceof DiskFullError) throw error;
    // The interrupted attempt was another version's, or models have moved.
    await rm(`${out}.partial`, { recursive: true, force: true });
    await write();
  }
  return out;
}
