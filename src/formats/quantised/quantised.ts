// Reads the tensors of quantised checkpoints as values: which tensors are codes, and what turns them into values.

import { type DType, groupBy, isObject, type JsonObject } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import { readRange, type SafetensorsFile } from "../safetensors/reader.js";
import type { Found, QuantisedTensor } from "./coded.js";
import { compressedTensors } from "./compressed-tensors.js";
import { FLOAT_WRITERS, mlx, withoutSettings } from "./float-writers.js";
import { INTEGER_WRITERS } from "./integer-writers.js";
import { readParts, type Shapes } from "./layouts.js";
import { ADDED, Disagreement, isBesideCodes, isCodes, Parts } from "./parts.js";
import { leftOut, type WriterPage } from "./scheme.js";
import { unknownIn } from "./settings.js";

/** Every writer that layergraft knows. */
export const WRITERS: readonly WriterPage[] = [...FLOAT_WRITERS, compressedTensors, ...INTEGER_WRITERS];

const moduleOf = (name: string) => name.slice(0, name.lastIndexOf("."));

/** Distance in bytes up to which shapes are read at once. */
const SHAPES_APART = 2 ** 16;

/** Reads the shapes of matrices in words, which tensors of their own say. */
export async function readShapes(stored: readonly QuantisedTensor[]): Promise<Shapes> {
  const byName = new Map(stored.map((tensor) => [tensor.name, tensor]));
  const found = stored.flatMap(({ name: packed }) => {
    const name = packed.replace(/_packed$/, "");
    const shape = byName.get(`${name}_shape`);
    return name === packed || shape?.dtype !== "I64" || shape.bytes !== 16 ? [] : [{ name, ...place(shape) }];
  });
  const read = [...groupBy(found, ({ file }) => file)].flatMap(([file, inFile]) => {
    const runs: (typeof found)[] = [];
    for (const one of [...inFile].sort((a, b) => a.offset - b.offset)) {
      const run = runs.at(-1);
      const last = run?.at(-1);
      if (run && last && one.offset - last.offset <= SHAPES_APART) run.push(one);
      else runs.push([one]);
    }
    return runs.map((run) => readRun(file, run));
  });
  return new Map((await Promise.all(read)).flat());
}

const place = ({ file, offset }: QuantisedTensor) => ({ file, offset });

async function readRun(file: SafetensorsFile, run: readonly { readonly name: string; readonly offset: number }[]) {
  const [first, last] = [run[0]?.offset ?? 0, run.at(-1)?.offset ?? 0];
  const bytes = await readRange(file, first, last + 16);
  const at = (offset: number) => new BigInt64Array(bytes.slice(offset - first, offset - first + 16).buffer);
  return run.map(({ name, offset }) => [name, [...at(offset)].map(Number)] as const);
}

export type Reading =
  | { readonly tensors: readonly QuantisedTensor[]; readonly note: string }
  /** Why something that is quantised is only copied, as a clause. */
  | { readonly problem: string }
  /** Settings without codes; `keeps` says whether they stay in the configuration, `whileRunning` see `WriterPage`. */
  | { readonly plain: true; readonly keeps: boolean; readonly whileRunning?: string };

/**
 * The tensors of a quantised checkpoint as values.
 * @param settings those of quantisation in the configuration; undefined if it has none
 * @param dtype of the values
 * @param shapes of matrices in words
 * @returns undefined where nothing is quantised
 */
