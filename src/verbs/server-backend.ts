// A server that runs the evaluated model: one that listens already, or one that a command starts.

import { mkdir, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import {
  openOpenAI,
  openServed,
  plainAddress,
  readTexts,
  SERVER_LOG,
  type ServerOptions,
  type startServer,
} from "../evaluate/index.js";
import { openCheckpoint } from "../formats/checkpoint/index.js";
import { exists } from "../kit/files/index.js";
import { CancelledError, usageError } from "../kit/index.js";
import type { OpenedBackend } from "./evaluate-run.js";

/** Options of `openServer`. */
export interface OpenServerOptions
  extends Omit<ServerOptions, "url" | "served" | "tokenizer" | "renderChat" | "digest"> {
  /** Folder with the model's tokenizer. Default: the source, if it is a folder. */
  readonly tokenizer?: string | undefined;
  /** Folder for the output of a server that is started. Default: a temporary one. */
  readonly out?: string | undefined;
  /** Seconds to wait for it to start. */
  readonly startTimeout?: number | undefined;
  /** Called with the file of its output before it is started. */
  readonly onStart?: ((log: string) => void) | undefined;
  /** Called while it starts. */
  readonly onWait?: Parameters<typeof startServer>[0]["onProgress"];
}

/** Opens the server at a URL. @param source the server's name for the model, or the model's folder */
export async function openServer(url: string, source: string, options: OpenServerOptions): Promise<OpenedBackend> {
  const { isFolder, settings } = await settingsOf(source, options);
  const backend = await openOpenAI({ ...settings, url, model: options.model ?? (isFolder ? undefined : source) });
  return { backend, name: source, url: plainAddress(new URL(url)), close: () => backend.close() };
}

/** Starts the user's server, and ends it with the evaluation. @param command with `{model}` and `{port}` */
export async function openStarted(command: string, source: string, options: OpenServerOptions): Promise<OpenedBackend> {
  const { isFolder, settings } = await settingsOf(source, options);
  const { out, apiKey, signal, startTimeout: timeout, onStart, onWait: onProgress } = options;
  const temporary = out === undefined ? await mkdtemp(join(tmpdir(), "layergraft-eval-")) : undefined;
  const removeTemporary = async () => {
    if (temporary !== undefined) await rm(temporary, { recursive: true, force: true });
  };
  const logFolder = out ?? temporary ?? "";
  await mkdir(logFolder, { recursive: true });
  const log = join(logFolder, SERVER_LOG);
  onStart?.(log);
  const model = isFolder ? resolve(source) : source;
  const { backend, url } = await openServed(
    { command, model, log, apiKey, timeout, signal, onProgress },
    { ...settings, model: options.model, digest: isFolder ? (await openCheckpoint(source)).digest : undefined },
  ).catch(async (error: unknown) => {
    // Other errors name the log, so it is kept.
    if (error instanceof CancelledError) await removeTemporary();
    throw error;
  });
  return { backend, name: source, url, close: () => backend.close().finally(removeTemporary) };
}

async function settingsOf(source: string, options: OpenServerOptions) {
  const { concurrency, timeout, retries, apiKey, signal, templateVariables } = options;
  const isFolder = (await exists(source)) && (await stat(source)).isDirectory();
  const texts = await readTexts(options.tokenizer ?? (isFolder ? source : undefined), templateVariables);
  if (options.tokenizer !== undefined && !texts.tokenizer) {
    throw usageError(`${options.tokenizer} has no tokenizer.json`, { file: options.tokenizer });
  }
  return { isFolder, settings: { concurrency, timeout, retries, apiKey, signal, ...texts } };
}
