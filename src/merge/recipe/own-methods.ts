// Methods of users: `method: ./my-method.js`. The file is one module without imports, whose default export takes what
// built-in methods are made of and returns a method.
import { basename, isAbsolute } from "node:path";
import type { z } from "zod";
import { readBounded } from "../../kit/files/index.js";
import { LayergraftError, RecipeError } from "../../kit/index.js";
import { shorten } from "../../kit/printing/index.js";
import { guardCode, runCode } from "../../tensor/streaming/index.js";
import * as fields from "../methods/method.js";
import { defineMethod, type Method, type MethodDefinition } from "../methods/method.js";
import * as operands from "../methods/operand.js";
import * as parameters from "../methods/parameter.js";
import { seedOf } from "../methods/random.js";
import { modelParameter } from "../methods/task-vectors.js";
import { addMethod, type OwnCode } from "./recipe.js";

/** What a user's method is made of: the same as a built-in one. */
const KIT = {
  modelsField: fields.modelsField,
  sourceField: fields.sourceField,
  statisticsField: fields.statisticsField,
  weightField: fields.weightField,
  lambdaField: fields.lambdaField,
  seedField: fields.seedField,
  boundedParameter: parameters.boundedParameter,
  resolveParameter: parameters.resolveParameter,
  modelParameter,
  computed: operands.computed,
  copyTensor: operands.copyTensor,
  average: operands.average,
  plus: operands.plus,
  tensorOf: operands.tensorOf,
  deltaOf: operands.deltaOf,
  requireBase: operands.requireBase,
  isEmpty: operands.isEmpty,
  isMeasurable: operands.isMeasurable,
  seedOf,
};

/** What the default export of a user's file gets. */
export type MethodKit = typeof KIT & {
  /** All of zod. */
  readonly z: typeof z;
  /**
   * A value that a function of the file computes from whole stored rows of other values, on blocks and on several threads.
   * @param name of the function, which the file exports
   */
  readonly block: (
    name: string,
    values: readonly operands.OperandTensor["value"][],
    numbers?: readonly number[],
  ) => operands.OperandTensor["value"];
};

/** The default export of a user's file. */
export type OwnMethod = (kit: MethodKit) => Omit<MethodDefinition<string, z.ZodRawShape>, "name">;

/** More than any method needs. */
const MAX_BYTES = 1e6;

export function isOwnMethod(method: unknown): method is string {
  return typeof method === "string" && /\.m?js$/.test(method) && (/^\.{0,2}[\\/]/.test(method) || isAbsolute(method));
}

/** The same, whose functions say where they fail. */
function guarded<T extends object>(file: string, made: T): T {
  const all = Object.entries(made).map(([name, own]): [string, unknown] => [
    name,
    typeof own === "function" ? (...given: unknown[]) => guardCode(file, () => own(...given)) : own,
  ]);
  return Object.fromEntries(all) as T;
}

/** Loads the files of a plan that was made before. @throws LayergraftError code "changed" if one is another now */
export async function reloadOwnMethods(code: readonly OwnCode[], allowCode: boolean): Promise<void> {
  for (const { file, digest } of code) {
    const found = await loadMethod(file, allowCode);
    if (found.digest !== digest) {
      throw new LayergraftError("changed", `${file} changed since the plan was made. Restore it, or merge again.`, {
        file,
      });
    }
  }
}

/**
 * Loads the method that a file is, under a name of its own.
 * @param allowCode whether the user allows to run it
 * @throws RecipeError if code is not allowed, or the file is not a method
 */
export async function loadMethod(file: string, allowCode: boolean): Promise<OwnCode> {
  const where = { file };
  if (!allowCode) {
    const message = `${file} is a program that the recipe names as its method. Read it; merge and verify run it where you allow it, other commands take the merged folder`;
    throw RecipeError.at({ ...where, option: "allowCode" }, message);
  }
  const tooLarge = () => RecipeError.at(where, `${file} has more than ${MAX_BYTES} bytes, which no method needs`);
  const bytes = await readBounded(file, MAX_BYTES, tooLarge).catch((error: unknown) => {
    if (error instanceof RecipeError) throw error;
    const message = `the method ${file} cannot be read. Check its path, which starts from the recipe's folder.`;
    throw RecipeError.at(where, message);
  });
  try {
    const { digest, exports } = await runCode(bytes.toString("utf8"));
    if (typeof exports.default !== "function") throw new TypeError("its default export is not a function");
    const block: MethodKit["block"] = (name, of, numbers = []) => ({
      op: "call",
      of,
      code: digest,
      function: name,
      numbers,
    });
    // As a package: layergraft's bundle has only what it uses of zod.
    const zod = await import("zod/v4");
    const made = (exports.default as OwnMethod)({ ...KIT, z: zod.z, block });
    const name = `${basename(file)}@${digest.slice(0, 12)}`;
    for (const part of ["title", "fields", "tensors"] as const) {
      if (made?.[part] === undefined) throw new TypeError(`its method has no ${part}`);
    }
    const method: Method = defineMethod({ ...guarded(file, made), name });
    addMethod(method);
    return { name, file, digest };
  } catch (error) {
    const problem = shorten((error as Error).message);
    throw RecipeError.at(where, `${file} is not a method: ${problem}. See docs/write-your-own-method.md.`);
  }
}
