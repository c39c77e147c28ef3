// A graph loaded into ONNX Runtime, and runs of it on plain typed arrays. A run blocks JavaScript until it is done.

import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { MAX_THREADS, messageOf, RuntimeError } from "../../kit/index.js";
import { deletedWeights, externalRoot } from "./external-paths.js";
import { loadRuntime, type NativeSession, type Ort, type OrtTensor } from "./load-runtime.js";

export interface SessionOptions {
  /** Threads that share the work of one operator; default the machine's available cores. With one, sums are reproducible. */
  readonly threads?: number | undefined;
  /** Execution providers in order of preference, such as ["cuda", "cpu"]; default ["cpu"]. */
  readonly providers?: readonly string[] | undefined;
  /** Entries of ONNX Runtime's session configuration, such as { "session.disable_prepacking": "1" }. */
  readonly config?: Readonly<Record<string, string>>;
}

/** A tensor's values, row-major. */
export type TensorValue =
  | { readonly dtype: "f32"; readonly shape: readonly number[]; readonly data: Float32Array }
  | { readonly dtype: "i64"; readonly shape: readonly number[]; readonly data: BigInt64Array }
  /** One byte per element, 0 or 1. */
  | { readonly dtype: "bool"; readonly shape: readonly number[]; readonly data: Uint8Array };

type Tensors = Readonly<Record<string, TensorValue>>;

export interface Session {
  /**
   * Computes outputs. Feeds are not copied and must not change during the run; results belong to the caller.
   * @param feeds values by name, of which those are used that the graph has inputs for
   * @param fetches names of the outputs to return; all are computed, only these are copied
   * @param into memory of the caller that outputs are written to, of their element type and shape
   * @throws RuntimeError if the feeds do not fit the graph, an output is unknown, or an operator fails
   */
  run(feeds: Tensors, fetches: readonly string[], into?: Tensors): Promise<Record<string, TensorValue>>;
  /** Releases the session's memory. Closing again does nothing. */
  close(): Promise<void>;
}

const TYPES = { f32: "float32", i64: "int64", bool: "bool" } as const;

// Of ONNX Runtime's log levels: 4 (fatal). It prints what it also throws.
const SILENT = 4;

/** How it names a file of weights that is not there. */
const MISSING_FILE = /path does not exist: "(.+)"/;

/**
 * Loads a graph. Its bytes are only read during the call.
 * @param model a ModelProto from `OnnxModel.encode`
 * @throws RuntimeMissingError if ONNX Runtime is not installed
 * @throws RuntimeError if it refuses the graph, or a file of weights was deleted
 */
export async function openSession(model: Uint8Array, options: SessionOptions = {}): Promise<Session> {
  const ort = await loadRuntime();
  const { threads = availableParallelism() } = options;
  if (!Number.isInteger(threads) || threads < 1 || threads > MAX_THREADS) {
    throw new RuntimeError(`threads is ${threads}; it must be a whole number from 1 to ${MAX_THREADS}`, {
      field: "threads",
    });
  }
  const { providers = ["cpu"], config } = options;
  let native: NativeSession;
  try {
    native = await ort.InferenceSession.create(model, {
      intraOpNumThreads: threads,
      interOpNumThreads: 1,
      executionMode: "sequential",
      // Shapes change from run to run; a memory plan would be kept for each shape.
      enableMemPattern: false,
      graphOptimizationLevel: "all",
      executionProviders: [...providers],
      logSeverityLevel: SILENT,
      extra: { "session.model_external_initializers_file_folder_path": externalRoot(), ...config },
    });
  } catch (error) {
    const file = MISSING_FILE.exec(messageOf(error))?.[1];
    throw file !== undefined && !existsSync(file) ? deletedWeights(file, error) : refusal(ort, error, providers);
  }
  return loadedSession(ort, native);
}

function loadedSession(ort: Ort, opened: NativeSession): Session {
  let native: NativeSession | undefined = opened;
  const tensor = ({ dtype, data, shape }: TensorValue) => new ort.Tensor(TYPES[dtype], data, shape);
  return {
    run: async (feeds, fetches, into = {}) => {
      if (!native) throw new RuntimeError("the session is closed; a run needs an open one");
      const fed = native.inputNames.flatMap((name) => {
        const value = feeds[name];
        return value ? [[name, value] as const] : [];
      });
      let results: Readonly<Record<string, OrtTensor>>;
      try {
        const inputs = fed.map(([name, value]) => [name, tensor(value)]);
        const targets = fetches.map((name) => [name, into[name] ? tensor(into[name]) : null]);
        results = await native.run(Object.fromEntries(inputs), Object.fromEntries(targets));
      } catch (error) {
        throw explain(error, "the run failed");
      }
      return Object.fromEntries(fetches.map((name) => [name, readValue(name, results[name])]));
    },
    close: async () => {
      const closing = native;
      native = undefined;
      await closing?.release();
    },
  };
}

function readValue(name: string, tensor: OrtTensor | undefined): TensorValue {
  const shape = tensor?.dims ?? [];
  if (tensor?.data instanceof Float32Array) return { dtype: "f32", shape, data: tensor.data };
  if (tensor?.data instanceof BigInt64Array) return { dtype: "i64", shape, data: tensor.data };
  if (tensor?.data instanceof Uint8Array) return { dtype: "bool", shape, data: tensor.data };
  throw new RuntimeError(`the run gave no values for ${name}`, { tensor: name });
}

/** Why a session did not open: the graph, or an execution provider that is not available. */
function refusal(ort: Ort, error: unknown, providers: readonly string[]): RuntimeError {
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
  const advice = "choose another, or leave it out to run on the CPU";
  if (unknown !== undefined) {
    return new RuntimeError(
      `ONNX Runtime has no execution provider ${unknown} on ${process.platform}-${process.arch}; it has ${backends.map(({ name }) => name).join(", ")}; ${advice}`,
      { actual: unknown },
      error,
    );
  }
  return new RuntimeError(
    `ONNX Runtime cannot use ${others.join(", ")} here (${explain(error, "it reports").message}); ${named(true)} are included, ${named(false)} need its GPU libraries and a driver; ${advice}`,
    { actual: others.join(" ") },
    error,
  );
}

/** Converts an error of ONNX Runtime: its first line without paths of its source, and the node it names. */
function explain(error: unknown, what: string): RuntimeError {
  const message = messageOf(error);
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
