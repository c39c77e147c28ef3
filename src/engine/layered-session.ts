// A decoder whose matrices are held as codes. The embedding, each layer and the head have a session of their own: while the
// model loads, no more than one of them is there twice, and models share the sessions of equal ones.
import { mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CancelledError, digestOf, digestOfJson, stampOf } from "../core/index.js";
import { measureAll, Resolver, requireEncodable, type Step } from "../values/index.js";
import { countBytes, runProgram } from "../weights/index.js";
import { type BlendOptions, keyOf } from "./blends.js";
import { type Node, reachable } from "./graph/index.js";
import type { Decoder } from "./model/index.js";
import type { ModelSource } from "./model-source.js";
import { type CodeEncoding, jobsOf, type PlacedJob, placedWeights, placeTensors, usesOf } from "./placed-weights.js";
import {
  type ExternalData,
  externalLocation,
  lowerGraph,
  openSession,
  type Session,
  type SessionOptions,
  SessionPool,
  type TensorValue,
  type Weight,
} from "./runtime/index.js";
import { findSteps, inFloats, storedInPlace, weightInFile } from "./weights.js";

/** What matrices of the engine may be held in, with their encodings. */
export const WEIGHT_ENCODINGS = { int8: "Q8_0", int4: "Q4_0" } as const satisfies Record<string, CodeEncoding>;

export type WeightType = "float32" | keyof typeof WEIGHT_ENCODINGS;

export const WEIGHT_TYPES: readonly WeightType[] = ["float32", "int8", "int4"];

export interface LayeredOptions
  extends Pick<BlendOptions, "signal" | "onProgress">,
    Pick<SessionOptions, "threads" | "providers"> {
  readonly encoding: CodeEncoding;
}

type Outputs = Readonly<Record<string, Node>>;

const stream = (layer: number) => `stream.${layer}`;
/** Files of a part. The one of the codes is read once; the runtime may keep the other. */
const FILES = ["codes", "numbers"] as const;
// As ONNX recommends for files that are mapped into memory.
const ALIGNMENT = 4096;

const pool = new SessionPool();

/**
 * Opens a decoder part by part.
 * @param outputs of the embedding, of each layer and of the head
 * @throws CheckpointError if weights are missing
 * @throws MismatchError if weights have other shapes than the configuration
 * @throws LayergraftError code `broken-model` if a matrix has values that are not finite
 * @throws CancelledError if the signal fires
 */
export async function openLayered(
  decoder: Decoder,
  outputs: readonly Outputs[],
  source: ModelSource,
  options: LayeredOptions,
): Promise<{ readonly session: Session; readonly notes: readonly string[] }> {
  const { signal, onProgress } = options;
  const { steps, notes } = findSteps(decoder, source);
  const resolver = new Resolver(source.sources, await measureAll(source.measurements, source.sources, { signal }));
  const parts = await Promise.all(
    outputs.map((own, index) => planPart(decoder, index, own, steps, resolver, options.encoding)),
  );
  const versions = await Promise.all(resolver.inputs.map(async ({ path }) => [path, await stampOf(path)]));
  const bytesOf = ({ jobs }: Part) => countBytes(jobs).written;
  const total = parts.reduce((sum, part) => sum + bytesOf(part), 0);
  let done = 0;
  const report = () => onProgress?.({ phase: "quantizing", done, total, unit: "bytes" });
  report();
  const sessions = new Map<Part, Session>();
  const close = async () => {
    for (const session of sessions.values()) await session.close();
  };
  try {
    // The largest first, which is in memory twice for a moment, before the others are there.
    for (const part of [...parts].sort((a, b) => bytesOf(b) - bytesOf(a))) {
      if (signal?.aborted) throw new CancelledError("stopped while weights were quantized");
      const { threads, providers } = options;
      const computed = part.jobs.map(({ value }) => keyOf(value, versions));
      const key = digestOfJson([part.graph, part.versions, computed, threads, providers]);
      sessions.set(part, await pool.open(key, () => openPart(part, source, resolver, options)));
      done += bytesOf(part);
      report();
    }
  } catch (error) {
    await close();
    throw error;
  }
  const run: Session["run"] = async (feeds, fetches) => {
    const results: Record<string, TensorValue> = {};
    for (const part of parts) {
      const names = Object.keys(part.outputs).filter((name) => name === part.passes || fetches.includes(name));
      if (names.length === 0) continue;
      Object.assign(results, await sessions.get(part)?.run({ ...feeds, ...results }, names));
    }
    return Object.fromEntries(fetches.map((name) => [name, results[name] as TensorValue]));
  };
  return { session: { run, close }, notes };
}

