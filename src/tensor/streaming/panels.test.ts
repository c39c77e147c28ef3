import { describe, expect, it } from "vitest";
import { Kernels } from "../../kernels/kernels.js";
import { Random } from "../../kit/index.js";
import { Panels } from "./panels.js";

function filled(count: number, length: number, vector: (i: number) => Float64Array): Panels {
  const panels = new Panels(new Kernels(), count, length);
  for (let i = 0; i < count; i++) panels.setVector(i, vector(i));
  return panels;
}

const dot = (a: Float64Array, b: Float64Array) => a.reduce((sum, x, i) => sum + x * (b[i] ?? 0), 0);

/** Largest difference of the vectors' products from those of orthonormal ones. */
function deviation(panels: Panels): number {
  const vectors = Array.from({ length: panels.count }, (_, i) => panels.vector(i));
  return Math.max(...vectors.flatMap((a, i) => vectors.map((b, j) => Math.abs(dot(a, b) - (i === j ? 1 : 0)))));
}

describe("Panels", () => {
  it("keeps vectors as they are", () => {
    const vectors = Array.from({ length: 3 }, (_, i) => Float64Array.from({ length: 300 }, (_, k) => i * 1000 + k));
    const panels = filled(3, 300, (i) => vectors[i] ?? new Float64Array());
    expect([0, 1, 2].map((i) => panels.vector(i))).toEqual(vectors);
  });

  it.each([
    [5, 7],
    [40, 300],
    [64, 200],
  ])("makes %i vectors of length %i orthonormal, whatever they span", (count, length) => {
    const random = Random.of(0, "panels");
    const gaussian = () => Float64Array.from({ length }, () => random.normal());
    const [first, second] = [gaussian(), gaussian()];
    const cases = {
      independent: gaussian,
      "of rank 2": () => {
        const [a, b] = [random.normal(), random.normal()];
        return first.map((x, k) => a * x + b * (second[k] ?? 0));
      },
      "of falling size": (i: number) => gaussian().map((x) => x * 10 ** -(i / 4)),
    };
    for (const vector of Object.values(cases)) {
      const panels = filled(count, length, vector);
      panels.orthonormalize();
      expect(deviation(panels)).toBeLessThan(1e-13);
    }
  });

  it("spans what the vectors span, in order", () => {
    const random = Random.of(0, "span");
    const vectors = Array.from({ length: 20 }, () => Float64Array.from({ length: 150 }, () => random.normal()));
    const panels = filled(20, 150, (i) => vectors[i] ?? new Float64Array());
    panels.orthonormalize();
    vectors.forEach((vector, i) => {
      const squares = Array.from({ length: i + 1 }, (_, j) => dot(vector, panels.vector(j)) ** 2);
      expect(squares.reduce((sum, x) => sum + x, 0) / dot(vector, vector)).toBeCloseTo(1, 12);
    });
  });

  it("leaves vectors of zeros", () => {
    const panels = filled(3, 10, (i) => new Float64Array(10).fill(i === 1 ? 0 : 1));
    panels.orthonormalize();
    expect(panels.vector(1)).toEqual(new Float64Array(10));
  });
});
