// Judges what label-free.js measured: node examples/miniature/judge.js PAIR.jsonl... (one file for each pair of experts).
// First what choosing by each signal costs against choosing on labels, then how well what is known before a byte is
// written separates merges that work from those that do not.
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { bootstrapInterval, crossedDifference } from "layergraft/evaluate";

/** A merge works if it solves at least this share of what the pair's best merge does, both above chance. */
const WORKS = 0.5;
/** The rule that the first three pairs gave, and its threshold. */
const RULE = { name: "share of the math expert's change kept", least: 0.6 };
/** Swaps whose boundaries the name has. */
const IS_SWAP = /^(?:swap|reverse) (\d+) (\d+)/;

const pairs = process.argv.slice(2).map((file) => {
  const merges = readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  return { name: basename(file, ".jsonl"), merges };
});

/** @param {number[]} list */
const mean = (list) => list.reduce((sum, one) => sum + one, 0) / list.length;
/** @param {string} bits */
const shareOf = (bits) => mean([...bits].map(Number));
/** @param {unknown[]} one @param {unknown[]} other */
const agreement = (one, other) => mean(one.map((value, i) => Number(value !== null && value === other[i])));
/** The most frequent value. @param {unknown[]} list */
const mode = (list) => {
  const count = (/** @type {unknown} */ value) => list.filter((one) => one === value).length;
  return [...new Set(list)].sort((a, b) => count(b) - count(a))[0] ?? null;
};
/** By deviations from the mean of all. @param {number[]} list */
const standard = (list) => {
  const [centre, size] = [mean(list), Math.sqrt(mean(list.map((one) => (one - mean(list)) ** 2))) || 1];
  return list.map((one) => (one - centre) / size);
};
/** @param {number} value */
const points = (value) => (100 * value).toFixed(1);
/** @param {(string | number)[][]} rows */
const table = ([head = [], ...rows]) =>
  [head, head.map(() => "---"), ...rows].map((row) => `| ${row.join(" | ")} |`).join("\n");

/** CKA of both experts at the least alike boundary of a swap: after its bottom and below its top layers. @param {any} merge */
function boundary({ name, alignment }) {
  const [, bottom = 0, top = 0] = (name.match(IS_SWAP) ?? []).map(Number);
  const between = alignment[2];
  const at = [bottom - 1, ...(top > 0 ? [between.length - top - 1] : [])].filter((layer) => layer >= 0);
  return Math.min(...at.map((layer) => between[layer] ?? 0));
}

/** Samples of a prompt follow each other. @param {any} merge */
const selfConsistency = ({ samples }, count = 3) =>
  mean(
    Array.from({ length: samples.length / count }, (_, i) => {
      const own = samples.slice(i * count, (i + 1) * count);
      return own.filter((/** @type {unknown} */ one) => one !== null && one === mode(own)).length / count;
    }),
  );

/** Numbers of bottom and of top layers. @param {any} merge @returns {[number, number]} */
const numbersOf = ({ name }) => name.match(IS_SWAP).slice(1).map(Number);
/** All numbers of bottom (0) or top (1) layers in a grid. @param {any[]} grid @param {0 | 1} side */
const offered = (grid, side) => [...new Set(grid.map((merge) => numbersOf(merge)[side]))].sort((a, b) => a - b);
/** Steps of a grid between two swaps. @param {any[]} grid @param {any} one @param {any} other */
const distance = (grid, one, other) => {
  const steps = (/** @type {0 | 1} */ side) => {
    const [at = 0, to = 0] = [one, other].map((merge) => offered(grid, side).indexOf(numbersOf(merge)[side]));
    return Math.abs(at - to);
  };
  return steps(0) + steps(1);
};

