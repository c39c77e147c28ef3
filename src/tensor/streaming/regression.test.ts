import { expect, it } from "vitest";
import { Kernels } from "../../kernels/kernels.js";
import { Random } from "../../kit/index.js";
import { regress } from "./regression.js";

// Sizes below, at and above those of the panels that it works in.
it.each([
  [3, 1],
  [5, 128],
  [130, 129],
  [64, 300],
])("gives what the models of %i outputs and %i inputs give for the inputs of each", (rows, columns) => {
  const random = Random.of(rows, "regression");
  const draw = (n: number) => Float32Array.from({ length: n }, () => random.float() - 0.5);
  const weights = [draw(rows * columns), draw(rows * columns)];
  const products = [0, 1].map(() => {
    const inputs = Array.from({ length: columns + 10 }, () => draw(columns));
    return Float32Array.from({ length: columns ** 2 }, (_, at) => {
      const [i, j] = [Math.floor(at / columns), at % columns];
      return inputs.reduce((sum, x) => sum + (x[i] as number) * (x[j] as number), 0);
    });
  });
  const found = regress(new Kernels(), weights, products, { rows, columns }, 0.5);
  const element = (product: Float32Array | undefined, i: number, j: number) =>
    (product?.[i * columns + j] as number) * (i === j ? 1 : 0.5);
  // The normal equations: X sum(G_i) - sum(W_i G_i) = 0.
  for (const row of [0, rows - 1]) {
    for (let j = 0; j < columns; j += 7) {
      let [left, size] = [0, 0];
      for (const [m, product] of products.entries()) {
        for (let i = 0; i < columns; i++) {
          const [x, w] = [found[row * columns + i] as number, weights[m]?.[row * columns + i] as number];
          left += (x - w) * element(product, i, j);
          size += (Math.abs(x) + Math.abs(w)) * Math.abs(element(product, i, j));
        }
      }
      expect(Math.abs(left)).toBeLessThan(1e-6 * size);
    }
  }
});
