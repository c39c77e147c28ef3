// Element types of the safetensors format.

/**
 * Bits per element of every dtype of the safetensors format.
 * Source: `Dtype` of the safetensors crate, 0.6 and later. F4 and F6 elements are packed, so a
 * tensor of them is valid only if its bits fill whole bytes.
 */
export const DTYPE_BITS = {
  BOOL: 8,
  F4: 4,
  F6_E2M3: 6,
  F6_E3M2: 6,
  U8: 8,
  I8: 8,
  F8_E5M2: 8,
  F8_E4M3: 8,
  F8_E8M0: 8,
  F8_E4M3FNUZ: 8,
  F8_E5M2FNUZ: 8,
  I16: 16,
  U16: 16,
  F16: 16,
  BF16: 16,
  I32: 32,
  U32: 32,
  F32: 32,
  C64: 64,
  F64: 64,
  I64: 64,
  U64: 64,
} as const;

/** A dtype as a safetensors header spells it. */
export type DType = keyof typeof DTYPE_BITS;

/** The dtypes that layergraft computes with; all others can only be copied. */
const FLOAT_DTYPES = ["F32", "F16", "BF16", "F64"] as const;

export type FloatDType = (typeof FLOAT_DTYPES)[number];

export function isDType(name: string): name is DType {
  return Object.hasOwn(DTYPE_BITS, name);
}

export function isFloatDType(dtype: DType): dtype is FloatDType {
  return (FLOAT_DTYPES as readonly string[]).includes(dtype);
}

/** Bytes per element of a dtype whose elements fill whole bytes. */
export function bytesPerElement(dtype: DType): number {
  return DTYPE_BITS[dtype] / 8;
}

/** Dtypes of outputs by the names in configurations (`torch_dtype`). */
export const DTYPE_BY_TORCH_NAME = { bfloat16: "BF16", float16: "F16", float32: "F32" } as const;

export type TorchDTypeName = keyof typeof DTYPE_BY_TORCH_NAME;

export type Shape = readonly number[];

/** Number of elements; a scalar (empty shape) has one. Exact as long as the product is a safe integer. */
export function elementCount(shape: Shape): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

export function sameShape(a: Shape, b: Shape): boolean {
  return a.length === b.length && a.every((extent, axis) => extent === b[axis]);
}

/** `[4096, 1024]`, as PyTorch prints it. */
export function formatShape(shape: Shape): string {
  return `[${shape.join(", ")}]`;
}
