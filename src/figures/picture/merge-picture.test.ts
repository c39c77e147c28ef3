// The picture of a merge: its size, whose each layer is, and scores where they are on their axis.
import { expect, it } from "vitest";
import { mergePicture } from "./merge-picture.js";

const score = (label: string, kind: string, mean: number) => ({
  ...{ label, kind, mean, low: mean, high: mean, interval: { low: mean - 0.05, high: mean + 0.05 } },
  ...{ detail: "", count: 1, isBest: false },
});
const PICTURE = {
  title: "شرح <b>",
  verdict: "It scores 80.0%, 30.0 points above math.",
  layers: [[["own-2"]], [["own-1"]], [["own-1"], ["own-1", "own-2"]], [["own-9"]]],
  legend: [
    { name: "math", colour: "own-1" },
    { name: "swahili", colour: "own-2" },
  ],
  bars: {
    ...{ verdict: "", scale: "share" as const },
    rows: [score("math", "own-1", 0.5), score("base", "own-base", 0.2), score("mine", "own-merge", 0.8)],
  },
};

it("draws layers from the input, halves over each other, in the light colours of all pages", async () => {
  const svg = await mergePicture(PICTURE);
  expect(svg).toMatch(/^<svg xmlns="[^"]+" role="img" width="1200" height="630" viewBox="0 0 1200 630"/);
  const top = /<rect x="56" y="(\d+)" width="269" height="56"/.exec(svg)?.[1];
  const cells = [...svg.matchAll(/<rect x="([\d.]+)" y="([\d.]+)" width="269" height="([\d.]+)" fill="(#\w+)"/g)];
  expect(cells.map(([, x, y, height, fill]) => [Number(x), Number(y) - Number(top), Number(height), fill])).toEqual([
    [56, 0, 56, "#9a5505"],
    [328, 0, 56, "#1961d4"],
    [600, 0, 28, "#1961d4"],
    [600, 28, 14, "#1961d4"],
    [600, 42, 14, "#9a5505"],
    // A colour that no page has.
    [872, 0, 56, "#640675"],
  ]);
  expect(svg).toContain(">\u2068شرح\u2069 &lt;b&gt;</text>");
  // Names are on the layers of one owner, where they fit.
  const named = [...svg.matchAll(/<text x="([\d.]+)" y="[\d.]+" font-size="18" fill="#ffffff"[^>]*>([^<]*)</g)];
  expect(named.map(([, x, name]) => [Number(x), name])).toEqual([
    [190.5, "swahili"],
    [462.5, "math"],
  ]);
});

it("has the merge first, then the highest, each where its score is", async () => {
  const svg = await mergePicture(PICTURE);
  const dots = [...svg.matchAll(/<circle cx="([\d.]+)" cy="[\d.]+" r="10" fill="(#\w+)"/g)];
  expect(dots.map(([, , fill]) => fill)).toEqual(["#1a7340", "#1961d4", "#606a76"]);
  const [merge = 0, math = 0, base = 0] = dots.map(([, x]) => Number(x));
  // On one axis, as 80, 50 and 20 are.
  expect((merge - math) / (math - base)).toBeCloseTo(1, 2);
  for (const text of ["80.0%", "50.0%", "20.0%", "75.0 to 85.0"]) expect(svg).toContain(`>${text}</text>`);
});

it("has neither layers nor scores where they are not known, and cuts long names", async () => {
  const svg = await mergePicture({ ...PICTURE, title: "m".repeat(200), layers: [], bars: undefined });
  expect(svg).not.toContain("circle");
  expect(svg).toMatch(/>m{30,60}…<\/text>/);
});