export function readQuantised(
  stored: readonly QuantisedTensor[],
  settings: unknown,
  dtype: DType,
  shapes: Shapes,
): Reading | undefined {
  const page = settings === undefined ? withoutSettings : pageOf(settings);
  if (typeof page === "string") return { problem: page };
  const given: JsonObject = isObject(settings) ? settings : {};
  const unknown = settings === undefined ? undefined : unknownIn({ is: "fields", keys: page.keys }, given);
  if (unknown !== undefined) {
    return { problem: `layergraft does not know ${unknown} of ${page.names[0]}'s settings` };
  }
  const modules = groupBy(stored, ({ name }) => moduleOf(name));
  const found = new Map<QuantisedTensor, Found>();
  const problems: string[] = [];
  for (const codes of stored.filter(isCodes)) {
    const one = readModule(codes, modules.get(moduleOf(codes.name)) ?? [], page, given, shapes);
    if (typeof one === "string") problems.push(one);
    else found.set(codes, one);
  }
  if (found.size === 0 && settings === undefined) return undefined;
  const [problem] = problems;
  if (problem !== undefined) return { problem };
  const used = new Set([...found.values()].flatMap(({ of }) => of));
  const loose = stored.filter((tensor) => !used.has(tensor) && isBesideCodes(tensor));
  if (loose.length > 0) {
    return { problem: `layergraft finds no codes for ${formatSome(loose.map(({ name }) => name))}` };
  }
  if (found.size === 0) {
    const { whileRunning } = page;
    return { plain: true, keeps: page.keepsPlain?.(given) ?? false, ...(whileRunning ? { whileRunning } : {}) };
  }
  const tensors = stored.flatMap((tensor): QuantisedTensor[] => {
    const one = found.get(tensor);
    if (one) return [{ ...tensor, name: one.name, shape: one.shape, dtype, coded: one.coded }];
    return used.has(tensor) || ADDED.test(tensor.name) ? [] : [tensor];
  });
  const codes = [...new Set([...found.values()].map(({ coded }) => coded.code))].join(", ");
  return {
    tensors,
    note: `${plural(found.size, "quantised tensor")} (${codes}) ${found.size === 1 ? "is" : "are"} read as ${dtype} values; what is computed of them is written so, or as FP8 with dtype fp8`,
  };
}

/** The page of the writer that settings name. */
function pageOf(settings: unknown): WriterPage | string {
  if (!isObject(settings)) return `quantization_config is ${JSON.stringify(settings)}, not an object`;
  // The only ones that do not name their writer.
  if (Object.keys(settings).every((key) => Object.hasOwn(mlx.keys, key))) return mlx;
  const name = settings.quant_method ?? (settings.quant_algo === undefined ? undefined : "modelopt");
  if (typeof name !== "string") return "quantization_config has no quant_method";
  return WRITERS.find(({ names }) => names.includes(name)) ?? `layergraft does not know how ${name} stores weights`;
}

function schemesOf(module: string, page: WriterPage, settings: JsonObject): ReturnType<WriterPage["schemes"]> {
  try {
    const key = leftOut(settings, module);
    if (key !== undefined) return `${key} of the configuration names ${module}, which has codes`;
    return page.schemes(settings, module);
  } catch (error) {
    if (error instanceof Disagreement) return error.message;
    throw error;
  }
}

/** A module's codes as values, if exactly one of the schemes that the settings allow agrees with its tensors. */
function readModule(
  codes: QuantisedTensor,
  within: readonly QuantisedTensor[],
  page: WriterPage,
  settings: JsonObject,
  shapes: Shapes,
): Found | string {
  const { module } = new Parts(codes, within);
  const schemes = schemesOf(module, page, settings);
  if (typeof schemes === "string") return schemes;
  const read = schemes.map((scheme) => readParts(new Parts(codes, within), scheme, shapes));
  const found = read.filter((one) => typeof one !== "string");
  const [first] = found;
  if (!first) return read.find((one): one is string => typeof one === "string") ?? `${codes.name} has no scheme`;
  const formOf = ({ shape, coded: { scales: _, second: __, zeros, groups, ...form } }: Found) =>
    JSON.stringify([shape, form, zeros?.offset, groups?.offset]);
  if (new Set(found.map(formOf)).size > 1) return `several groups of the settings fit ${codes.name}`;
  return first;
}
