// Heatmaps of experts with any name.
import { expect, it } from "vitest";
import { heatmapSvg } from "./heatmap.js";

it.each(["math", "toString", "__proto__"])("draws an expert called %s", async (title) => {
  const cells = [
    [0.1, 0.2],
    [0.3, null],
  ];
  const svg = await heatmapSvg({ title: "", legend: "share", columns: ["q", "k"], panels: [{ title, cells }] });
  expect(svg).toContain(`>${title}`);
  const labels = [...svg.matchAll(/aria-label="part: (.); layer: (\d); value: ([^"]*)"/g)].map(([, ...cell]) =>
    cell.join(" "),
  );
  expect(labels).toEqual(["q 0 10%", "k 0 20%", "q 1 30%", "k 1 null"]);
});

it("draws the same bytes again, also beside other drawings", async () => {
  const draw = (title: string) =>
    heatmapSvg({ title, legend: "share", columns: ["q"], panels: [{ title: "math", cells: [[0.1]] }] });
  const first = await draw("one");
  const [again, other, third] = await Promise.all([draw("one"), draw("two"), draw("one")]);
  expect(first).toContain("url(#");
  expect([again, third]).toEqual([first, first]);
  expect(other).not.toBe(first);
});
