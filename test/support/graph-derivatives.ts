// Derivatives by nodes against differences of values, in float64, along random directions.
import { expect } from "vitest";
import type { Node } from "../../src/engine/graph/index.js";
import type { Random } from "../../src/kit/random.js";
import { evaluate, type Value } from "./graph-reference.js";

/** A tensor to derive with respect to, what it holds, and the derivative in question: undefined says that it is zero. */
export interface Claim {
  readonly input: Node;
  readonly gradient: Node | undefined;
}

/**
 * Checks <gradient, v> against (f(x + h v) - f(x - h v)) / 2h for a random direction v, one input at a time. A wrong
 * element of a gradient shows, whichever it is, as v has no zeros.
 *
 * With h = 1e-5 the difference has an error of h^2 f''' / 6, about 1e-10 of the values here, and of rounding, 1e-16 f / h
 * = 1e-11 f. Constants that are folded are rounded to float32, to 6e-8 each. A tolerance of 1e-6 of what is summed is
 * above all these, and far below any wrong factor.
 */
export function checkGradients(
  scalar: Node,
  claims: readonly Claim[],
  feeds: ReadonlyMap<string, Value>,
  random: Random,
  tolerance = 1e-6,
): void {
  const h = 1e-5;
  const said = claims.flatMap(({ gradient }) => (gradient ? [gradient] : []));
  const values = evaluate([scalar, ...said], feeds);
  const size = Math.abs((values[0] as Value).data[0] as number);
  const gradients = new Map(said.map((node, i) => [node, values[i + 1] as Value]));
  for (const { input, gradient } of claims) {
    const name = input.attributes.name as string;
    const at = feeds.get(name) as Value;
    const direction = at.data.map(() => random.normal());
    const moved = (step: number) => {
      const data = at.data.map((x, i) => x + step * (direction[i] as number));
      return evaluate([scalar], new Map([...feeds, [name, { shape: at.shape, data }]]))[0]?.data[0] as number;
    };
    const difference = (moved(h) - moved(-h)) / (2 * h);
    const value = gradient && (gradients.get(gradient) as Value);
    if (value) expect([name, value.shape, value.data.length]).toEqual([name, at.shape, at.data.length]);
    const products = [...(value?.data ?? [])].map((g, i) => g * (direction[i] as number));
    const derivative = products.reduce((sum, x) => sum + x, 0);
    const scale = products.reduce((sum, x) => sum + Math.abs(x), Math.max(1, size));
    if (!(Math.abs(derivative - difference) <= tolerance * scale)) {
      throw new Error(`with respect to ${name} the gradient is ${derivative} and the difference ${difference}`);
    }
  }
}
