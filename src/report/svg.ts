// Figures as SVG that needs nothing else: system fonts, light and dark, and a description for those who cannot see it.
import { visible } from "../core/index.js";

export interface Shape {
  readonly tag: string;
  readonly attributes: Readonly<Record<string, string | number>>;
  readonly children: readonly (Shape | string)[];
}

export interface Picture {
  readonly title: string;
  readonly description: string;
  readonly width: number;
  readonly height: number;
  readonly shapes: readonly Shape[];
}

/** A colour on light pages and on dark ones. */
export type Colour = readonly [light: string, dark: string];

export const PAPER: Colour = ["#ffffff", "#171b20"];
export const INK: Colour = ["#1b1f24", "#e8ecf1"];
export const SOFT: Colour = ["#5c6673", "#a3aebb"];
export const LINE: Colour = ["#e3e6ea", "#303841"];

const FONT = "Inter, system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
// Attributes have the light colours, as editors and LaTeX read no media queries.
const STYLE = "@media (prefers-color-scheme: dark) { .fill { fill: var(--dark) } .stroke { stroke: var(--dark) } }";

export function shape(tag: string, attributes: Shape["attributes"], ...children: Shape["children"]): Shape {
  return { tag, attributes, children };
}

export const fill = ([light, dark]: Colour) => ({ class: "fill", fill: light, style: `--dark:${dark}` });
export const stroke = ([light, dark]: Colour) => ({
  class: "stroke",
  stroke: light,
  fill: "none",
  style: `--dark:${dark}`,
});

export interface TextStyle {
  /** Default: 10. */
  readonly size?: number;
  /** Default: 400. */
  readonly weight?: number;
  /** Default: `SOFT`. */
  readonly colour?: Colour;
  /** The part of the text that is at `x`. Default: start. */
  readonly anchor?: "start" | "middle" | "end";
}

/** A line of text whose baseline is at `y`. */
export function text(x: number, y: number, content: string, style: TextStyle = {}): Shape {
  const { size = 10, weight = 400, colour = SOFT, anchor = "start" } = style;
  return shape(
    "text",
    { x, y, "font-size": size, "font-weight": weight, "text-anchor": anchor, ...fill(colour) },
    content,
  );
}

/** Rough width of a text, as its font is not known here; rather too wide than too narrow. */
export function textWidth(content: string, size: number): number {
  return 0.6 * size * content.length;
}

export function svgOf({ title, description, width, height, shapes }: Picture): string {
  const attributes = {
    ...{ xmlns: "http://www.w3.org/2000/svg", role: "img", width, height, viewBox: `0 0 ${width} ${height}` },
    "font-family": FONT,
  };
  const background = shape("rect", { width: "100%", height: "100%", ...fill(PAPER) });
  const about = [shape("title", {}, title), shape("desc", {}, description), shape("style", {}, STYLE)];
  return `${written(shape("svg", attributes, ...about, background, ...shapes))}\n`;
}

function written(part: Shape | string): string {
  if (typeof part === "string") return escaped(part);
  const { tag, attributes, children } = part;
  const list = Object.entries(attributes).map(([name, value]) => ` ${name}="${escaped(shown(value))}"`);
  const inside = children.map(written).join(tag === "svg" ? "\n" : "");
  return `<${tag}${list.join("")}${inside === "" ? "/>" : `>${inside}</${tag}>`}`;
}

const shown = (value: string | number) => (typeof value === "number" ? String(Math.round(100 * value) / 100) : value);

const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
// XML has no control characters, not even escaped.
const escaped = (value: string) => visible(value).replace(/[&<>"]/g, (char) => ESCAPES[char] ?? "");
