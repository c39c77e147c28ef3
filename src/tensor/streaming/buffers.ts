// Buffers by name: what a thread needs is counted and reserved from one description.
import type { Kernels } from "../../kernels/index.js";

/** Bytes of each buffer; of several alike, how many and the bytes of each. */
export type BufferSizes = Readonly<Record<string, number | readonly [count: number, bytes: number]>>;

/** Address of each buffer. */
export type Buffers<Sizes extends BufferSizes> = {
  readonly [Name in keyof Sizes]: Sizes[Name] extends number ? number : readonly number[];
};

/** Bytes of all buffers. */
export function bytesOfBuffers(sizes: BufferSizes): number {
  return Object.values(sizes).reduce<number>(
    (sum, size) => sum + (typeof size === "number" ? size : size[0] * size[1]),
    0,
  );
}

/** Reserves buffers for the life of the kernels' memory, or of its `borrow`. */
export function reserveBuffers<Sizes extends BufferSizes>(kernels: Kernels, sizes: Sizes): Buffers<Sizes> {
  const places = Object.entries(sizes).map(([name, size]): [string, number | number[]] => {
    if (typeof size === "number") return [name, kernels.allocate(size)];
    const [count, bytes] = size;
    return [name, Array.from({ length: count }, () => kernels.allocate(bytes))];
  });
  return Object.fromEntries(places) as Buffers<Sizes>;
}
