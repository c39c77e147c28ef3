// A merge in one picture, as links to its page are shown: whose each layer is, what it scores and what else scores how much.
// 1200 by 630 pixels, in the light colours of all pages, as attributes that every program reads.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { wrapped } from "../../kit/printing/index.js";
import type { Bars } from "../figures.js";
import { scoreText } from "../lead.js";
import { placeOn, scoreAxis } from "../scores.js";
import { element, escaped, textWidth } from "../svg.js";
import { formatSpan } from "../table.js";

export interface MergePicture {
  readonly title: string;
  /** The conclusion in a sentence or two. */
  readonly verdict: string;
  /** From the input: the owners of each layer's attention and MLP, as classes of colours. Empty where they are not known. */
  readonly layers: readonly (readonly (readonly string[])[])[];
  readonly legend: readonly { readonly name: string; readonly colour: string }[];
  readonly bars: Bars | undefined;
}

const [WIDTH, HEIGHT, EDGE] = [1200, 630, 56];
const INNER = WIDTH - 2 * EDGE;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const MAX_ROWS = 5;
/** Characters of a line of the verdict. */
const LINE = 76;

/** @returns SVG */
export async function mergePicture({ title, verdict, layers, legend, bars }: MergePicture): Promise<string> {
  const colour = await coloursOfPages();
  const text = (x: number, y: number, content: string, size: number, more: Record<string, string | number> = {}) =>
    element(
      "text",
      { x, y, "font-size": size, fill: colour("ink"), ...more },
      escaped(cut(content, Number(more.width ?? INNER), size)),
    );
  const lines = wrapped(verdict, LINE).slice(0, 3);
  const top = 132 + 36 * lines.length;
  const strip = layers.length === 0 ? [] : stripShapes(layers, legend, top, colour, text);
  const below = layers.length === 0 ? top + 20 : top + 128;
  const shapes = [
    element("title", {}, escaped(title)),
    element("desc", {}, escaped(verdict)),
    element("rect", { width: WIDTH, height: HEIGHT, fill: colour("paper") }),
    element("rect", { width: WIDTH, height: 10, fill: colour("swap") }),
    text(EDGE, 88, title, 44, { "font-weight": 650 }),
    ...lines.map((line, i) => text(EDGE, 134 + 36 * i, line, 25, { width: WIDTH })),
    ...strip,
    ...(bars ? barShapes(bars, below, colour, text) : []),
    text(WIDTH - EDGE, HEIGHT - 22, "layergraft", 18, { fill: colour("soft"), "text-anchor": "end" }),
  ];
  const head = { xmlns: "http://www.w3.org/2000/svg", role: "img", width: WIDTH, height: HEIGHT };
  const view = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "font-family": FONT };
  return `${element("svg", { ...head, ...view }, shapes.join("\n"))}\n`;
}

type Colour = (name: string) => string;
type Text = (x: number, y: number, content: string, size: number, more?: Record<string, string | number>) => string;

