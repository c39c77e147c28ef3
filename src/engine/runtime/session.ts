// A graph loaded into ONNX Runtime, and runs of it on plain typed arrays. A run blocks JavaScript until it is done.

import { availableParallelism } from "node:os";
import { didYouMean, MOST_THREADS, plural } from "../../core/index.js";
import { RuntimeError } from "./errors.js";
import { externalRoot } from "./external.js";
import { loadRuntime, type Ort } from "./load.js";
import { checkFeeds, type TensorValue, type ValueInfo } from "./values.js";

export interface SessionOptions {
  /** Threads that share the work of one operator; default the machine's available cores. One makes sums reproducible. */
  readonly threads?: number | undefined;
  /** Execution providers in order of preference, such as ["cuda", "cpu"]; default ["cpu"]. */
  readonly providers?: readonly string[] | undefined;
  /** Entries of ONNX Runtime's session configuration, such as { "session.disable_prepacking": "1" }. */
  readonly config?: Readonly<Record<string, string>>;
}

/** A loaded graph. */
export interface Session {
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  /**
   * Computes outputs. What is fed is not copied, and must not change during the run; what comes back is the caller's.
   * @param feeds a value for every input
   * @param fetches names of the outputs that are wanted, at least one; only they are copied, though all are computed
   * @param into memory of the caller's that some of them are written to, of their element type and shape
   * @throws {RuntimeError} if the feeds do not fit the graph, an output is unknown, or an operator fails.
   */
  run(
    feeds: Readonly<Record<string, TensorValue>>,
    fetches: readonly string[],
    into?: Readonly<Record<string, TensorValue>>,
  ): Promise<Record<string, TensorValue>>;
  /** Releases the session's memory. Closing again does nothing. */
  close(): Promise<void>;
}

