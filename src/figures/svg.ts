// Elements of SVG as text.
import { isolated, visible } from "../kit/printing/index.js";

export type Attributes = Readonly<Record<string, string | number>>;

/** @param inside SVG */
export function element(tag: string, attributes: Attributes, inside = ""): string {
  const shown = (value: string | number) => (typeof value === "number" ? Math.round(100 * value) / 100 : value);
  const list = Object.entries(attributes).map(([name, value]) => ` ${name}="${shown(value)}"`);
  return `<${tag}${list.join("")}${inside === "" ? "/>" : `>${inside}</${tag}>`}`;
}

const ESCAPES: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
/** A text or a value of an attribute. XML has no control characters, not even escaped. */
export const escaped = (value: string) => isolated(visible(value)).replace(/[&<>"]/g, (char) => ESCAPES[char] ?? "");

/** Rough width of a text, as its font is not known here; rather too wide than too narrow. */
export const textWidth = (content: string, size: number) => 0.6 * size * content.length;
