// Locations of external initializers. ONNX Runtime refuses absolute paths and paths that leave the model's folder, so
// every model is loaded as if it were at the root of the drive.

import { realpath } from "node:fs/promises";
import { parse, relative, sep } from "node:path";
import { isSystemError, RuntimeError } from "../../kit/index.js";

/** The folder that locations of external initializers are relative to: the root of the working folder's drive. */
export function externalRoot(): string {
  return parse(process.cwd()).root;
}

/** The error of a session that opens after a file of its weights was deleted, such as one of the cache. */
export function deletedWeights(path: string, cause?: unknown): RuntimeError {
  const advice = "If it was in the cache, run or resume again, and it is computed again; otherwise restore it.";
  return new RuntimeError(`${path}, a file of weights, does not exist any more. ${advice}`, { file: path }, cause);
}

/**
 * The location of a file for `OnnxModel.external`, relative to `externalRoot`. Symbolic links are resolved, as ONNX
 * Runtime requires the file itself to be below the root.
 * @throws RuntimeError if there is no such file, or it is on another drive (Windows)
 */
export async function externalLocation(path: string): Promise<{ readonly location: string }> {
  let file: string;
  try {
    file = await realpath(path);
  } catch (error) {
    if (!isSystemError(error, "ENOENT") && !isSystemError(error, "ENOTDIR")) throw error;
    throw deletedWeights(path, error);
  }
  const root = externalRoot();
  if (parse(file).root.toLowerCase() !== root.toLowerCase()) {
    throw new RuntimeError(
      `${path} is on another drive than the working folder, and ONNX Runtime reads weights from one drive only; run from a folder on ${parse(file).root}`,
      { file: path, expected: root, actual: parse(file).root },
    );
  }
  return { location: relative(root, file).split(sep).join("/") };
}
