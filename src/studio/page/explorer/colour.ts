// Colours of shares: ramps between tokens, even to the eye because the browser mixes them in OKLab.
import { useEffect, useState } from "preact/hooks";
import { accentOf } from "../../../figures/scores.js";

/** @param t from 0, all `from`, to 1, all `to` */
export const mix = (from: string, to: string, t: number) =>
  `color-mix(in oklab, ${from}, ${to} ${Math.round(100 * t)}%)`;

const LEVELS = 64;

/** Colours from one to another, as styles of a canvas. */
export type Ramp = readonly string[];

export function ramp(...stops: readonly string[]): Ramp {
  return Array.from({ length: LEVELS }, (_, i) => {
    const at = (i / (LEVELS - 1)) * (stops.length - 1);
    const stop = Math.min(stops.length - 2, Math.floor(at));
    return mix(stops[stop] ?? "", stops[stop + 1] ?? "", at - stop);
  });
}

/** @param t from 0 to 1; beyond is cut off */
export function colourAt(colours: Ramp, t: number): string {
  return colours[Math.round(Math.min(1, Math.max(0, t)) * (colours.length - 1))] ?? "";
}

/** Black or white, by the contrast with a colour from 0 to 255: one of them has at least 4.5 to 1 with any (WCAG 2.2). */
export function readableOn(...colour: readonly [red: number, green: number, blue: number]): string {
  const [red = 0, green = 0, blue = 0] = colour.map((value) =>
    value <= 10.31475 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000" : "#fff";
}

/** Tokens as they are now, light or dark. */
export interface Palette {
  readonly empty: string;
  readonly ink: string;
  /** By position among the experts, from 0. */
  readonly expert: (at: number) => string;
  readonly conflict: string;
}

/** The tokens; they change with the scheme of the system. */
export function usePalette(): Palette {
  const [palette, setPalette] = useState(readPalette);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const update = () => setPalette(readPalette());
    dark.addEventListener("change", update);
    return () => dark.removeEventListener("change", update);
  }, []);
  return palette;
}

function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const token = (name: string) => style.getPropertyValue(`--${name}`).trim();
  return {
    empty: token("raised"),
    ink: token("ink"),
    conflict: token("danger"),
    expert: (at) => token(`expert-${accentOf(at)}`),
  };
}
