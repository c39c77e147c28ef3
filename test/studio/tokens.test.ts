// Colours of all pages: contrast as WCAG 2 counts it, and distance as colour-blind readers see it.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ownClass } from "../../src/figures/scores.js";

const text = readFileSync(join(import.meta.dirname, "../../assets/tokens.css"), "utf8");
const [light = "", dark = ""] = text.split("@media (prefers-color-scheme: dark)");
const hexes = (css: string) =>
  new Map([...css.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, hex]) => [name, hex]));
const schemes = { light: hexes(light), dark: new Map([...hexes(light), ...hexes(dark)]) };

type Rgb = [number, number, number];
/** Linear light. */
const linear = (hex: string): Rgb =>
  [1, 3, 5].map((at) => {
    const c = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
const luminance = ([r, g, b]: Rgb) => 0.2126 * r + 0.7152 * g + 0.0722 * b;
function contrast(a: string, b: string): number {
  const [high = 0, low = 0] = [a, b].map((hex) => luminance(linear(hex))).sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

/** Machado et al. 2009, severity 1. */
const DEFICIENCIES: Record<string, Rgb[]> = {
  none: [
    [1, 0, 0],
    [0, 1, 0],
    [0, 0, 1],
  ],
  protan: [
    [0.152286, 1.052583, -0.204868],
    [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998],
  ],
  deutan: [
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881],
  ],
  tritan: [
    [1.255528, -0.076749, -0.178779],
    [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039],
  ],
};
const dot = (a: Rgb, b: Rgb) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const seen = (matrix: Rgb[], hex: string): Rgb => matrix.map((row) => Math.max(0, dot(row, linear(hex)))) as Rgb;
function oklab([r, g, b]: Rgb): Rgb {
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}
const distance = (a: Rgb, b: Rgb) => 100 * Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);

const EXPERTS = [1, 2, 3, 4, 5, 6].map((i) => `expert-${i}`);

it("eighteen experts have an accent of their own, of six colours and three patterns that the style has", () => {
  const classes = Array.from({ length: 18 }, (_, expert) => ownClass(expert));
  expect(new Set(classes).size).toBe(18);
  for (const name of new Set(classes.flatMap((one) => one.split(" ")))) expect(text).toContain(`\n.${name} {`);
});

describe.each(Object.entries(schemes))("in the %s scheme", (_, tokens) => {
  const of = (name: string) => tokens.get(name) ?? "";

  it.each(["ink", "soft", "accent", "danger", "caution", "base", ...EXPERTS])(
    "%s is legible on every surface",
    (name) => {
      for (const surface of ["page", "paper", "raised"])
        expect(contrast(of(name), of(surface))).toBeGreaterThanOrEqual(4.5);
    },
  );

  it.each([
    ["on-accent", "accent"],
    ["on-accent", "accent-strong"],
    ["on-accent", "swap"],
    ...["base", ...EXPERTS].map((name) => ["on-accent", name]),
    ["accent-strong", "accent-weak"],
    ["danger", "danger-weak"],
    ["caution", "caution-weak"],
    ["ink", "heat"],
    ["paper", "ink"],
  ])("%s is legible on %s", (on, below) => {
    expect(contrast(of(on as string), of(below as string))).toBeGreaterThanOrEqual(4.5);
  });

  it("lines of fields and marks are visible", () => {
    for (const surface of ["page", "paper"]) expect(contrast(of("edge"), of(surface))).toBeGreaterThanOrEqual(3);
  });

  it.each(Object.entries(DEFICIENCIES))("experts differ, with %s deficiency", (_, matrix) => {
    const colours = EXPERTS.map((name) => oklab(seen(matrix, of(name))));
    colours.forEach((a, i) => {
      // Three experts are usual: their accents are furthest from each other. Two is a just noticeable difference.
      for (const [j, b] of colours.slice(0, i).entries())
        expect(distance(a, b)).toBeGreaterThan(i < 3 && j < 3 ? 9 : 5);
    });
  });
});
