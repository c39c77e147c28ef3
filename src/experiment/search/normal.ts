/** Beyond this the probability of either side is below 1e-9, less than any margin asks for. */
const FAR = 6.5;

/** P(X <= x), to about 1e-15, by the series around 0 (Marsaglia, 2004). */
export function normalBelow(x: number): number {
  if (!(Math.abs(x) < FAR)) return x > 0 ? 1 : 0;
  let [sum, term] = [x, x];
  for (let i = 3; Math.abs(term) > 1e-17 * Math.abs(sum); i += 2) {
    term *= (x * x) / i;
    sum += term;
  }
  return 0.5 + (sum * Math.exp(-0.5 * x * x)) / Math.sqrt(2 * Math.PI);
}

/** The x with P(X > x) = p. @param p from 1e-9 to 0.5 */
export function normalAbove(p: number): number {
  let [low, high] = [0, FAR];
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (normalBelow(-middle) > p) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
