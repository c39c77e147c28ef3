// Loads ONNX Runtime when it is first needed, as merging and analysis work without it.

import { isSystemError } from "../../core/index.js";
import { RuntimeMissingError } from "./errors.js";

/**
 * Loads the package onnxruntime-node. No type here names it, as programs that omit it are type-checked, too.
 * @param load how to import it; for tests
 * @throws RuntimeMissingError if it is not installed or has no binary that runs here.
 */
export async function requireRuntime(load: () => Promise<unknown> = () => import("onnxruntime-node")): Promise<void> {
  try {
    await load();
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
    return new RuntimeMissingError(
      `running models needs ONNX Runtime, which is not installed: npm install onnxruntime-node@1.30 --ignore-scripts (its script only fetches files for CUDA); ${rest}`,
      {},
      error,
    );
  }
  return new RuntimeMissingError(
    `running models needs ONNX Runtime, and onnxruntime-node does not load on ${here}: ${message}; on Linux its binary needs glibc (Alpine has another library); ${rest}`,
    { actual: here },
    error,
  );
}