function stripShapes(
  layers: MergePicture["layers"],
  legend: MergePicture["legend"],
  top: number,
  colour: Colour,
  text: Text,
): string[] {
  const width = INNER / layers.length;
  const gap = Math.min(3, width / 8);
  const cells = layers.flatMap((halves, layer) =>
    halves.flatMap((owners, half) =>
      owners.map((owner, i) => {
        const height = 56 / halves.length / owners.length;
        return element("rect", {
          x: EDGE + layer * width,
          y: top + half * (56 / halves.length) + i * height,
          width: width - gap,
          height,
          fill: colour(owner),
        });
      }),
    ),
  );
  // Colours do not tell owners apart in print, or to everyone.
  const runs: { first: number; count: number; owner: string }[] = [];
  for (const [layer, halves] of layers.entries()) {
    const owners = new Set(halves.flat());
    const [owner = ""] = owners.size === 1 ? owners : [];
    const run = runs.at(-1);
    if (run?.owner === owner) run.count++;
    else runs.push({ first: layer, count: 1, owner });
  }
  const named = runs.flatMap(({ first, count, owner }) => {
    const name = legend.find(({ colour: own }) => own === owner)?.name ?? "";
    if (name === "" || textWidth(name, 18) + 16 > count * width) return [];
    // In one cell where it fits, as gaps would cross it.
    const at = textWidth(name, 18) + 16 > width ? count / 2 : Math.floor((count - 1) / 2) + 0.5;
    const middle = EDGE + (first + at) * width - gap / 2;
    return [text(middle, top + 34, name, 18, { fill: colour("paper"), "text-anchor": "middle" })];
  });
  let x = EDGE + 150;
  const names = legend.flatMap(({ name, colour: own }) => {
    const shown = cut(name, 260, 20);
    const at = x;
    x += 34 + textWidth(shown, 20) + 20;
    if (x > WIDTH - EDGE - 150) return [];
    return [
      element("rect", { x: at, y: top + 72, width: 18, height: 18, rx: 4, fill: colour(own) }),
      text(at + 28, top + 88, shown, 20, { width: 260 }),
    ];
  });
  const soft = { fill: colour("soft") };
  return [
    ...cells,
    ...named,
    text(EDGE, top + 88, "input, layer 0", 18, soft),
    ...names,
    text(WIDTH - EDGE, top + 88, `output, ${layers.length - 1}`, 18, { ...soft, "text-anchor": "end" }),
  ];
}

function barShapes({ rows, scale }: Bars, top: number, colour: Colour, text: Text): string[] {
  // The merge is the last one; of the others, the highest.
  const own = rows.at(-1);
  const others = rows.slice(0, -1).toSorted((a, b) => b.mean - a.mean);
  const shown = [...(own ? [own] : []), ...others.slice(0, MAX_ROWS - 1)];
  const axis = scoreAxis(shown, scale);
  const [left, right] = [EDGE + 330, WIDTH - EDGE - 250];
  const step = Math.min(44, (HEIGHT - 50 - top) / shown.length);
  return shown.flatMap((row, i) => {
    const y = top + step * (i + 0.5);
    const at = (value: number) => left + placeOn(axis, value) * (right - left);
    const fill = colour(row.kind);
    const isOwn = row === own;
    return [
      text(EDGE, y + 8, row.label, 22, { width: 310, ...(isOwn ? { "font-weight": 650 } : {}) }),
      element("rect", { x: left, y: y - 1, width: right - left, height: 2, fill: colour("line") }),
      ...(row.interval
        ? [
            element("rect", {
              x: at(row.interval.low),
              y: y - 3,
              height: 6,
              rx: 3,
              fill,
              width: at(row.interval.high) - at(row.interval.low),
              "fill-opacity": 0.45,
            }),
          ]
        : []),
      element("circle", { cx: at(row.mean), cy: y, r: 10, fill }),
      text(right + 24, y + 8, scoreText(row.mean, scale), 24, { "font-weight": 650 }),
      ...(row.interval
        ? [text(right + 124, y + 8, formatSpan(row.interval, { scale }), 19, { fill: colour("soft") })]
        : []),
    ];
  });
}

/** A text that fits a width, in pixels. */
function cut(content: string, width: number, size: number): string {
  const most = Math.floor(width / textWidth("m", size));
  return content.length > most ? `${content.slice(0, most - 1)}…` : content;
}

/** Colours by token or by class, as light pages have them. */
async function coloursOfPages(): Promise<Colour> {
  const css = await readFile(createRequire(import.meta.url).resolve("#page-tokens"), "utf8");
  const [light = ""] = css.split("@media");
  const tokens = new Map(
    [...light.matchAll(/--([\w-]+): ([^;]+);/g)].map(([, name = "", value = ""]) => [name, value]),
  );
  const find = (name: string): string => {
    const value = tokens.get(name) ?? "";
    const [, other] = /^var\(--([\w-]+)\)$/.exec(value) ?? [];
    return other === undefined ? value : find(other);
  };
  return (name) => {
    const own = /^own-(\w+)/.exec(name)?.[1];
    const token = own === undefined ? name : own === "merge" ? "swap" : /^\d/.test(own) ? `expert-${own}` : own;
    return find(token) || find("merge");
  };
}
