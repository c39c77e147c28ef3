// How each layout stores matrices. One rule of agreement: every part has the dtype and the shape that the scheme asks for.

import { CODE_BITS } from "../../kernels/index.js";
import type { DType, Shape } from "../../kit/index.js";
import type { CodedForm, CodedValues, Found, QuantisedTensor } from "./coded.js";
import { Disagreement, type Parts } from "./parts.js";
import type { Scheme, Sharing } from "./scheme.js";

/** Rows and columns of matrices by name, as tensors of their own say them. */
export type Shapes = ReadonlyMap<string, Shape>;

const FLOATS: readonly DType[] = ["F32", "F16", "BF16"];

/** Shapes of the scales of a matrix, and the block that each is for; undefined where columns are not whole groups. */
function gridOf(
  sharing: Sharing,
  rows: number,
  columns: number,
): { shapes: readonly Shape[]; block: CodedForm["block"] } | undefined {
  if (sharing === "tensor") return { shapes: [[], [1], [1, 1]], block: [rows, columns] };
  if (sharing === "row") return { shapes: [[rows, 1], [rows]], block: [1, columns] };
  if (sharing === "column") return { shapes: [[1, columns]], block: [rows, 1] };
  if ("block" in sharing) {
    const [m, n] = sharing.block;
    return { shapes: [[Math.ceil(rows / m), Math.ceil(columns / n)]], block: [m, n] };
  }
  return columns % sharing.group === 0
    ? { shapes: [[rows, columns / sharing.group]], block: [1, sharing.group] }
    : undefined;
}

/** The scales of a matrix of rows, or of a stack of such, and the block that they are for. */
function takeScales(parts: Parts, name: string, scheme: Scheme, shape: Shape, dtypes: readonly DType[]) {
  const [rows = 0, columns = 0] = shape.slice(-2);
  const stack = shape.slice(0, -2);
  // Only stacked experts, which are stored transposed, have scales by column.
  const allowed = scheme.scales.filter((sharing) => sharing !== "column" || stack.length > 0);
  const grids = allowed.flatMap((sharing) => gridOf(sharing, rows, columns) ?? []);
  if (grids.length === 0) {
    throw new Disagreement(`${parts.codes.name} has ${columns} columns, which do not fill groups of the stated size`);
  }
  const stacked = grids.map(({ shapes, block }) => {
    return {
      block,
      shapes: stack.length === 0 ? shapes : shapes.flatMap((one) => (one.length === 2 ? [[...stack, ...one]] : [])),
    };
  });
  const scales = parts.take(
    name,
    dtypes,
    stacked.flatMap(({ shapes }) => shapes),
  );
  const own = stacked.find(({ shapes }) =>
    shapes.some((one) => String(one) === String(scales.shape) && one.length === scales.shape.length),
  );
  return { scales, block: own?.block ?? ([1, 1] as const) };
}

type Layout = (parts: Parts, scheme: Scheme, shapes: Shapes) => Omit<Found, "of">;

function rowByRow(
  scheme: Scheme,
  shape: Shape,
  block: CodedForm["block"],
  scales: QuantisedTensor,
  zero = 0,
): CodedValues {
  const [rows = 0, columns = 0] = shape.slice(-2);
  return { code: scheme.code, rows, columns, lines: 1, block, byColumn: false, zero, scales };
}

/** Float8 and int8: codes under the name of the weight. */
const bytes: Layout = (parts, scheme) => {
  parts.expectCodes(scheme.code === "FP8" ? "F8_E4M3" : "I8", 3);
  const { name, shape } = parts.codes;
  const scaleName = parts.get(`${name}_scale_inv`) ? `${name}_scale_inv` : `${name}_scale`;
  const { scales, block } = takeScales(parts, scaleName, scheme, shape, [...FLOATS, "F8_E8M0"]);
  return { name, shape, coded: rowByRow(scheme, shape, block, scales) };
};

/** Float4 by groups of 16 or 32: of ModelOpt under the name of the weight, of compressed-tensors as `weight_packed`. */
const halves: Layout = (parts, scheme) => {
  parts.expectCodes("U8", 2);
  const name = parts.base;
  const shape = [parts.codes.shape[0] ?? 0, (parts.codes.shape[1] ?? 0) * 2];
  const isSmall = scheme.scales.some((one) => typeof one === "object" && "group" in one && one.group === 16);
  const { scales, block } = takeScales(
    parts,
    `${name}_scale`,
    scheme,
    shape,
    isSmall ? ["F8_E4M3"] : ["U8", "F8_E8M0"],
  );
  const coded = rowByRow(scheme, shape, block, scales);
  if (!isSmall) return { name, shape, coded };
  // Scales in float8 are stored relative to one of the tensor.
  const isDivided = parts.codes.name !== name;
  const second = parts.take(`${name}${isDivided ? "_global_scale" : "_scale_2"}`, ["F32"], [[], [1]]);
  return { name, shape, coded: { ...coded, second, ...(isDivided ? { isDivided } : {}) } };
};

