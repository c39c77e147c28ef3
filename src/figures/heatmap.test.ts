// Heatmaps as SVG: cells, colours and names of any kind.
import { expect, it } from "vitest";
import { heatmapLines, heatmapSvg } from "./heatmap.js";

const cells = [
  [0.1, 0.2],
  [0.4, null],
];
const draw = (title: string) =>
  heatmapSvg({ title: "Changes", legend: "share", columns: ["q", "k"], panels: [{ title, subtitle: "at 1", cells }] });

it.each([
  ["math", "math"],
  ["__proto__", "__proto__"],
  ["شرح", "\u2068شرح\u2069"],
  ['<a> & "b"\u0001', "&lt;a&gt; &amp; &quot;b&quot;\u2401"],
])("names an expert %j", (title, written) => {
  const svg = draw(title);
  expect(svg).toContain(`>${written}</text>`);
  expect(svg).toContain(`<desc>Layers by projections. Cells: share. ${written}: at most 40% (layer 1, q).</desc>`);
  expect(svg.startsWith('<svg xmlns="http://www.w3.org/2000/svg" role="img" width=')).toBe(true);
});

it("draws a cell for each value, darker on light paper and brighter on dark paper where it is larger", () => {
  const drawn = [
    ...draw("math").matchAll(
      /<rect x="(\d+)" y="(\d+)"[^>]* fill="(#\w+)" style="--dark:(#\w+)"><title>(.*?)<\/title>/g,
    ),
  ].map(([, ...parts]) => parts);
  // A quarter, a half and all of the maximum, with layer 0 at the bottom.
  expect(drawn).toEqual([
    ["56", "179", "#d1edcc", "#1e3a2b", "layer 0, q: 10%"],
    ["96", "179", "#8fd08f", "#2a663f", "layer 0, k: 20%"],
    ["56", "164", "#00441b", "#c9f2c4", "layer 1, q: 40%"],
  ]);
});

it("puts three panels in a row", () => {
  const panel = (title: string) => ({ title, cells });
  const size = (count: number) => {
    const panels = Array.from({ length: count }, (_, i) => panel(`e${i}`));
    const svg = heatmapSvg({ title: "", legend: "", columns: ["q", "k"], panels });
    return /width="(\d+)" height="(\d+)"/.exec(svg)?.slice(1).map(Number);
  };
  const [width = 0, height = 0] = size(3) ?? [];
  expect(size(4)).toEqual([width, height + 54 + 2 * 15 + 26]);
});

it("puts panels side by side in the terminal, layer beside layer", () => {
  const panels = [
    { title: "own", subtitle: "at 1", cells },
    { title: "paper", cells: [...cells].reverse() },
    { title: "last", cells },
  ];
  expect(heatmapLines({ title: "Changes", legend: "share", columns: ["q", "k"], panels }, false, 2)).toEqual([
    "Changes",
    "",
    "  own (at 1)     paper",
    "    q     k        q     k",
    "1   40             10    20",
    "0   10    20       40",
    "",
    "last",
    "    q     k",
    "1   40",
    "0   10    20",
    "",
    "cells: share",
  ]);
});

it("leaves the background of a terminal where there is nearly nothing, and paints what is legible on any", () => {
  const panels = [{ title: "own", cells: [[0, 0.01, 0.5, 1]] }];
  const [, , , , row = ""] = heatmapLines({ title: "", legend: "", columns: ["q", "k", "v", "o"], panels }, true);
  expect(row).toBe("0   ·     1   \u001b[48;2;64;137;88;97m  50  \u001b[0m\u001b[48;2;31;170;73;30m 100  \u001b[0m");
});
