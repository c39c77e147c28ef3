// Colours of shares: ramps between tokens, even to the eye because they are mixed in OKLab.
import { useEffect, useState } from "preact/hooks";

export type Rgb = readonly [number, number, number];

/** From `#rrggbb`. */
export function parseHex(hex: string): Rgb {
  return [1, 3, 5].map((at) => Number.parseInt(hex.trim().slice(at, at + 2), 16)) as unknown as Rgb;
}

const toLinear = (c: number) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const toGamma = (c: number) => (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055);

// Matrices of OKLab, https://bottosson.github.io/posts/oklab/.
function toOklab(rgb: Rgb): Rgb {
  const [r, g, b] = rgb.map((c) => toLinear(c / 255)) as unknown as Rgb;
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

function fromOklab([L, a, b]: Rgb): Rgb {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((c) => Math.round(255 * toGamma(Math.min(1, Math.max(0, c))))) as unknown as Rgb;
}

/** @param t from 0, all `from`, to 1, all `to` */
export function mix(from: Rgb, to: Rgb, t: number): Rgb {
  const [a, b] = [toOklab(from), toOklab(to)];
  return fromOklab(a.map((c, i) => c + t * ((b[i] ?? 0) - c)) as unknown as Rgb);
}

const LEVELS = 64;

/** Colours from one to another, as styles of a canvas. */
export type Ramp = readonly string[];

export function ramp(...stops: readonly Rgb[]): Ramp {
  return Array.from({ length: LEVELS }, (_, i) => {
    const at = (i / (LEVELS - 1)) * (stops.length - 1);
    const stop = Math.min(stops.length - 2, Math.floor(at));
    return `rgb(${mix(stops[stop] as Rgb, stops[stop + 1] as Rgb, at - stop).join(" ")})`;
  });
}

/** @param t from 0 to 1; beyond is cut off */
export function colourAt(colours: Ramp, t: number): string {
  return colours[Math.round(Math.min(1, Math.max(0, t)) * (colours.length - 1))] ?? "";
}

/** Tokens as they are now, light or dark. */
export interface Palette {
  readonly paper: Rgb;
  readonly empty: Rgb;
  readonly ink: string;
  /** By position among the accents, from 0. */
  readonly experts: readonly Rgb[];
  readonly conflict: Rgb;
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
  const token = (name: string) => parseHex(style.getPropertyValue(`--${name}`));
  return {
    paper: token("paper"),
    empty: token("raised"),
    ink: style.getPropertyValue("--ink").trim(),
    experts: [1, 2, 3, 4, 5, 6].map((i) => token(`expert-${i}`)),
    conflict: token("danger"),
  };
}
