import { expect, it } from "vitest";
import { Kernels } from "../../kernels/index.js";
import { bytesOfBuffers, reserveBuffers } from "./buffers.js";

it("buffers do not overlap, and take the bytes that are counted and padding", () => {
  const kernels = new Kernels();
  const sizes = { first: 40, none: 0, many: [3, 24] as const, last: 8 };
  expect(bytesOfBuffers(sizes)).toBe(40 + 3 * 24 + 8);
  const start = kernels.allocate(0);
  const { first, none, many, last } = reserveBuffers(kernels, sizes);
  const places = [[start, 0], [first, 40], [none, 0], ...many.map((at) => [at, 24]), [last, 8]] as [number, number][];
  expect(many).toHaveLength(3);
  for (const [i, [at, bytes]] of places.entries()) {
    expect(at + bytes).toBeLessThanOrEqual(places[i + 1]?.[0] ?? kernels.allocate(0));
  }
});