/** Integers in words of 32 bits along rows: `pack-quantized` of compressed-tensors. */
const words: Layout = (parts, scheme, stated) => {
  if (parts.codes.name === parts.base) throw new Disagreement(`${parts.base}_packed is missing`);
  parts.expectCodes("I32", 2);
  const name = parts.base;
  const perWord = 32 / CODE_BITS[scheme.code];
  const [rows = 0, width = 0] = parts.codes.shape;
  const [sharing] = scheme.scales;
  const group = typeof sharing === "object" && "group" in sharing ? sharing.group : undefined;
  const groups = parts.get(`${name}_scale`)?.shape[1] ?? 0;
  // Nothing else says how many codes a row has where it has one scale.
  if (group === undefined || parts.get(`${name}_shape`)) parts.take(`${name}_shape`, ["I64"], [[2]]);
  const shape = stated.get(name) ?? [rows, group ? groups * group : width * perWord];
  const columns = shape[1] ?? 0;
  if (shape[0] !== rows || Math.ceil(columns / perWord) !== width) {
    const codes = `${parts.codes.name} has the shape [${rows}, ${width}]`;
    throw new Disagreement(`${codes}, not that of [${shape.join(", ")}] codes of ${CODE_BITS[scheme.code]} bits`);
  }
  const { scales, block } = takeScales(parts, `${name}_scale`, scheme, shape, FLOATS);
  const zeroShape = [Math.ceil(rows / perWord), scales.shape[1] ?? 1];
  const zeros = scheme.symmetric ? undefined : parts.take(`${name}_zero_point`, ["I32"], [zeroShape]);
  const coded = rowByRow(scheme, shape, block, scales, scheme.symmetric?.zero ?? 0);
  const stride = width * perWord;
  return { name, shape, coded: { ...coded, ...(zeros ? { zeros } : {}), ...(stride === columns ? {} : { stride }) } };
};

/** Experts of gpt-oss: [experts, out, groups, 16] bytes are [experts, in, out] values. */
const experts: Layout = (parts, scheme) => {
  const name = parts.base;
  const [count = 0, columns = 0, groups = 0, bytesOfGroup] = parts.codes.shape;
  parts.expectCodes("U8", 4);
  if (!parts.codes.name.endsWith("_blocks") || parts.codes.shape.length !== 4 || bytesOfGroup !== 16) {
    throw new Disagreement(`${parts.codes.name} is not the blocks of 16 bytes of an expert`);
  }
  const scales = parts.take(`${name}_scales`, ["U8"], [[count, columns, groups]]);
  const rows = groups * 32;
  const form = { rows, columns, lines: columns, block: [32, 1], byColumn: true, zero: 0 } as const;
  return { name, shape: [count, rows, columns], coded: { ...form, code: scheme.code, scales } };
};

/** Places of eight rows in a word of AWQ. */
const AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7];

/** GPTQ packs codes along the input, AWQ along the output. Both store the transposed weight, and zeros along the output. */
const groupwise: Layout = (parts, scheme) => {
  const stem = parts.base.replace(/qweight$/, "");
  if (stem === parts.base) throw new Disagreement(`${parts.codes.name} is not named qweight`);
  parts.expectCodes("I32", 2);
  const isAwq = scheme.layout === "awq";
  const perWord = 32 / CODE_BITS[scheme.code];
  const [height = 0, width = 0] = parts.codes.shape;
  const [rows, columns] = isAwq ? [width * perWord, height] : [width, height * perWord];
  if (rows % perWord !== 0) throw new Disagreement(`${parts.codes.name} has ${rows} rows, which do not fill words`);
  const [sharing] = scheme.scales;
  const size = typeof sharing === "object" && "group" in sharing ? sharing.group : columns;
  if (isAwq && columns % size !== 0) {
    throw new Disagreement(`${parts.codes.name} has ${columns} columns, which do not fill groups of ${size}`);
  }
  const count = Math.ceil(columns / size);
  const scales = parts.take(`${stem}scales`, FLOATS, [[count, rows]]);
  const zeros = parts.take(`${stem}qzeros`, ["I32"], [[count, rows / perWord]]);
  const hasGroups = !isAwq && (scheme.isOrdered || parts.get(`${stem}g_idx`));
  const groups = hasGroups ? parts.take(`${stem}g_idx`, ["I32"], [[columns]]) : undefined;
  const { symmetric } = scheme;
  const coded: CodedValues = {
    code: scheme.code,
    rows,
    columns,
    lines: isAwq ? columns : height,
    block: [1, size],
    byColumn: true,
    zero: symmetric?.zero ?? scheme.zero ?? 0,
    scales,
    zeros,
    ...(symmetric ? { sameZeros: symmetric.stored } : {}),
    ...(isAwq ? { order: AWQ_ORDER } : {}),
    ...(groups ? { groups, ...(scheme.isOrdered ? { isReordered: true } : {}) } : {}),
  };
  return { name: `${stem}weight`, shape: [rows, columns], coded };
};

const LAYOUTS: Readonly<Record<Scheme["layout"], Layout>> = {
  bytes,
  halves,
  words,
  experts,
  gptq: groupwise,
  awq: groupwise,
};

/**
 * A module's codes as a tensor of values.
 * @returns why the tensors are not what the scheme says, as a clause
 */
export function readParts(parts: Parts, scheme: Scheme, shapes: Shapes): Found | string {
  try {
    const found = LAYOUTS[scheme.layout](parts, scheme, shapes);
    return { ...found, of: parts.finish() };
  } catch (error) {
    if (error instanceof Disagreement) return error.message;
    throw error;
  }
}
