// Tensors that go into a session and come out of it, and the check of what is fed. Not what weights are stored as.
import { elementCount, formatShape, plural } from "../../core/index.js";
import { RuntimeError } from "./errors.js";

/** A tensor's values, row-major. */
export type TensorValue =
  | { readonly dtype: "f32"; readonly shape: readonly number[]; readonly data: Float32Array }
  | { readonly dtype: "i64"; readonly shape: readonly number[]; readonly data: BigInt64Array }
  /** One byte per element, 0 or 1. */
  | { readonly dtype: "bool"; readonly shape: readonly number[]; readonly data: Uint8Array };

/** What a session declares of an input or output. */
export interface ValueInfo {
  readonly name: string;
  readonly dtype: TensorValue["dtype"];
  /** Extents; a name where only a run knows it, "" where nothing is said. */
  readonly shape: readonly (number | string)[];
}

const ARRAYS = { f32: Float32Array, i64: BigInt64Array, bool: Uint8Array } as const;

/**
 * Checks what is fed against what a session declares: every input there and none besides, dtypes, shapes, one extent for
 * each name of an extent.
 * @throws {RuntimeError} that says the first problem, with the input's name.
 */
export function checkFeeds(feeds: Readonly<Record<string, TensorValue>>, inputs: readonly ValueInfo[]): void {
  const names = new Set(inputs.map(({ name }) => name));
  for (const name of Object.keys(feeds)) {
    if (!names.has(name)) {
      throw new RuntimeError(`the graph has no input ${name}; it has ${[...names].join(", ") || "none"}`, {
        tensor: name,
      });
    }
  }
  const extents = new Map<string, { extent: number; input: string }>();
  for (const input of inputs) {
    const value = feeds[input.name];
    if (value === undefined) {
      throw new RuntimeError(`the graph's input ${input.name} is not fed`, { tensor: input.name });
    }
    checkValue(input.name, value, input);
    for (const [axis, name] of input.shape.entries()) {
      if (typeof name === "number" || name === "") continue;
      const extent = value.shape[axis] ?? 0;
      const known = extents.get(name);
      if (known === undefined) extents.set(name, { extent, input: input.name });
      else if (known.extent !== extent) {
        throw new RuntimeError(
          `axis ${axis} of the input ${input.name} is ${name}, and has ${extent}; in ${known.input} ${name} is ${known.extent}`,
          { tensor: input.name, expected: String(known.extent), actual: String(extent) },
        );
      }
    }
  }
}

/**
 * Checks a value against a declaration.
 * @throws {RuntimeError} if dtype, shape or number of elements differ, or the memory is shared.
 */
export function checkValue(name: string, value: TensorValue, declared: ValueInfo): void {
  if (value.dtype !== declared.dtype || !(value.data instanceof ARRAYS[value.dtype])) {
    const actual = value.dtype === declared.dtype ? value.data.constructor.name : value.dtype;
    throw new RuntimeError(`${name} is ${actual}, and the graph declares ${declared.dtype}`, {
      tensor: name,
      expected: declared.dtype,
      actual,
    });
  }
  if (value.data.buffer instanceof SharedArrayBuffer) {
    throw new RuntimeError(`${name} stands in shared memory, which ONNX Runtime's binding does not read; feed a copy`, {
      tensor: name,
    });
  }
  const { shape } = declared;
  const fits =
    value.shape.length === shape.length &&
    value.shape.every((extent, axis) => typeof shape[axis] !== "number" || shape[axis] === extent);
  if (!fits) {
    const expected = `[${shape.map((extent) => (extent === "" ? "?" : extent)).join(", ")}]`;
    throw new RuntimeError(`${name} has shape ${formatShape(value.shape)}, and the graph declares ${expected}`, {
      tensor: name,
      expected,
      actual: formatShape(value.shape),
    });
  }
  if (value.data.length !== elementCount(value.shape)) {
    throw new RuntimeError(
      `${name} has ${plural(value.data.length, "element")}; shape ${formatShape(value.shape)} has ${elementCount(value.shape)}`,
      { tensor: name, expected: String(elementCount(value.shape)), actual: String(value.data.length) },
    );
  }
}
