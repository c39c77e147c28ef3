// How often the 95% interval of crossedDifference holds the true difference: npm run bench -- coverage [DRAWS]
// Studies are drawn from worlds with a known truth: a method of several seeds against one model, or against another method
// seed by seed. An item is right if ability + ease + noise is above 0 (all normal), so that items and seeds cross.
import { crossedDifference } from "layergraft/evaluate";

const SEEDS = [2, 3, 5, 10];
const ITEMS = [20, 50, 250, 1000];
/** True scores of both methods. @type {readonly (readonly [number, number])[]} */
const SCORES = [
  [0.5, 0.6],
  [0.04, 0.08],
  [0.95, 0.98],
];
/**
 * Deviations of a seed's ability: 0.2 are 5.6 points at a score of 50, 0.6 are 15. `uneven` has one seed in five that failed, by
 * twice as much as the others are above the mean of all.
 */
const SPREADS = [
  { name: "none", size: 0, uneven: false },
  { name: "5.6 points", size: 0.2, uneven: false },
  { name: "15 points", size: 0.6, uneven: false },
  { name: "15 points, uneven", size: 0.6, uneven: true },
];

/** @param {string[]} args */
export function benchmarkCoverage([given]) {
  const draws = Number(given ?? 2000);
  const error = 100 * Math.sqrt((0.95 * 0.05) / draws);
  console.log(
    `${draws} studies for each number; an interval that is right has 95.0 with a standard error of ${error.toFixed(1)}.`,
  );
  console.log("Three numbers: scores of 50 and 60%, 4 and 8%, 95 and 98%.\n");
  for (const isPaired of [false, true]) {
    console.log(
      isPaired
        ? "\nSeeds of one method against the same seeds of another:\n"
        : "Seeds of a method against one model:\n",
    );
    console.log(`| seeds | spread | ${ITEMS.map((items) => `${items} items`).join(" | ")} |`);
    console.log(`| ---: | --- | ${ITEMS.map(() => "---").join(" | ")} |`);
    for (const seeds of SEEDS) {
      for (const spread of SPREADS) {
        const cells = ITEMS.map((items) =>
          SCORES.map((scores) => coverage({ seeds, items, spread, scores, isPaired, draws }).toFixed(1)).join(" / "),
        );
        console.log(`| ${seeds} | ${spread.name} | ${cells.join(" | ")} |`);
      }
    }
  }
}

/** @param {{ seeds: number, items: number, spread: typeof SPREADS[number], scores: readonly [number, number], isPaired: boolean, draws: number }} world */
function coverage({ seeds, items, spread, scores, isPaired, draws }) {
  const random = normals(seeds * 7919 + items);
  const first = abilityFor(scores[0], isPaired ? spread : { size: 0, uneven: false });
  const second = abilityFor(scores[1], spread);
  const ids = Array.from({ length: items }, (_, i) => String(i));
  const seeded = () =>
    Array.from({ length: seeds }, (_, seed) => ({ levels: { seed: String(seed) }, values: new Map() }));
  const others = isPaired ? seeded() : [{ levels: {}, values: new Map() }];
  const all = seeded();
  const ease = new Float64Array(items);
  /** @param {Map<string, number>} values @param {number} ability */
  const answer = (values, ability) => {
    for (const [i, id] of ids.entries()) values.set(id, ability + (ease[i] ?? 0) + random.normal() > 0 ? 1 : 0);
  };
  let held = 0;
  for (let draw = 0; draw < draws; draw++) {
    for (let i = 0; i < items; i++) ease[i] = random.normal();
    for (const { values } of others) answer(values, first + (isPaired ? seedEffect(spread, random) : 0));
    for (const { values } of all) answer(values, second + seedEffect(spread, random));
    const { difference, interval } = crossedDifference(others, all);
    const truth = scores[1] - scores[0];
    // Where nothing varies there is no interval, and no claim that holds.
    if (interval ? interval.low <= truth && truth <= interval.high : Math.abs(difference - truth) < 1e-9) held++;
  }
  return (100 * held) / draws;
}

/** Mean 0 and deviation `size`. @param {{ size: number, uneven: boolean }} spread @param {ReturnType<typeof normals>} random */
function seedEffect({ size, uneven }, random) {
  if (!uneven) return size * random.normal();
  return random.uniform() < 0.2 ? -2 * size : 0.5 * size;
}

/** The ability whose share of right answers over seeds, items and noise is `score`. @param {number} score @param {{ size: number, uneven: boolean }} spread */
function abilityFor(score, { size, uneven }) {
  const share = (/** @type {number} */ ability) =>
    uneven
      ? 0.2 * normalBelow((ability - 2 * size) / Math.SQRT2) + 0.8 * normalBelow((ability + 0.5 * size) / Math.SQRT2)
      : normalBelow(ability / Math.sqrt(2 + size ** 2));
  let [low, high] = [-12, 12];
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (share(middle) < score) low = middle;
    else high = middle;
  }
  return low;
}

/** The normal distribution by Simpson's rule. @param {number} z */
function normalBelow(z) {
  const steps = 400;
  let sum = 0;
  for (let i = 0; i <= steps; i++)
    sum += (i === 0 || i === steps ? 1 : i % 2 === 0 ? 2 : 4) * Math.exp(-(((z * i) / steps) ** 2) / 2);
  return 0.5 + ((z / steps) * sum) / 3 / Math.sqrt(2 * Math.PI);
}

/** Marsaglia's xorshift32 and Box and Muller's normals. @param {number} seed */
function normals(seed) {
  let state = seed | 1;
  let spare = Number.NaN;
  const uniform = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 20; i++) uniform();
  const normal = () => {
    if (!Number.isNaN(spare)) {
      const kept = spare;
      spare = Number.NaN;
      return kept;
    }
    const [radius, angle] = [Math.sqrt(-2 * Math.log(1 - uniform())), 2 * Math.PI * uniform()];
    spare = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  };
  return { uniform, normal };
}