/** Higher is chosen. @type {Record<string, (grid: any[]) => number[]>} */
const SIGNALS = {
  "labels, 100 prompts": (grid) => grid.map(({ choosing }) => shareOf(choosing.slice(0, 100))),
  "task expert's answers in English": (grid) => grid.map(({ answers, taught }) => agreement(answers, taught)),
  "own answers in English": (grid) => grid.map(({ answers, english }) => agreement(answers, english)),
  "most frequent answer of all": (grid) => {
    const most = grid[0].answers.map((/** @type {unknown} */ _, /** @type {number} */ i) =>
      mode(grid.map(({ answers }) => answers[i])),
    );
    return grid.map(({ answers }) => agreement(answers, most));
  },
  // Generation consistency (arXiv 2503.23733), with all other merges in place of neighbours on a line.
  "answers of the others": (grid) =>
    grid.map((merge) =>
      mean(grid.filter((one) => one !== merge).map(({ answers }) => agreement(merge.answers, answers))),
    ),
  // The same with the swaps that take one layer more or less from one side.
  "answers of the neighbours": (grid) =>
    grid.map((merge) =>
      mean(
        grid.filter((one) => distance(grid, one, merge) === 1).map(({ answers }) => agreement(merge.answers, answers)),
      ),
    ),
  "self-consistency, 3 samples": (grid) => grid.map((merge) => selfConsistency(merge)),
  "log-probability of answers": (grid) => grid.map(({ confidence }) => confidence),
  "entropy of samples, lowest": (grid) => grid.map(({ entropy }) => -entropy),
  "equations that hold": (grid) => grid.map(({ equations }) => equations),
  "language expert's texts": (grid) => grid.map(({ texts }) => texts),
  "labelled English problems": (grid) => grid.map(({ solved }) => shareOf(solved)),
  "texts and English solutions": (grid) => {
    const [texts, solutions] = [standard(grid.map((one) => one.texts)), standard(grid.map((one) => one.solutions))];
    return texts.map((one, i) => one + (solutions[i] ?? 0));
  },
  "texts and log-probability of answers": (grid) => {
    const [texts, sure] = [standard(grid.map((one) => one.texts)), standard(grid.map((one) => one.confidence))];
    return texts.map((one, i) => one + (sure[i] ?? 0));
  },
  "CKA at the boundaries": (grid) => grid.map((merge) => (IS_SWAP.test(merge.name) ? boundary(merge) : Number.NaN)),
  "the default": (grid) => grid.map((merge) => Number(merge.default === true)),
};

/** What a signal needs that answers chosen from a list do not have. @type {Record<string, string>} */
const NEEDS = { "self-consistency, 3 samples": "samples", "equations that hold": "equations" };

/** Right answers by item, averaged over the merges that are tied for the highest value. @param {any[]} grid @param {number[]} values */
function chosen(grid, values) {
  const most = Math.max(...values);
  const tied = grid.filter((_, i) => (values[i] ?? 0) > most - 1e-9);
  const items = [...tied[0].test].map((_, item) => mean(tied.map(({ test }) => Number(test[item]))));
  return { items, names: tied.map(({ name }) => name.replace("swap ", "")) };
}

const columns = pairs.map(({ name }) => name);
/** Test problems that all merges were asked. */
const least = Math.min(...pairs.flatMap(({ merges }) => merges.map(({ test }) => test.length)));

/** @param {string[]} names */
const shortly = ([name = "", ...others]) => (others.length > 0 ? `${name} and ${others.length} tied` : name);

const grids = pairs.map(({ merges }) => merges.filter(({ group }) => group === "grid"));
/** What the labels of all development prompts choose. @param {any[]} grid */
const byLabels = (grid) =>
  chosen(
    grid,
    grid.map(({ choosing }) => shareOf(choosing)),
  );
const onLabels = grids.map(byLabels);
/** Smaller grids that keep the default: without another number of bottom or top layers. */
const smaller = grids.flatMap((grid) => {
  const kept = numbersOf(grid.find((merge) => merge.default));
  return /** @type {const} */ ([0, 1]).flatMap((side) =>
    offered(grid, side)
      .filter((number) => number !== kept[side])
      .map((number) => grid.filter((merge) => numbersOf(merge)[side] !== number)),
  );
});
const byDefault = grids.map((grid) => shareOf(grid.find((merge) => merge.default).test));
/** One model for each pair, for `crossedDifference`. @param {readonly { items: number[] }[]} list */
const modelsOf = (list) =>
  list.map(({ items }, pair) => ({
    levels: { pair: columns[pair] ?? "" },
    values: new Map(items.map((right, item) => [String(item), right])),
  }));
