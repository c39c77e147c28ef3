import { mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { CancelledError, exists, formatDuration, usageError } from "../../core/index.js";
import { loadChatTemplate, loadTokenizer } from "../../engine/index.js";
import {
  type Backend,
  modelBackend,
  openOpenAI,
  plainAddress,
  rendererOf,
  SERVER_LOG,
  type ServerOptions,
  startServer,
  withoutLogin,
} from "../../evaluate/index.js";
import { openCheckpoint } from "../../weights/index.js";
import type { EngineOptions } from "./engine-run.js";
import { openModel } from "./open-model.js";
import { readKey, runWithProgress } from "./output.js";

export interface BackendFlags extends Omit<EngineOptions, "backend"> {
  readonly backend?: string;
  readonly model?: string;
  readonly tokenizer?: string;
  readonly batch?: number;
  readonly concurrency?: number;
  readonly timeout?: number;
  readonly retries?: number;
  readonly startTimeout?: number;
  readonly apiKeyEnv?: string;
  readonly out?: string;
}

export interface OpenedBackend {
  readonly backend: Backend;
  /** Address of the server, where there is one. */
  readonly url: string | undefined;
  close(): Promise<void>;
}

export const BACKEND_HELP =
  "engine, llama (llama.cpp), openai:URL (vLLM, SGLang and others), or serve:'COMMAND {model} {port}', which starts and stops your " +
  "own server";

/**
 * Opens the backend that runs the model.
 * @param note receives messages while it opens
 * @throws LayergraftError when the specification is wrong, or the backend cannot be opened
 */
export async function openBackend(
  source: string,
  flags: BackendFlags,
  signal: AbortSignal,
  note: (text: string) => void,
): Promise<OpenedBackend> {
  const chosen = flags.backend;
  if (chosen === undefined || chosen === "engine" || chosen === "llama") {
    const { backend: _, ...own } = flags;
    return openOwn(source, chosen === undefined ? own : { ...own, backend: chosen }, signal, note);
  }
  const kind = /^[a-z]+/.exec(chosen)?.[0] ?? "";
  const rest = chosen.slice(kind.length + 1);
  if (!["openai", "serve"].includes(kind) || rest === "") {
    throw usageError(`unknown --backend "${withoutLogin(chosen)}"; use ${BACKEND_HELP}`);
  }
  const isFolder = await isDirectory(source);
  const folder = flags.tokenizer ?? (isFolder ? source : undefined);
  const options = { ...(await serverOptions(flags, folder)), signal };
  if (kind === "serve") return openServed(rest, source, isFolder, options, flags, signal, note);
  const backend = await openOpenAI({ ...options, url: rest, model: flags.model ?? (isFolder ? undefined : source) });
  return { backend, url: plainAddress(new URL(rest)), close: () => backend.close() };
}

async function openOwn(
  source: string,
  flags: EngineOptions & Pick<BackendFlags, "batch">,
  signal: AbortSignal,
  note: (text: string) => void,
): Promise<OpenedBackend> {
  const { engine, facts } = await runWithProgress(flags, ({ onProgress }) =>
    openModel(source, flags, { signal, onProgress }),
  );
  note(`${engine.name}: ${facts.join(", ")}`);
  for (const text of engine.notes) note(`note: ${text}`);
  const backend = await modelBackend(engine, { batch: flags.batch });
  return { backend, url: undefined, close: () => backend.close() };
}

/** Starts the user's server, opens it, and stops it when the backend is closed, or cannot be opened. */
async function openServed(
  command: string,
  source: string,
  isFolder: boolean,
  options: Omit<ServerOptions, "url">,
  flags: BackendFlags,
  signal: AbortSignal,
  note: (text: string) => void,
): Promise<OpenedBackend> {
  const model = isFolder ? resolve(source) : source;
  const digest = isFolder ? (await openCheckpoint(source)).digest : undefined;
  const temporary = flags.out === undefined ? await mkdtemp(join(tmpdir(), "layergraft-eval-")) : undefined;
  const logFolder = flags.out ?? temporary ?? "";
  await mkdir(logFolder, { recursive: true });
  const log = join(logFolder, SERVER_LOG);
  const removeTemporary = async () => {
    if (temporary !== undefined) await rm(temporary, { recursive: true, force: true });
  };
  note(`starting the server; its output goes to ${log}`);
  let notedAt = 0;
  const server = await startServer({
    command,
    model,
    log,
    apiKey: options.apiKey,
    timeout: flags.startTimeout,
    signal,
    onProgress: ({ seconds, lastLine }) => {
      if (seconds - notedAt < 10) return;
      notedAt = seconds;
      note(`waiting for the server, ${formatDuration(seconds)} so far${lastLine ? `: ${lastLine.slice(0, 120)}` : ""}`);
    },
  }).catch(async (error: unknown) => {
    // Other errors name the log, so it is kept.
    if (error instanceof CancelledError) await removeTemporary();
    throw error;
  });
  const stop = async () => {
    await server.stop();
    await removeTemporary();
  };
  try {
    const backend = await openOpenAI({ ...options, url: server.url, served: flags.model ?? model, digest });
    return {
      backend,
      url: server.url,
      close: async () => {
        await backend.close();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function serverOptions(flags: BackendFlags, folder: string | undefined): Promise<Omit<ServerOptions, "url">> {
  const hasTokenizer = folder !== undefined && (await exists(join(folder, "tokenizer.json")));
  if (flags.tokenizer !== undefined && !hasTokenizer) {
    throw usageError(`--tokenizer ${flags.tokenizer} has no tokenizer.json`);
  }
  const template = hasTokenizer ? await loadChatTemplate(folder) : undefined;
  return {
    concurrency: flags.concurrency,
    timeout: flags.timeout,
    retries: flags.retries,
    apiKey: readKey(flags.apiKeyEnv),
    tokenizer: hasTokenizer ? await loadTokenizer(folder) : undefined,
    renderChat: rendererOf(template),
  };
}

async function isDirectory(path: string): Promise<boolean> {
  return (await exists(path)) && (await stat(path)).isDirectory();
}
