// Which tensors are not narrowed to 16 bits: those that transformers 5.24 opens in float32 whatever is asked for
// (`_keep_in_fp32_modules`, made by test/census/float32.py), and those that models store wider than their matrices.
import { DTYPE_BITS, elementCount, groupBy, isFloatDType } from "../../kit/index.js";
import type { Checkpoint } from "./checkpoint.js";
import TABLE from "./float32.json" with { type: "json" };
import { isGgufFile } from "./gguf-source.js";

/** A tensor of a checkpoint, by its name. */
export interface OwnedTensor {
  readonly checkpoint: Pick<Checkpoint, "tensors" | "folder">;
  readonly tensor: string;
}

/** Patterns of names by families: always, and where float16 is asked for. */
const GROUPS: readonly { families: string[]; always?: string[]; float16?: string[] }[] = TABLE;

/** Whether the family keeps a tensor in float32. */
function isListed({ json, modelType }: Checkpoint["config"], dtype: "BF16" | "F16"): (name: string) => boolean {
  const lists = GROUPS.filter(({ families }) =>
    [json.model_type, modelType].some((one) => families.includes(`${one}`)),
  );
  const patterns = lists
    .flatMap(({ always = [], float16 = [] }) => [...always, ...(dtype === "F16" ? float16 : [])])
    .map((pattern) => new RegExp(pattern));
  return (name) => patterns.some((pattern) => pattern.test(name));
}

/**
 * Tells whether a tensor stays float32 where a narrower dtype is asked for. A tensor that no source stores in float32 does not.
 * @param model whose configuration the result has
 */
export function keepsFloat32(
  { config }: Pick<Checkpoint, "config">,
  dtype: "BF16" | "F16",
): (name: string, sources: readonly OwnedTensor[]) => boolean {
  const isKnown = isListed(config, dtype);
  const narrow = new Map<OwnedTensor["checkpoint"], boolean>();
  const isNarrow = (checkpoint: OwnedTensor["checkpoint"]) => {
    const known = narrow.get(checkpoint) ?? hasNarrowMatrices(checkpoint);
    narrow.set(checkpoint, known);
    return known;
  };
  return (name, sources) => {
    const wide = sources.filter(({ checkpoint, tensor }) => isWide(checkpoint.tensors.get(tensor)?.dtype ?? "BF16"));
    if (wide.length === 0) return false;
    if (isKnown(name)) return true;
    return wide.length === sources.length && wide.some(({ checkpoint }) => isNarrow(checkpoint));
  };
}

const isWide = (dtype: keyof typeof DTYPE_BITS) => isFloatDType(dtype) && DTYPE_BITS[dtype] >= 32;

/** Whether most values are stored in 16 bits. Every converter to GGUF stores vectors in float32, which says nothing. */
function hasNarrowMatrices({ tensors, folder }: OwnedTensor["checkpoint"]): boolean {
  if (isGgufFile(folder)) return false;
  const floats = [...tensors.values()].filter(({ dtype }) => isFloatDType(dtype));
  const sizes = [...groupBy(floats, ({ dtype }) => isWide(dtype))].map(
    ([wide, all]) => [wide, all.reduce((sum, { shape }) => sum + elementCount(shape), 0)] as const,
  );
  return sizes.sort(([, a], [, b]) => b - a)[0]?.[0] === false;
}