const measured = Object.entries(SIGNALS).filter(([signal]) =>
  grids.flat().every((merge) => (NEEDS[signal] ?? "test") in merge),
);
const choices = measured.map(([signal, measure]) => {
  const all = grids.map((grid) => chosen(grid, measure(grid)));
  const lost = all.map(({ items }, pair) => mean(onLabels[pair]?.items ?? []) - mean(items));
  const gains = all.map(({ items }, pair) => mean(items) - (byDefault[pair] ?? 0));
  const ofFewer = smaller.map((grid) => mean(byLabels(grid).items) - mean(chosen(grid, measure(grid)).items));
  const { difference, interval } = crossedDifference(modelsOf(all), modelsOf(onLabels));
  const range = interval ? ` (${points(interval.low)} to ${points(interval.high)})` : "";
  // Differences of 0.3 points are one problem; a tie with the default is not below it.
  const isReached = Math.max(...lost) <= 0.02 + 1e-9 && Math.min(...gains) >= -1e-9;
  const cells = all.map(({ names }, pair) => `${points(lost[pair] ?? 0)}: ${shortly(names)}`);
  const figures = [
    `${points(difference)}${range}`,
    points(Math.max(...lost)),
    points(Math.min(...gains)),
    points(Math.max(...ofFewer)),
  ];
  return [signal, ...cells, ...figures, isReached ? "yes" : "no"];
});
console.log("Points lost against the choice on all labels, by pair of experts\n");
console.log(
  table([
    ["chosen by", ...columns, "mean", "most", "least gain on the default", "most, of fewer", "reached"],
    ...choices,
  ]),
);
const solvedBy = [
  ["chosen on labels", ...onLabels.map(({ items, names }) => `${points(mean(items))}: ${shortly(names)}`)],
  ["default", ...byDefault.map(points)],
  ["best of the grid on the test", ...grids.map((grid) => points(Math.max(...grid.map(({ test }) => shareOf(test)))))],
];
console.log(`\n${table([["percent solved", ...columns], ...solvedBy])}`);

/** How much of an expert's change a merge has, by its projection. @param {any} figures @param {0 | 1} expert */
const amount = ({ norms, cosines }, expert) =>
  norms[expert] > 0 ? ((cosines[1 + expert] ?? 0) * norms[2]) / norms[expert] : 1;
/** The same, at most all of it. @param {any} figures @param {0 | 1} expert */
const kept = (figures, expert) => Math.min(1, Math.max(0, amount(figures, expert)));
/** 1 for exactly the expert's change, 0 for none of it or twice as much. @param {any} figures @param {0 | 1} expert */
const nearness = (figures, expert) => 1 - Math.abs(1 - amount(figures, expert));
/** The same, where each layer that the expert changed counts alike. @param {any} changes @param {0 | 1} expert */
const keptByLayer = ({ layers }, expert) =>
  mean(
    layers.filter((/** @type {any} */ one) => one.norms[expert] > 0).map((/** @type {any} */ one) => kept(one, expert)),
  );