/** Of what could be fed, what a session has inputs for. */
export function declaredFeeds(
  { inputs }: Pick<Session, "inputs">,
  feeds: Readonly<Record<string, TensorValue>>,
): Record<string, TensorValue> {
  return Object.fromEntries(
    inputs.flatMap(({ name }) => {
      const value = feeds[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

const DTYPES = { float32: "f32", int64: "i64", bool: "bool" } as const;
const TYPES = { f32: "float32", i64: "int64", bool: "bool" } as const;

// ONNX Runtime prints what it also throws, and warnings of no use to a reader; 4 (fatal) keeps it silent.
const SILENT = 4;

/**
 * Loads a graph. Its bytes are read during the call only: they can be dropped afterwards.
 * @param model a ModelProto, as `OnnxModel.encode` makes it
 * @throws {RuntimeMissingError} if ONNX Runtime is not there.
 * @throws {RuntimeError} if it refuses the graph.
 */
export async function openSession(model: Uint8Array, options: SessionOptions = {}): Promise<Session> {
  const ort = await loadRuntime();
  const { threads = availableParallelism() } = options;
  if (!Number.isInteger(threads) || threads < 1 || threads > MOST_THREADS) {
    throw new RuntimeError(`threads is ${threads}; a session takes 1 to ${MOST_THREADS}`, { field: "threads" });
  }
  const { providers = ["cpu"], config } = options;
  let native: Ort.InferenceSession;
  try {
    native = await ort.InferenceSession.create(model, {
      intraOpNumThreads: threads,
      interOpNumThreads: 1,
      executionMode: "sequential",
      // Shapes change from run to run; a plan of memory for each would be kept beside all others.
      enableMemPattern: false,
      graphOptimizationLevel: "all",
      executionProviders: [...providers],
      logSeverityLevel: SILENT,
      extra: { "session.model_external_initializers_file_folder_path": externalRoot(), ...config },
    });
  } catch (error) {
    throw refusal(ort, error, providers);
  }
  try {
    return new NativeSession(ort, native);
  } catch (error) {
    await native.release();
    throw error;
  }
}

class NativeSession implements Session {
  readonly inputs: readonly ValueInfo[];
  readonly outputs: readonly ValueInfo[];
  readonly #ort: typeof Ort;
  readonly #outputNames: ReadonlySet<string>;
  #native: Ort.InferenceSession | undefined;

  constructor(ort: typeof Ort, native: Ort.InferenceSession) {
    this.#ort = ort;
    this.#native = native;
    this.inputs = native.inputMetadata.map(describe);
    this.outputs = native.outputMetadata.map(describe);
    this.#outputNames = new Set(native.outputNames);
  }

  async run(
    feeds: Readonly<Record<string, TensorValue>>,
    fetches: readonly string[],
    into: Readonly<Record<string, TensorValue>> = {},
  ): Promise<Record<string, TensorValue>> {
    const native = this.#native;
    if (!native) throw new RuntimeError("the session is closed; a run needs an open one");
    checkFeeds(feeds, this.inputs);
    this.#checkFetches(fetches);
    const tensor = ({ dtype, data, shape }: TensorValue) => new this.#ort.Tensor(TYPES[dtype], data, shape);
    const tensors = Object.fromEntries(Object.entries(feeds).map(([name, value]) => [name, tensor(value)]));
    const targets = fetches.map((name): [string, Ort.Tensor | null] => {
      const value = into[name];
      return [name, value ? tensor(value) : null];
    });
    let results: Ort.InferenceSession.OnnxValueMapType;
    try {
      results = await native.run(tensors, Object.fromEntries(targets));
    } catch (error) {
      throw explain(error, "the run failed");
    }
    return Object.fromEntries(fetches.map((name) => [name, readValue(name, results[name])]));
  }

  async close(): Promise<void> {
    const native = this.#native;
    if (!native) return;
    this.#native = undefined;
    await native.release();
  }

  #checkFetches(fetches: readonly string[]): void {
    if (fetches.length === 0) throw new RuntimeError("a run needs the name of at least one output");
    const unknown = fetches.find((name) => !this.#outputNames.has(name));
    if (unknown === undefined) return;
    const names = [...this.#outputNames];
    const rest = didYouMean(unknown, names) || `; it has ${plural(names.length, "output")}: ${names.join(", ")}`;
    throw new RuntimeError(`the graph has no output ${unknown}${rest}`, { tensor: unknown });
  }
}

function describe(info: Ort.InferenceSession.ValueMetadata): ValueInfo {
  const dtype = info.isTensor && info.type in DTYPES ? DTYPES[info.type as keyof typeof DTYPES] : undefined;
  if (!info.isTensor || dtype === undefined) {
    const actual = info.isTensor ? info.type : "not a tensor";
    throw new RuntimeError(`${info.name} is ${actual}; inputs and outputs of a graph are float32, int64 or bool`, {
      tensor: info.name,
      actual,
    });
  }
  return { name: info.name, dtype, shape: info.shape };
}

function readValue(name: string, tensor: Ort.OnnxValue | undefined): TensorValue {
  const shape = tensor?.dims ?? [];
  if (tensor?.data instanceof Float32Array) return { dtype: "f32", shape, data: tensor.data };
  if (tensor?.data instanceof BigInt64Array) return { dtype: "i64", shape, data: tensor.data };
  if (tensor?.data instanceof Uint8Array) return { dtype: "bool", shape, data: tensor.data };
  throw new RuntimeError(`the run gave no values for ${name}`, { tensor: name });
}

/** Why a session did not open: the graph, or an execution provider that is not to be had. */
function refusal(ort: typeof Ort, error: unknown, providers: readonly string[]): RuntimeError {
  const others = providers.filter((name) => name !== "cpu");
  const isOfGraph = /Node|Load model|initializer/i.test(String(error)) && !/provider|backend/i.test(String(error));
  if (others.length === 0 || isOfGraph) return explain(error, "ONNX Runtime refuses the graph");
  const backends = ort.listSupportedBackends();
  const unknown = others.find((name) => !backends.some((backend) => backend.name === name));
  const named = (isBundled: boolean) =>
    backends
      .filter(({ bundled }) => bundled === isBundled)
      .map(({ name }) => name)
      .join(", ");
  const advice = "choose another, or none for the CPU";
  if (unknown !== undefined) {
    return new RuntimeError(
      `ONNX Runtime has no execution provider ${unknown} on ${process.platform}-${process.arch}; it has ${backends.map(({ name }) => name).join(", ")}: ${advice}`,
      { actual: unknown },
      error,
    );
  }
  return new RuntimeError(
    `ONNX Runtime cannot compute with ${others.join(", ")} here (${explain(error, "it says").message}); ${named(true)} come with it, ${named(false)} need its GPU libraries and a driver: ${advice}`,
    { actual: others.join(" ") },
    error,
  );
}

/** An error of ONNX Runtime as one of ours: its first line without paths of its own source, and the node it names. */
function explain(error: unknown, what: string): RuntimeError {
  const message = error instanceof Error ? error.message : String(error);
  const node =
    /Name:'([^']+)'/.exec(message)?.[1] ?? // while running
    /In Node, \("([^"]+)"/.exec(message)?.[1] ?? // checking the model
    /Node:? ?\(([^)]+)\)/.exec(message)?.[1]; // inferring shapes
  const line = (message.split("\n")[0] ?? "")
    .replace(/\/onnxruntime_src\/\S+ /g, "")
    .replace(/^Non-zero status code returned while running (\S+) node\. Name:'([^']*)' Status Message: /, "$2 ($1): ")
    .trim();
  return new RuntimeError(`${what}: ${line}`, node === undefined ? {} : { tensor: node }, error);
}
