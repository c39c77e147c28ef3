import { expect, it } from "vitest";
import { drawnPage } from "../../test/support/drawn-page.js";
import type { Figure } from "./figures.js";
import { placeLines } from "./page.js";

const place = (points: readonly (readonly [number, number])[], references: readonly number[] = []) =>
  placeLines({
    ...{ xTitle: "lambda", scale: "share" },
    lines: [{ label: "", points: points.map(([x, mean]) => ({ x, mean })) }],
    references: references.map((mean) => ({ label: "base", mean })),
  });

it("places points between round ticks", () => {
  const { xTicks, yTicks, lines, references } = place(
    [
      [-0.5, 0.12],
      [0.5, 0.31],
      [1.5, 0.58],
    ],
    [0.2],
  );
  expect(xTicks).toEqual([
    { at: 0, text: "-0.5" },
    { at: 0.25, text: "0" },
    { at: 0.5, text: "0.5" },
    { at: 0.75, text: "1" },
    { at: 1, text: "1.5" },
  ]);
  expect(yTicks.map(({ text }) => text)).toEqual(["10", "20", "30", "40", "50", "60"]);
  expect(lines[0]?.points.map(({ at }) => at[0])).toEqual([0, 0.5, 1]);
  expect(lines[0]?.points[0]?.at[1]).toBeCloseTo(0.04, 12);
  expect(lines[0]?.points[1]).toMatchObject({ where: "lambda 0.5", value: "31.0" });
  expect(references[0]?.at).toBeCloseTo(0.2, 12);
  expect(references[0]?.text).toBe("base 20.0");
});

it("has no ticks between whole numbers", () => {
  const rounds = [1, 2, 3].map((x) => [x, x / 10] as const);
  expect(place(rounds).xTicks.map(({ text }) => text)).toEqual(["1", "2", "3"]);
  const far = [0, 40].map((x) => [x, x / 100] as const);
  expect(place(far).xTicks.map(({ text }) => text)).toEqual(["0", "5", "10", "15", "20", "25", "30", "35", "40"]);
});

it("places a line of equal values in the middle, and a single point", () => {
  const { yTicks, lines } = place([
    [0, 0.5],
    [1, 0.5],
  ]);
  expect(yTicks.map(({ text }) => text)).toEqual(["45", "55"]);
  for (const { at } of lines[0]?.points ?? []) expect(at[1]).toBeCloseTo(0.5, 12);
  expect(place([[3, 0.5]]).lines[0]?.points[0]?.at[0]).toBe(0.5);
});

it("is drawn with the interval of a single point, and long names of references in the legend", async () => {
  const point = { x: 1, mean: 0.5, interval: { low: 0.4, high: 0.6 } };
  const drawn = async (label: string) => {
    const figure: Figure = {
      kind: "lines",
      title: "t",
      verdict: "",
      xTitle: "lambda",
      scale: "share",
      lines: [{ label: "", points: [point] }],
      references: [{ label, mean: 0.3 }],
    };
    const section = { id: "s", title: "s", figures: [figure] };
    return drawnPage({ title: "", lead: "", verdicts: [], notes: [], footer: "", sections: [section] });
  };
  const page = await drawn("base");
  expect(page.match(/class="whisker"/g)).toHaveLength(2);
  // Beside its line in the wide layout, in the legend in the narrow one.
  expect(page.match(/<text x="[\d.]+" y="[\d.]+">base 30.0</g)).toHaveLength(1);
  expect(page.match(/<span class="narrow"><svg.*?<\/svg>base 30.0</g)).toHaveLength(1);
  const long = await drawn("an expert with a name as long as this one");
  expect(long).not.toMatch(/<text x="[\d.]+" y="[\d.]+">an expert/);
  expect(long).toMatch(/<span class=""><svg.*?<\/svg>an expert with a name as long as this one 30.0</);
});
