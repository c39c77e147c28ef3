// Adapters of modules that the base stores as parts of a larger tensor, and of modules whose parts are tensors of the base:
// queries, keys and values in one matrix, gate above up, and the experts of a layer in one stack.

import { CheckpointError, formatShape } from "../../kit/index.js";
import type { TensorInfo } from "../safetensors/header.js";
import type { LowRankDelta } from "./adapter.js";

/** The factors of a module, and the base that lacks a tensor of its name. */
interface Fused {
  readonly module: string;
  readonly a: TensorInfo;
  readonly b: TensorInfo;
  readonly lengths: TensorInfo | undefined;
  /** Heads of queries, and of keys. */
  readonly heads: readonly [number, number] | undefined;
  /** Whether the family stores matrices of experts as [in, out], which square ones do not show. */
  readonly isTransposed: boolean;
  readonly nameOf: (name: string) => string | undefined;
  readonly shapeOf: (target: string) => readonly number[];
  readonly formOf: () => Pick<LowRankDelta, "rank" | "scale">;
  readonly file: string;
}

/** Modules that are one above the other in another; their names say in which order. */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  qkv_proj: ["q_proj", "k_proj", "v_proj"],
  gate_up_proj: ["gate_proj", "up_proj"],
};

/** The changes of a module's parts, or of the rows of a larger tensor, by the names of the base's tensors; none if it has neither. */
export function changesOfFused(fused: Fused): [string, LowRankDelta][] {
  const { module } = fused;
  const dot = module.lastIndexOf(".") + 1;
  const [parent, last] = [module.slice(0, dot), module.slice(dot)];
  const parts = (PARTS[last] ?? []).flatMap((part) => fused.nameOf(`${parent}${part}.weight`) ?? []);
  if (parts.length > 0 && parts.length === PARTS[last]?.length) return changesOfParts(parts, fused);
  const expert = ofExpert(module);
  if (expert) return changesInStack(expert, fused);
  for (const [whole, names] of Object.entries(PARTS)) {
    const [index, target] = [names.indexOf(last), fused.nameOf(`${parent}${whole}.weight`)];
    if (index >= 0 && target !== undefined) return changesInMatrix(target, index, names.length, fused);
  }
  return [];
}

function misfit({ module, a, b, file }: Fused, what: string): CheckpointError {
  return new CheckpointError(
    `${file}: the factors of ${module} are ${formatShape(a.shape)} and ${formatShape(b.shape)}, which do not fit ${what}; is it the adapter's base?`,
    { file, tensor: module },
  );
}

/** Consecutive rows of a tensor. */
function rowsOf(tensor: TensorInfo, from: number, count: number): TensorInfo {
  const [rows = 1, ...rest] = tensor.shape;
  const bytes = tensor.bytes / rows;
  return { ...tensor, shape: [count, ...rest], offset: tensor.offset + from * bytes, bytes: count * bytes };
}

/** Of each part of a module, whose tensors the base has. */
function changesOfParts(parts: readonly string[], fused: Fused): [string, LowRankDelta][] {
  const { a, b, lengths, shapeOf, formOf } = fused;
  const total = parts.reduce((sum, part) => sum + (shapeOf(part)[0] ?? 0), 0);
  const isFitting = parts.every((part) => shapeOf(part).length === 2 && shapeOf(part)[1] === a.shape[1]);
  if (!isFitting || total !== b.shape[0]) throw misfit(fused, `${parts.join(", ")} together`);
  let end = 0;
  return parts.map((part) => {
    const rows = shapeOf(part)[0] ?? 0;
    end += rows;
    const own = (tensor: TensorInfo) => rowsOf(tensor, end - rows, rows);
    const delta = { a, b: own(b), ...formOf(), transposed: false, ...(lengths ? { lengths: own(lengths) } : {}) };
    return [part, delta];
  });
}

/** Of the rows of a matrix that are one of its parts. */
function changesInMatrix(target: string, index: number, count: number, fused: Fused): [string, LowRankDelta][] {
  const { a, b, lengths, heads, shapeOf, formOf } = fused;
  const [total = 0, columns] = shapeOf(target);
  const sizes = count === 2 ? [1, 1] : heads ? [heads[0], heads[1], heads[1]] : [];
  const unit = total / sizes.reduce((sum, size) => sum + size, 0);
  const [from, rows] = [sizes.slice(0, index).reduce((sum, size) => sum + size, 0) * unit, (sizes[index] ?? 0) * unit];
  if (shapeOf(target).length !== 2 || !Number.isInteger(from) || b.shape[0] !== rows || a.shape[1] !== columns) {
    throw misfit(fused, `their rows of ${target} ${formatShape(shapeOf(target))}`);
  }
  const own = { a, b, ...formOf(), transposed: false, ...(lengths ? { lengths } : {}) };
  return [[target, { ...own, rows: { from, count: rows } }]];
}

