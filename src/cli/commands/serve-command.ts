import { once } from "node:events";
import { basename } from "node:path";
import type { Command } from "commander";
import { z } from "zod";
import { parseHubName } from "../../formats/checkpoint/index.js";
import { exists } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";
import { formatSome, plural, shorten, visible } from "../../kit/printing/index.js";
import { type Model, type ServedRequest, serve } from "../../verbs/index.js";
import { backendFields, factsOf, MODEL_FLAGS, SOURCE, samplingFields } from "../../verbs/shared/index.js";
import { hubAccess } from "../shared/hub-access.js";
import {
  type CommonOptions,
  elapsed,
  info,
  interruptSignal,
  parseCount,
  parsePort,
  parsePositive,
  print,
  readKey,
  runWithProgress,
} from "../shared/output.js";
import { withFields } from "../shared/verb-flags.js";
import { fieldsIn } from "../shared/verb-input.js";

const { generationConfig } = samplingFields(0);
const FIELDS = {
  name: "serve",
  schema: z.strictObject({ generationConfig, ...backendFields() }),
  options: { threads: "all cores" },
  terminal: {
    groups: { "Server:": ["generationConfig"], "Engine:": ["backend", "threads", "type", "providers"] },
    flags: MODEL_FLAGS,
  },
};

interface Flags extends CommonOptions {
  readonly model?: readonly string[];
  readonly host: string;
  readonly port: number;
  readonly apiKeyEnv?: string;
  readonly cors?: readonly string[];
  readonly parallel?: number;
  readonly queue: number;
  readonly context?: number;
  readonly threads?: number;
}

export function add(program: Command): void {
  const command = program
    .command("serve")
    .description(
      "Serve models over the OpenAI API: chat completions, completions and models. Recipes need no merge first. " +
        "Requests choose a model by its name; models of one server share the weights that they have in common. " +
        "Ctrl-C finishes the answers under way and exits.",
    )
    .argument("[source]", `${SOURCE}; its name is that of the folder or file`)
    .option("-m, --model <name=source...>", "further models by name")
    .optionsGroup("Server:")
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option("-p, --port <n>", "port to listen on; 0 takes a free one", parsePort, 8000)
    .option("--api-key-env <name>", "environment variable with the key that clients must send")
    .option("--cors <origin...>", "origins of web pages that may use the server; * for all")
    .option("--parallel <n>", "answers of a model computed at once (default: 8)", parsePositive)
    .option("--queue <n>", "answers that may wait", parseCount, 256)
    .option("--context <n>", "maximum tokens of prompt and answer (default: the model's, at most 8192)", parsePositive);
  withFields(command, FIELDS).action(async (source: string | undefined, flags: Flags) => {
    const how = await fieldsIn(FIELDS, flags);
    const sources = await sourcesOf(source, flags.model ?? []);
    const apiKey = readKey(flags.apiKeyEnv);
    const signal = interruptSignal("what is under way");
    const names = [...sources.keys()];
    const { host, port, queue, cors: origins, parallel, context, threads } = flags;
    let [start, computed] = [performance.now(), 0];
    const onOpen = (name: string, model: Model) => {
      const source = sources.get(name) ?? "";
      const facts = factsOf(model, computed);
      for (const note of model.notes) info(flags, `note: ${note}`);
      info(flags, `${name}: ${[model.family, source, ...facts].join(", ")}, ready in ${elapsed(start)}`);
      [start, computed] = [performance.now(), 0];
    };
    const server = await runWithProgress(flags, ({ onProgress }) =>
      serve(Object.fromEntries(sources), {
        ...{ host, port, apiKey, queue, origins, parallel, context, threads, ...how, signal, onOpen },
        hub: hubAccess("files", { signal, onProgress }),
        onProgress: (progress) => {
          if (progress.unit === "bytes") computed = progress.total;
          onProgress?.(progress);
        },
        onRequest: (request) => info(flags, describe(request)),
      }),
    );
    if (flags.json) print(JSON.stringify({ url: server.url, models: names }));
    else print(`Serving ${formatSome(names)} at ${server.url}/v1`);
    if (!signal.aborted) await once(signal, "abort");
    info(flags, "Finishing the answers under way. Press Ctrl-C again to stop at once.");
    await server.close();
  });
}

async function sourcesOf(source: string | undefined, named: readonly string[]): Promise<Map<string, string>> {
  const sources = new Map<string, string>();
  const add = (name: string, of: string) => {
    if (sources.has(name)) throw usageError(`Two models are called ${name}. Name each with --model NAME=SOURCE.`);
    sources.set(name, of);
  };
  if (source !== undefined) add(await nameOf(source), source);
  for (const pair of named) {
    const [, name, of] = /^([^=]+)=(.+)$/s.exec(pair) ?? [];
    if (name === undefined || of === undefined) throw usageError(`--model ${shorten(pair)} is not NAME=SOURCE.`);
    add(name, of);
  }
  if (sources.size === 0) throw usageError("Missing a model. Pass SOURCE, or --model NAME=SOURCE.");
  return sources;
}

/** The name of a folder or file without its ending; of a name on the hub, all of it. */
async function nameOf(source: string): Promise<string> {
  if (parseHubName(source) && !(await exists(source))) return source;
  return source
    .split("+")
    .map((path) => basename(path).replace(/\.(ya?ml|json)$/i, ""))
    .join("+");
}

function describe({ method, path, status, seconds, model, usage: counts, error }: ServedRequest): string {
  const facts = [
    ...(model === undefined ? [] : [model]),
    ...(counts ? [`${counts.promptTokens} + ${plural(counts.newTokens, "token")}`] : []),
    `${seconds.toFixed(2)} s`,
    ...(error === undefined ? [] : [error instanceof Error ? (error.stack ?? error.message) : String(error)]),
  ];
  return visible(`${method} ${shorten(path)} ${status} ${facts.join(", ")}`);
}