/** Nodes that are computed together, and their weights. */
interface Part {
  readonly outputs: Outputs;
  /** The output that the next part takes; the head has none. */
  readonly passes: string | undefined;
  readonly jobs: readonly PlacedJob[];
  /** Bytes of its files. */
  readonly sizes: readonly number[];
  /** Digest of the graph without its weights. */
  readonly graph: string;
  /** Of the files that are read in place. */
  readonly versions: readonly string[];
  /** The graph with weights in files. @param locations of its files */
  readonly lower: (locations: readonly string[]) => Uint8Array;
}

async function planPart(
  { streams, weights: stored, spec }: Decoder,
  index: number,
  own: Outputs,
  all: ReadonlyMap<string, Step>,
  resolver: Resolver,
  encoding: CodeEncoding,
): Promise<Part> {
  const [before, after] = [streams[index - 1], streams[index]];
  const outputs = after ? { ...own, [stream(index)]: after } : own;
  const given = new Map<Node, string>(before ? [[before, stream(index - 1)]] : []);
  const nodes = reachable(Object.values(outputs), given).filter((node) => !given.has(node));
  const uses = usesOf(nodes, stored);
  const isTable = (name: string) => stored.get(name) === spec.embedding && uses.others.has(name);
  const steps = new Map<string, Step>();
  const tables = new Map<string, Weight>();
  const versions: string[] = [];
  for (const name of [...uses.products, ...uses.others]) {
    const step = all.get(name) as Step;
    const found = isTable(name) ? storedInPlace(step, resolver) : undefined;
    if (found) {
      tables.set(name, await weightInFile(found));
      versions.push(await stampOf(found.file.path));
    } else steps.set(name, step);
  }
  const sizes = [0, 0];
  const tensors = placeTensors(steps, uses, {
    encoding,
    dtypeOf: (step, names) => (names.some(isTable) ? inFloats(step).dtype : "F32"),
    take: (length, isCodes): ExternalData => {
      const file = isCodes ? 0 : 1;
      const offset = Math.ceil((sizes[file] as number) / ALIGNMENT) * ALIGNMENT;
      sizes[file] = offset + length;
      return { location: FILES[file], offset, length };
    },
  });
  const lower = (locations: readonly string[]) => {
    const read = (place: ExternalData) => ({ ...place, location: locations[indexOf(place)] as string });
    const { weights, quantized } = placedWeights(tensors, steps, stored, uses, read);
    return lowerGraph(outputs, { weights: new Map([...weights, ...tables]), quantized, given });
  };
  return {
    outputs,
    sizes,
    versions,
    lower,
    passes: after && stream(index),
    jobs: jobsOf(tensors, resolver, (place) => ({ file: indexOf(place), offset: place.offset })),
    graph: digestOf(lower(FILES)),
  };
}

const indexOf = ({ location }: ExternalData) => (location === FILES[0] ? 0 : 1);

/**
 * Computes the weights of a part into files that are removed at once. The runtime maps them into memory and packs the codes
 * for itself; copies in this process's memory would leave holes in it that no one else can use.
 */
async function openPart(
  { jobs, sizes, lower }: Part,
  source: ModelSource,
  { inputs }: Resolver,
  { threads, providers, signal }: LayeredOptions,
): Promise<Session> {
  const folder = await mkdtemp(join(tmpdir(), "layergraft-weights-"));
  try {
    const outputs = FILES.map((name) => join(folder, name));
    for (const [i, path] of outputs.entries()) {
      await writeFile(path, "");
      await truncate(path, sizes[i]);
    }
    const options = { threads, signal, phase: "quantizing" };
    requireEncodable(await runProgram({ inputs, outputs, jobs }, options), jobs, source.name, "");
    const locations = await Promise.all(outputs.map(async (path) => (await externalLocation(path)).location));
    return await openSession(lower(locations), {
      threads,
      providers,
      // Threads of a session would wait busily while the next one computes, and each would keep memory.
      keepsMemory: false,
      config: { "session.force_spinning_stop": "1" },
    });
  } finally {
    // Windows does not remove a file that is mapped.
    await rm(folder, { recursive: true, force: true }).catch(() => undefined);
  }
}
