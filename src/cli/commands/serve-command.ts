// A server that runs until it is stopped.
import { once } from "node:events";
import { basename } from "node:path";
import { parseHubName } from "../../formats/checkpoint/index.js";
import { exists } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";
import { formatSome, plural, shorten, visible } from "../../kit/printing/index.js";
import { type Model, type ServedRequest, serve } from "../../verbs/index.js";
import { factsOf, serveTakes } from "../../verbs/shared/index.js";
import { hubAccess } from "../shared/hub-access.js";
import { elapsed, info, interruptSignal, print, readKey, runWithProgress } from "../shared/output.js";
import { takingCommand } from "../shared/verb-command.js";

export const add = takingCommand(serveTakes, async (input, flags) => {
  const { source, models = {}, apiKeyEnv, cors: origins, ...serving } = input;
  const sources = await sourcesOf(source, models);
  const apiKey = readKey(apiKeyEnv);
  const signal = interruptSignal("what is under way");
  const names = [...sources.keys()];
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
      ...{ ...serving, apiKey, origins, threads: flags.threads, signal, onOpen },
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

async function sourcesOf(
  source: string | undefined,
  named: Readonly<Record<string, string>>,
): Promise<Map<string, string>> {
  const sources = new Map<string, string>();
  const add = (name: string, of: string) => {
    if (sources.has(name)) throw usageError(`Two models are called ${name}. Name each with --model NAME=SOURCE.`);
    sources.set(name, of);
  };
  if (source !== undefined) add(await nameOf(source), source);
  for (const [name, of] of Object.entries(named)) add(name, of);
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
