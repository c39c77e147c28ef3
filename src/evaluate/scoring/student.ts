// Student's t distribution, for a fractional number of degrees of freedom, and the binomial: tails and quantiles.

/** From here on, t is the normal distribution to six digits. */
const MAX_DEGREES = 1e6;

/**
 * The probability that |T| is at least `t`, for Student's t with `degrees` of freedom (fractional ones, as of
 * Satterthwaite; Infinity for the normal distribution): the regularized incomplete beta function I(v / (v + t^2); v / 2, 1 / 2)
 * (Abramowitz and Stegun, 26.5.27).
 */
export function studentTail(t: number, degrees: number): number {
  const v = Math.min(degrees, MAX_DEGREES);
  const squared = t * t;
  if (!(v > 0) || Number.isNaN(t)) return Number.NaN;
  if (squared === 0) return 1;
  if (squared === Number.POSITIVE_INFINITY) return 0;
  return incompleteBeta(v / (v + squared), squared / (v + squared), v / 2, 0.5);
}

/** The regularized incomplete beta function I(x; a, b), with y = 1 - x. */
function incompleteBeta(x: number, y: number, a: number, b: number): number {
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log(y));
  // The fraction converges fast below the mean of the beta distribution; above it, the other tail's does.
  const isBelow = x < (a + 1) / (a + b + 2);
  return isBelow ? (front * betaFraction(x, a, b)) / a : 1 - (front * betaFraction(y, b, a)) / b;
}

/** The t that |T| exceeds with probability `outside`, between 0 and 1: 1.96 of 0.05 and many degrees of freedom. */
export function studentQuantile(outside: number, degrees: number): number {
  let [low, high] = [0, 1];
  while (studentTail(high, degrees) > outside && high < 1e300) high *= 2;
  for (let step = 0; step < 200 && high - low > 1e-12 * high; step++) {
    const middle = (low + high) / 2;
    if (studentTail(middle, degrees) > outside) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/**
 * The least chance of success with which as many successes as these are not unusual: the lower end of the interval of
 * Clopper and Pearson 1934 (Biometrika 26), an exact binomial test turned around.
 * @param outside probability of as many successes or more at that chance
 */
export function leastChance(successes: number, failures: number, outside: number): number {
  if (successes === 0) return 0;
  let [low, high] = [0, 1];
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    // P(X >= k) = I(x; k, n - k + 1)
    if (incompleteBeta(middle, 1 - middle, successes, failures + 1) < outside) low = middle;
    else high = middle;
  }
  return low;
}

/** Continued fraction of the incomplete beta function (Abramowitz and Stegun, 26.5.8), by Lentz's method. */
function betaFraction(x: number, a: number, b: number): number {
  const tiny = 1e-300;
  const awayFromZero = (value: number) => (Math.abs(value) < tiny ? tiny : value);
  let c = 1;
  let d = 1 / awayFromZero(1 - ((a + b) * x) / (a + 1));
  let result = d;
  for (let m = 1; m < 10_000; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    let change = 1;
    for (const term of [even, odd]) {
      d = 1 / awayFromZero(1 + term * d);
      c = awayFromZero(1 + term / c);
      change = c * d;
      result *= change;
    }
    if (Math.abs(change - 1) < 1e-15) break;
  }
  return result;
}

/** Stirling's series after shifting the argument above 10; 14 digits. */
function logGamma(x: number): number {
  let [at, shift] = [x, 0];
  for (; at < 10; at++) shift += Math.log(at);
  const inverse = 1 / at;
  const square = inverse * inverse;
  const series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))));
  return (at - 0.5) * Math.log(at) - at + 0.5 * Math.log(2 * Math.PI) + series - shift;
}
