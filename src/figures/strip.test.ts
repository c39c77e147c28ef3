// The layer strip and its legend.
import { expect, test } from "vitest";
import { formatRanges } from "../kit/printing/format.js";
import { layerStrip, PLAIN } from "./strip.js";

const layer = (number: number | null, ...origins: string[][]) => ({ layer: number, origins });

test("layers have their owner's cell, and ranges in the legend", () => {
  const strip = layerStrip(
    [
      layer(0, ["language"]),
      layer(1, ["task", "language"]),
      layer(2, ["task"]),
      layer(3, ["task"]),
      layer(4, ["language"]),
      layer(null, ["task", "language"]),
    ],
    PLAIN,
  );
  expect(strip).toEqual([
    "  0 input output 4",
    "  ██▒▒░░░░██",
    "",
    "  ██ language                      layers 0, 4",
    "  ▒▒ average of task and language  layer 1, and tensors outside the layers",
    "  ░░ task                          layers 2-3",
  ]);
});

test("the legend calls sources as it is asked to, in their own cells", () => {
  const names = { task: "math expert", language: "Swahili expert" };
  const layers = [layer(0, ["language"]), layer(1, ["task"]), layer(null, ["task", "language"])];
  expect(layerStrip(layers, PLAIN, names)).toEqual([
    "  0 input output 1",
    "  ██░░",
    "",
    "  ██ Swahili expert                             layer 0",
    "  ░░ math expert                                layer 1",
    "  ▒▒ average of math expert and Swahili expert  tensors outside the layers",
  ]);
});

test("sources of a passthrough have different cells, and a repeated source the same one", () => {
  const strip = layerStrip(
    [
      layer(0, ["math"]),
      layer(1, ["swahili"]),
      layer(2, ["math"]),
      layer(3, ["code"]),
      layer(null, ["math"], ["code"]),
    ],
    {
      ...PLAIN,
      cyan: (text) => `cyan ${text} `,
      green: (text) => `green ${text} `,
      magenta: (text) => `magenta ${text} `,
    },
  );
  expect(strip.slice(1)).toEqual([
    "  cyan ░░ green ██ cyan ░░ magenta ▄▄ ",
    "",
    "  cyan ░░  math               layers 0, 2",
    "  green ██  swahili            layer 1",
    "  magenta ▄▄  code               layer 3",
    "  magenta ▚▚  parts: math, code  tensors outside the layers",
  ]);
});

test("a layer of several origins lists them, and averages have their own cell", () => {
  const strip = layerStrip([layer(0, ["language"], ["task"]), layer(1, ["task"], ["task", "language"])], PLAIN);
  expect(strip.slice(1)).toEqual([
    "  ▚▚▞▞",
    "",
    "  ▚▚ parts: language, task                      layer 0",
    "  ▞▞ parts: task, average of task and language  layer 1",
  ]);
});

test("a deep model has several rows", () => {
  const layers = Array.from({ length: 80 }, (_, i) => layer(i, ["task"]));
  const strip = layerStrip(layers, PLAIN);
  const cells = strip.filter((line) => line.includes("░░░░"));
  expect(cells.map((line) => line.trim().length / 2)).toEqual([36, 36, 8]);
  expect([strip[0], strip[2], strip[4]]).toEqual([
    "  0 input 4       8       12      16      20      24      28      32    35",
    "  36      40      44      48      52      56      60      64      68    71",
    "  72     output 79",
  ]);
});

test("ranges", () => {
  expect(formatRanges([0, 1, 2, 5, 7, 8])).toBe("0-2, 5, 7-8");
  expect(formatRanges([])).toBe("");
});
