// Who answers in an evaluation step: our engine, on a model or on a recipe that is not executed, or a server of the
// user's that is started for the step, on a folder.

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { canonicalJson, digestOfValue, elementCount, exists } from "../../core/index.js";
import { loadChatTemplate, loadTokenizer, openEngine } from "../../engine/index.js";
import { type Backend, modelBackend, openOpenAI, rendererOf, startServer } from "../../evaluate/index.js";
import { executePlan, planRecipe, type RecipeInput } from "../../merge/index.js";
import { openCheckpoint, parameterCount } from "../../weights/index.js";
import type { StepInputs } from "./inputs.js";
import type { ModelSource } from "./step.js";

export interface AnswerOptions {
  /** `engine`, or `serve:COMMAND`. */
  readonly backend: string;
  /** The step's folder, for what a server needs and says. */
  readonly folder: string;
  readonly threads?: number | undefined;
  /** The models' files as the step found them; undefined: they are not watched. */
  readonly inputs?: StepInputs | undefined;
  /** The source with identities for folders: what answers are kept by, wherever the models are. */
  readonly identity?: ModelSource | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface OpenedAnswerer {
  readonly backend: Backend;
  /** Seconds until it could answer, and those of them that merging took; 0 of one that was open already. */
  readonly openSeconds: number;
  readonly mergeSeconds: number;
  /** Bytes of its weights in memory; of a server, which holds its own, infinite, so that no other is beside it. */
  readonly bytes: number;
}

/** What stays open beside the model that answers: enough for many small ones, too little for two that fill a machine. */
const MOST_OPEN_BYTES = 1e9;

/**
 * Models that stay open between steps, because one model is asked in several: opening it, and merging it, are then done
 * once. The least recently used are closed first.
 */
export class AnswererPool {
  readonly #open = new Map<string, OpenedAnswerer>();

  /** The answerer of a source; the pool closes it. */
  async get(source: ModelSource, options: AnswerOptions): Promise<OpenedAnswerer> {
    // A model whose files were written to is another one, which the open one may hold half of.
    const key = canonicalJson([source, options.backend, options.threads, options.inputs?.stamps]);
    const known = this.#open.get(key);
    this.#open.delete(key);
    if (!known && !options.backend.startsWith("engine")) await this.close();
    const opened = known ? { ...known, openSeconds: 0, mergeSeconds: 0 } : await openAnswerer(source, options);
    this.#open.set(key, opened);
    let bytes = 0;
    for (const [other, one] of [...this.#open].reverse()) {
      bytes += one.bytes;
      if (other === key || bytes <= MOST_OPEN_BYTES) continue;
      this.#open.delete(other);
      await one.backend.close();
    }
    return opened;
  }

  async close(): Promise<void> {
    const opened = [...this.#open.values()];
    this.#open.clear();
    for (const { backend } of opened) await backend.close();
  }
}

/**
 * Opens what answers.
 * @param source a folder, FOLDER+ADAPTER, or a recipe of such
 */
async function openAnswerer(source: ModelSource, options: AnswerOptions): Promise<OpenedAnswerer> {
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  const { backend, signal } = options;
  if (backend === "engine") {
    const opened = await openOwn(source, options);
    return { ...opened, openSeconds: seconds() };
  }
  const model = await asFolder(source, options);
  const mergeSeconds = typeof source === "string" ? 0 : seconds();
  const server = await startServer({
    command: backend.slice("serve:".length),
    model,
    log: join(options.folder, "server.log"),
    ...(signal ? { signal } : {}),
  });
  try {
    const hasTokenizer = await exists(join(model, "tokenizer.json"));
    const opened = await openOpenAI({
      ...{ url: server.url, served: model, signal },
      ...(hasTokenizer ? { tokenizer: await loadTokenizer(model) } : {}),
      renderChat: rendererOf(await loadChatTemplate(model)),
    });
    const close = async () => {
      await opened.close();
      await server.stop();
      if (model !== source) await rm(model, { recursive: true, force: true });
    };
    return { backend: closedBy(opened, close), openSeconds: seconds(), mergeSeconds, bytes: Number.POSITIVE_INFINITY };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Bytes of a weight once it is bound. */
const FLOAT32 = 4;

async function openOwn(source: ModelSource, options: AnswerOptions): Promise<Omit<OpenedAnswerer, "openSeconds">> {
  const { threads, identity, signal } = options;
  const began = performance.now();
  const plan = typeof source === "string" ? undefined : await planRecipe(source as RecipeInput);
  const planSeconds = plan ? (performance.now() - began) / 1000 : 0;
  let mergeSeconds = planSeconds;
  let blending = 0;
  const engine = await openEngine(plan ?? (source as string), {
    ...(threads === undefined ? {} : { threads }),
    ...(signal ? { signal } : {}),
    // Planning, and computing what is blended; any model's graph is built in between.
    onProgress: (done) => {
      if (done === 0) blending = performance.now();
      mergeSeconds = planSeconds + (performance.now() - blending) / 1000;
    },
  });
  try {
    // Neither names nor times of files where the bytes are known: answers stay valid after a move.
    const known = identity === undefined ? {} : { model: "model", digest: digestOfValue(identity) };
    const backend = await modelBackend(engine, known);
    const elements = plan
      ? plan.plan.steps.reduce((sum, { shape }) => sum + elementCount(shape), 0)
      : parameterCount(await openCheckpoint(source as string));
    return { backend, mergeSeconds, bytes: FLOAT32 * elements };
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/** The backend, closed in another way. */
function closedBy(backend: Backend, close: () => Promise<void>): Backend {
  return new Proxy(backend, {
    get: (target, name) => {
      if (name === "close") return close;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** The folder of a model that a server can open; a merge is written into the step's own folder. */
async function asFolder(source: ModelSource, options: AnswerOptions): Promise<string> {
  const isPlain = typeof source === "string" && !source.includes("+");
  if (isPlain) return source;
  const { folder, threads, signal } = options;
  const recipe = typeof source === "string" ? { method: "soup", models: [source] } : source;
  const out = join(folder, "model");
  await executePlan(await planRecipe(recipe as RecipeInput), {
    ...{ out, force: true },
    ...(threads === undefined ? {} : { threads }),
    ...(signal ? { signal } : {}),
  });
  return out;
}
