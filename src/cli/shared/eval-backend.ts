import { mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  type Backend,
  modelBackend,
  openOpenAI,
  openServed,
  plainAddress,
  readTexts,
  SERVER_LOG,
  type ServerOptions,
  withoutLogin,
} from "../../evaluate/index.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { exists } from "../../kit/files/index.js";
import { CancelledError, usageError } from "../../kit/index.js";
import { formatDuration } from "../../kit/printing/index.js";
import type { EngineOptions, TemplateFlags } from "./engine-run.js";
import { openModel } from "./open-model.js";
import { readKey, runWithProgress } from "./output.js";

export interface BackendFlags extends Omit<EngineOptions, "backend">, TemplateFlags {
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
  if (kind === "serve") return openServer(rest, source, options, flags, note);
  const backend = await openOpenAI({ ...options, url: rest, model: flags.model ?? (isFolder ? undefined : source) });
  return { backend, url: plainAddress(new URL(rest)), close: () => backend.close() };
}

async function openOwn(
  source: string,
  flags: EngineOptions & Pick<BackendFlags, "batch" | "chatTemplateKwargs">,
  signal: AbortSignal,
  note: (text: string) => void,
): Promise<OpenedBackend> {
  const { engine, facts } = await runWithProgress(flags, ({ onProgress }) =>
    openModel(source, flags, { signal, onProgress }),
  );
  note(`${engine.name}: ${facts.join(", ")}`);
  for (const text of engine.notes) note(`note: ${text}`);
  const backend = await modelBackend(engine, { batch: flags.batch, templateVariables: flags.chatTemplateKwargs });
  return { backend, url: undefined, close: () => backend.close() };
}

/** Starts the user's server. */
async function openServer(
  command: string,
  source: string,
  options: Omit<ServerOptions, "url">,
  flags: BackendFlags,
  note: (text: string) => void,
): Promise<OpenedBackend> {
  const isFolder = await isDirectory(source);
  const temporary = flags.out === undefined ? await mkdtemp(join(tmpdir(), "layergraft-eval-")) : undefined;
  const removeTemporary = async () => {
    if (temporary !== undefined) await rm(temporary, { recursive: true, force: true });
  };
  const logFolder = flags.out ?? temporary ?? "";
  await mkdir(logFolder, { recursive: true });
  const log = join(logFolder, SERVER_LOG);
  note(`starting the server; its output goes to ${log}`);
  let notedAt = 0;
  const { backend, url } = await openServed(
    {
      command,
      model: isFolder ? resolve(source) : source,
      log,
      apiKey: options.apiKey,
      timeout: flags.startTimeout,
      signal: options.signal,
      onProgress: ({ seconds, lastLine }) => {
        if (seconds - notedAt < 10) return;
        notedAt = seconds;
        const said = lastLine ? `: ${lastLine.slice(0, 120)}` : "";
        note(`waiting for the server, ${formatDuration(seconds)} so far${said}`);
      },
    },
    { ...options, model: flags.model, digest: isFolder ? (await openCheckpoint(source)).digest : undefined },
  ).catch(async (error: unknown) => {
    // Other errors name the log, so it is kept.
    if (error instanceof CancelledError) await removeTemporary();
    throw error;
  });
  return { backend, url, close: () => backend.close().finally(removeTemporary) };
}

async function serverOptions(flags: BackendFlags, folder: string | undefined): Promise<Omit<ServerOptions, "url">> {
  const { concurrency, timeout, retries, apiKeyEnv } = flags;
  const texts = await readTexts(folder, flags.chatTemplateKwargs);
  if (flags.tokenizer !== undefined && !texts.tokenizer) {
    throw usageError(`--tokenizer ${flags.tokenizer} has no tokenizer.json`);
  }
  return { concurrency, timeout, retries, apiKey: readKey(apiKeyEnv), ...texts };
}

async function isDirectory(path: string): Promise<boolean> {
  return (await exists(path)) && (await stat(path)).isDirectory();
}
