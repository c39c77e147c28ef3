// Loads ONNX Runtime when it is first needed, as merging and analysis work without it.

import { isSystemError, RuntimeMissingError } from "../../kit/index.js";
import { installCommand } from "../../kit/printing/index.js";

/** What is used of onnxruntime-node. The package is optional, so its own types may be missing. */
export interface Ort {
  readonly InferenceSession: {
    create(model: Uint8Array, options: Readonly<Record<string, unknown>>): Promise<NativeSession>;
  };
  readonly Tensor: new (type: string, data: OrtTensor["data"], dims: readonly number[]) => OrtTensor;
  readonly env?: { logLevel?: string };
  listSupportedBackends(): readonly { readonly name: string; readonly bundled: boolean }[];
}

export interface NativeSession {
  readonly inputNames: readonly string[];
  run(
    feeds: Readonly<Record<string, OrtTensor>>,
    fetches: Readonly<Record<string, OrtTensor | null>>,
  ): Promise<Readonly<Record<string, OrtTensor>>>;
  release(): Promise<void>;
}

export interface OrtTensor {
  readonly dims: readonly number[];
  readonly data: unknown;
}

// A string, so that the sources compile without the package.
const PACKAGE: string = "onnxruntime-node";

/** What adds it. Its install script only fetches files for CUDA. */
export const installRuntime = (): string => installCommand("onnxruntime-node@1.30");

let loaded: Promise<Ort> | undefined;

/**
 * The package onnxruntime-node, loaded once.
 * @param load how to import it; for tests
 * @throws RuntimeMissingError if it is not installed or has no binary that runs here.
 */
export function loadRuntime(load?: () => Promise<Ort>): Promise<Ort> {
  if (load) return explained(load);
  loaded ??= explained(() => import(PACKAGE));
  return loaded;
}

async function explained(load: () => Promise<Ort>): Promise<Ort> {
  // ONNX Runtime reads it once, when it is loaded.
  process.env.ORT_DISABLE_TELEMETRY ??= "1";
  try {
    const ort = await load();
    // It prints in colours what it also throws.
    if (ort.env) ort.env.logLevel = "fatal";
    return ort;
  } catch (error) {
    throw missing(error);
  }
}

function missing(error: unknown): RuntimeMissingError {
  const message = error instanceof Error ? (error.message.split("\n")[0] ?? "") : String(error);
  const here = `${process.platform}-${process.arch}`;
  const rest = "merging and analysis work without it";
  const notFound = isSystemError(error, "ERR_MODULE_NOT_FOUND") || isSystemError(error, "MODULE_NOT_FOUND");
  if (notFound && message.includes("onnxruntime_binding.node")) {
    return new RuntimeMissingError(
      `running models needs ONNX Runtime, and the installed onnxruntime-node has no binary for ${here}; ${rest}, binaries exist for linux-x64, linux-arm64, darwin-arm64, win32-x64 and win32-arm64`,
      { actual: here },
      error,
    );
  }
  if (notFound) {
    return new RuntimeMissingError(`running models needs ONNX Runtime; add it with: ${installRuntime()}`, {}, error);
  }
  return new RuntimeMissingError(
    `running models needs ONNX Runtime, and onnxruntime-node does not load on ${here}: ${message}; on Linux its binary needs glibc (Alpine has another library); ${rest}`,
    { actual: here },
    error,
  );
}