/** The expert and the projection of a module: `experts.3.up_proj`, or `experts.up_projs.3` as in Unsloth's gpt-oss. */
function ofExpert(module: string) {
  const [, experts, listed, at, number, single] =
    /^(.*\.experts)\.(?:(gate_up_proj|gate_proj|up_proj|down_proj)s\.(\d+)|(\d+)\.(gate_up_proj|gate_proj|up_proj|down_proj))$/.exec(
      module,
    ) ?? [];
  const projection = listed ?? single;
  return experts === undefined || projection === undefined
    ? undefined
    : { experts, projection, expert: Number(at ?? number) };
}

/** Of one expert's matrix, or of its half that is the gate or up, in the stack of all of them, [E, out, in] or [E, in, out]. */
function changesInStack(
  { experts, projection, expert }: NonNullable<ReturnType<typeof ofExpert>>,
  fused: Fused,
): [string, LowRankDelta][] {
  const { module, a, b, lengths, isTransposed, nameOf, shapeOf, formOf, file } = fused;
  const stackOf = (name: string) => nameOf(`${experts}.${name}`) ?? nameOf(`${experts}.${name}.weight`);
  const whole = stackOf(projection);
  const half = whole === undefined ? (PARTS.gate_up_proj ?? []).indexOf(projection) : -1;
  const target = whole ?? (half < 0 ? undefined : stackOf("gate_up_proj"));
  if (target === undefined) return [];
  const [count = 0, rows = 0, columns = 0] = shapeOf(target);
  if (shapeOf(target).length !== 3 || expert >= count) throw misfit(fused, `${target} ${formatShape(shapeOf(target))}`);
  const [own, first] = half < 0 ? [rows, 0] : [rows / 2, (half * rows) / 2];
  const fits = (output: number, input: number) => b.shape[0] === output && a.shape[1] === input;
  const [isRows, isColumns] = [fits(own, columns), half < 0 && fits(columns, rows)];
  const isInColumns = half >= 0 && (isTransposed || (!isRows && fits(columns / 2, rows)));
  if (isInColumns || lengths) {
    const what = lengths ? "DoRA of experts in one tensor is not supported" : `${target} has its values in columns`;
    throw new CheckpointError(
      `${file} adapts ${module}, which is a part of ${target}; ${what}. Merge the adapter in PEFT and pass the merged checkpoint.`,
      { file, tensor: module },
    );
  }
  if (!isRows && !isColumns) throw misfit(fused, `${target} ${formatShape(shapeOf(target))}`);
  const transposed = isColumns && (!isRows || isTransposed);
  return [[target, { a, b, ...formOf(), transposed, rows: { from: expert * rows + first, count: own } }]];
}

/**
 * Changes by the names of the tensors, those of several parts of one tensor together.
 * @throws CheckpointError if two change the same rows
 */
export function joined(changes: readonly (readonly [string, LowRankDelta])[], file: string): Map<string, LowRankDelta> {
  const found = new Map<string, LowRankDelta[]>();
  for (const [target, delta] of changes) found.set(target, [...(found.get(target) ?? []), delta]);
  return new Map(
    [...found].map(([target, all]) => {
      const [first, ...others] = all as [LowRankDelta, ...LowRankDelta[]];
      if (others.length === 0) return [target, first];
      const sorted = [...all].sort((x, y) => (x.rows?.from ?? 0) - (y.rows?.from ?? 0));
      const isTwice = sorted.some(({ rows }, i) => {
        const next = sorted[i + 1];
        return !rows || (next?.rows && next.rows.from < rows.from + rows.count);
      });
      if (!isTwice) return [target, { ...first, others }];
      throw new CheckpointError(`${file} adapts ${target} as a whole and in parts. Save the adapter in PEFT again.`, {
        file,
        tensor: target,
      });
    }),
  );
}

/** The changes of a tensor, each of some of its rows or of all. */
export const partsOf = <D extends LowRankDelta>(delta: D): readonly (D | LowRankDelta)[] => [
  delta,
  ...(delta.others ?? []),
];

/** The change of consecutive rows of a matrix that one part covers; undefined where none changes them. */
export function deltaOfRows<D extends LowRankDelta>(delta: D, first: number, count: number): D | undefined {
  const part = partsOf(delta).find(({ rows }) => rows && rows.from < first + count && first < rows.from + rows.count);
  if (!part?.rows) return undefined;
  const { rows, others: _, ...own } = part;
  return { ...delta, others: undefined, rows: undefined, ...own, b: rowsOf(part.b, first - rows.from, count) };
}
