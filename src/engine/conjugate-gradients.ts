// Conjugate gradients: solves A x = b for a symmetric, positive semidefinite A that only multiplies vectors.

export interface GradientsOptions {
  /** Largest size of the residual, as a share of that of b. */
  readonly tolerance: number;
  /** Most products with A. */
  readonly iterations: number;
}

/**
 * Improves x in place (Hestenes and Stiefel 1952). x keeps what A maps to 0.
 * @param multiply the product of A with a vector
 * @returns how many steps were made
 */
export async function conjugateGradients(
  multiply: (x: Float64Array) => Promise<Float64Array>,
  b: Float64Array,
  x: Float64Array,
  { tolerance, iterations }: GradientsOptions,
): Promise<number> {
  const enough = tolerance ** 2 * dot(b, b);
  const product = await multiply(x);
  const residual = b.map((value, i) => value - (product[i] as number));
  const direction = residual.slice();
  let size = dot(residual, residual);
  let steps = 0;
  while (size > enough && steps < iterations) {
    const along = await multiply(direction);
    const curvature = dot(direction, along);
    // Only rounding is left of the direction.
    if (!(curvature > 0)) break;
    const step = size / curvature;
    for (let i = 0; i < x.length; i++) {
      x[i] = (x[i] as number) + step * (direction[i] as number);
      residual[i] = (residual[i] as number) - step * (along[i] as number);
    }
    const before = size;
    size = dot(residual, residual);
    for (let i = 0; i < x.length; i++) {
      direction[i] = (residual[i] as number) + (size / before) * (direction[i] as number);
    }
    steps++;
  }
  return steps;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] as number) * (b[i] as number);
  return sum;
}