/** Share of the merge's squared change along both experts' changes. @param {any} changes */
const explained = ({ total: { cosines } }) => {
  const [between = 0, math = 0, language = 0] = cosines;
  return (math ** 2 + language ** 2 - 2 * between * math * language) / (1 - between ** 2);
};
/** @type {Record<string, (merge: any) => number>} */
const BEFORE = {
  "direction of both changes (cosine)": ({ changes }) => changes.total.cosines[0] ?? 0,
  "size of the merge's change, to the base's norm": ({ changes }) => changes.total.relative[2],
  "layers that neither expert changed": ({ changes }) =>
    mean(changes.layers.map((/** @type {any} */ { norms }) => Number(norms[0] === 0 && norms[1] === 0))),
  "share of the math expert's change kept": ({ changes }) => kept(changes.total, 0),
  "share of the language expert's change kept": ({ changes }) => kept(changes.total, 1),
  "the lesser of the two": ({ changes }) => Math.min(kept(changes.total, 0), kept(changes.total, 1)),
  "the lesser, by layer": ({ changes }) => Math.min(keptByLayer(changes, 0), keptByLayer(changes, 1)),
  "the lesser, more than all counting as less": ({ changes }) =>
    Math.min(nearness(changes.total, 0), nearness(changes.total, 1)),
  "change along both experts' changes": ({ changes }) => explained(changes),
  "CKA at the boundaries (swaps)": (merge) => (IS_SWAP.test(merge.name) ? boundary(merge) : Number.NaN),
};
const tried = pairs.map(({ merges }) => {
  const solved = (/** @type {any} */ { test, chance = 0 }) => shareOf(test.slice(0, least)) - chance;
  const most = Math.max(...merges.map(solved));
  return merges.map((merge) => ({ merge, works: solved(merge) >= WORKS * most }));
});
/** Chance that a merge that works has the higher value. @param {{ value: number, works: boolean }[]} list */
const auc = (list) => {
  const [yes, no] = [list.filter(({ works }) => works), list.filter(({ works }) => !works)];
  return mean(
    yes.flatMap((one) => no.map((other) => (one.value > other.value ? 1 : one.value === other.value ? 0.5 : 0))),
  );
};
/** Share of right verdicts. @param {{ value: number, works: boolean }[]} list @param {number} least */
const accuracy = (list, least) => mean(list.map(({ value, works }) => Number(value >= least === works)));
console.log(`\n${tried.flat().length} merges, ${tried.flat().filter(({ works }) => works).length} work\n`);
const rows = Object.entries(BEFORE).map(([signal, measure]) => {
  const lists = tried.map((list) =>
    list.map(({ merge, works }) => ({ value: measure(merge), works })).filter(({ value }) => !Number.isNaN(value)),
  );
  const areas = lists.map(auc);
  const held = lists.map((list, out) => {
    const seen = lists.filter((_, i) => i !== out).flat();
    const [least = 0] = [...new Set(seen.map(({ value }) => value))].sort(
      (a, b) => accuracy(seen, b) - accuracy(seen, a),
    );
    return { least, right: accuracy(list, least) };
  });
  const { low, high } = bootstrapInterval(
    [areas.map((area) => [area])],
    ([sums], [count]) => (sums?.[0] ?? 0) / (count ?? 1),
  );
  if (signal === RULE.name) {
    const right = lists.map((list) => points(accuracy(list, RULE.least)));
    const swaps = tried.map((list) => list.filter(({ merge }) => merge.name.startsWith("swap ")));
    const ofSwaps = swaps.map((list) => auc(list.map(({ merge, works }) => ({ value: measure(merge), works }))));
    console.log(`${signal}, at least ${RULE.least}: right on ${right.join(", ")}%`);
    console.log(`Its AUC on swaps alone: ${ofSwaps.map((area) => area.toFixed(2)).join(", ")}\n`);
  }
  return [
    signal,
    ...areas.map((area) => area.toFixed(2)),
    `${mean(areas).toFixed(2)} (${low.toFixed(2)} to ${high.toFixed(2)})`,
    Math.min(...areas).toFixed(2),
    held.map(({ least }) => least.toFixed(2)).join(", "),
    held.map(({ right }) => points(right)).join(", "),
  ];
});
console.log(
  table([["AUC", ...columns, "mean", "least", "threshold of the others", "right on the pair left out, %"], ...rows]),
);
const majority = tried.map((list) =>
  points(Math.max(mean(list.map(({ works }) => Number(works))), 1 - mean(list.map(({ works }) => Number(works))))),
);
const bySize = tried.map((list) => `${list.filter(({ works }) => works).length} of ${list.length}`);
console.log(`\nWork: ${bySize.join(", ")}. Saying the same of every merge is right on ${majority.join(", ")}%.`);
