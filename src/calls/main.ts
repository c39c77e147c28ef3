// Carries out one verb for a program in another language: a request as a line of JSON on stdin, events as lines of JSON on stdout.
import { createInterface } from "node:readline";
import { z } from "zod";
import { loadVerb } from "../experiment/verbs/index.js";
import { CancelledError, LayergraftError, MAX_THREADS, type Progress, usageError } from "../kit/index.js";
import { checkSchema, checkSettings } from "../kit/settings/index.js";
import { END_SIGNALS } from "../kit/stopping/index.js";
import { callVerb } from "../verbs/shared/index.js";

/** A request; fields of the input and the options are those of the library. */
interface Request {
  readonly verb: string;
  readonly input: unknown;
  readonly options: Readonly<Record<string, unknown>>;
  /** Whether to report progress. */
  readonly progress: boolean;
  /** Whether to send parts of a text as they are made, by verbs that stream. Default: false. */
  readonly parts?: boolean;
}

/** Options of verbs, whose types another language does not check. */
const optionsSchema = z
  .strictObject({
    folder: z.string().min(1),
    threads: z.int().min(1).max(MAX_THREADS),
    memory: z.number().positive(),
    force: z.boolean(),
    resume: z.boolean(),
  })
  .partial();

/** Milliseconds between reports of progress, so that a caller is not busy with them. */
const PAUSE = 50;

const stop = new AbortController();
for (const name of END_SIGNALS) process.on(name, () => stop.abort());
// A caller that is gone reads no result.
process.stdout.on("error", () => stop.abort());

const lines = createInterface({ input: process.stdin });
lines.once("line", (line) => void answer(line));
// The caller keeps its end open while it waits.
lines.once("close", () => stop.abort());

async function answer(line: string): Promise<void> {
  try {
    const { verb: name, input, options, progress, parts } = JSON.parse(line) as Request;
    const verb = await loadVerb(name);
    let last = 0;
    const onProgress = (event: Progress) => {
      const now = performance.now();
      if (now - last < PAUSE && event.done < event.total) return;
      last = now;
      write({ progress: event });
    };
    const onNote = (note: string) => write({ note });
    if (parts && !verb.streams) throw usageError(`${name} has no parts to stream.`);
    const onPart = (part: string, prompt: number) => write({ part, prompt });
    const check = (value: unknown) => checkSchema(optionsSchema, value);
    const controls = {
      ...checkSettings(options ?? {}, { kind: `set of options of ${name}`, check }),
      signal: stop.signal,
      onNote,
      ...(progress ? { onProgress } : {}),
      ...(parts ? { onPart } : {}),
    };
    write({ result: await callVerb(verb, input, controls) });
  } catch (error) {
    write({ error: described(stop.signal.aborted ? new CancelledError("Stopped before the end.") : error) });
    process.exitCode = 1;
  } finally {
    lines.close();
    process.stdin.destroy();
  }
}

function write(event: object): void {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}

function described(error: unknown): object {
  if (error instanceof LayergraftError) {
    const { name, code, message, where } = error;
    return { name, code, message, where };
  }
  return { name: "LayergraftError", code: "internal", message: error instanceof Error ? error.message : String(error) };
}
