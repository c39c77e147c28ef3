// Against scipy's adaptive integral of the density of Marchenko and Pastur; 2.858 is in the abstract of arXiv 1305.5870.
import { expect, it } from "vitest";
import { noiseThreshold } from "./whole-matrices.js";

it.each([
  [1, 2.8583624240695324],
  [0.5, 2.1711853484538266],
  [0.1, 1.608771557394749],
])("the threshold of noise in singular values, at a ratio of sides of %d", (beta, exact) => {
  expect(noiseThreshold(beta)).toBeCloseTo(exact, 5);
});
