// Quantities as text.
import { expect, it } from "vitest";
import { directionsOf, formatBytes, formatFixed, formatPercent, formatShare, isolated, parseBytes } from "./format.js";

it("prints means that differ only in their last bits equally", () => {
  const below = 0.3125 - Number.EPSILON / 4;
  expect((100 * below).toFixed(1)).toBe("31.2");
  expect([0.3125, below, 0.3125 + Number.EPSILON / 4].map(formatShare)).toEqual(["31.3", "31.3", "31.3"]);
  expect(formatPercent(0.1234)).toBe("12.3%");
  expect(formatFixed(-0.25, 1)).toBe("-0.3");
  expect([formatFixed(-0.04, 1), formatFixed(-0.4, 0), formatFixed(-0.06, 1)]).toEqual(["0.0", "0", "-0.1"]);
  expect(formatFixed(123456.75, 1)).toBe("123456.8");
});

it("reads and prints sizes", () => {
  const sizes = ["5GB", "512 MiB", "1.5g", "1000000", "7 b", "2KiB", "3 kb", "1TiB"].map(parseBytes);
  expect(sizes).toEqual([5e9, 512 * 2 ** 20, 1.5e9, 1e6, 7, 2048, 3000, 2 ** 40]);
  expect(["5ki", "5ib", "0", "-1", "1PB", "GB", "1e3"].map(parseBytes)).toEqual(Array(7).fill(undefined));
  expect([0, 999, 999.6, 2_466_000_000, 12_345].map(formatBytes)).toEqual([
    "0 B",
    "999 B",
    "1.00 kB",
    "2.47 GB",
    "12.3 kB",
  ]);
});

it("isolates parts from right to left, and leaves numbers and signs outside", () => {
  expect(isolated("شرح 6.1%, עברית-ב 7.0%, math")).toBe("\u2068شرح\u2069 6.1%, \u2068עברית-ב\u2069 7.0%, math");
  expect(directionsOf("a שלום עולם, 9 - 7")).toEqual(["a ", "שלום עולם", ", 9 - 7"]);
  // A comma or a number between two names keeps their order.
  expect(directionsOf("شرح, عبر")).toEqual(["", "شرح", ", ", "عبر", ""]);
  expect(isolated("café 9 - 7")).toBe("café 9 - 7");
});
