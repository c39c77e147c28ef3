// Parts across, layers from the output at the top, on a canvas. Arrow keys move the cursor, and what is there is said.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { placeBeside } from "../components/basics.js";
import { actionOf } from "../keys.js";
import { readableOn } from "./colour.js";
import type { HeatmapCell } from "./figures.js";

interface Props {
  readonly label: string;
  readonly layers: number;
  readonly columns: readonly string[];
  /** Colour of a cell; null where there is nothing. Another function draws again. */
  readonly colour: (place: HeatmapCell) => string | null;
  /** What is written in a cell where there is room. */
  readonly number?: (place: HeatmapCell) => string | null;
  /** Bars at the right: of each layer, its share of the longest. */
  readonly bars?: { readonly colour: string; readonly of: (layer: number) => number };
  /** Colour of the lines around the cursor. */
  readonly ink: string;
  readonly cursor: HeatmapCell;
  readonly onCursor: (place: HeatmapCell) => void;
  /** Lines of text about a cell: the first is its name. */
  readonly describe: (place: HeatmapCell) => readonly string[];
}

/** Pixels: the height of rows of a shallow model and of a deep one, all rows of one in between, and the bars. */
const [ROW, LEAST_ROW, HEIGHT, BARS] = [18, 6, 520, 44];
/** Pixels of a cell that has room for a number. */
const ROOM = { width: 26, height: 13 };
/** Pixels of cells below which bars have no room. */
const LEAST_CELLS = 150;

export function Heatmap(props: Props) {
  const { label, layers, columns, colour, number, ink, cursor, onCursor, describe } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const bubble = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const bars = width > LEAST_CELLS + BARS ? props.bars : undefined;
  const [hovered, setHovered] = useState<HeatmapCell | null>(null);
  const [hasFocus, setFocus] = useState(false);
  const row = Math.min(ROW, Math.max(LEAST_ROW, Math.floor(HEIGHT / layers)));
  const height = row * layers;
  const cellsWidth = width - (bars ? BARS : 0);

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d", { willReadFrequently: true });
    if (!element || !context || width === 0) return;
    const scale = devicePixelRatio;
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (element.width !== w || element.height !== h) [element.width, element.height] = [w, h];
    context.clearRect(0, 0, w, h);
    // Edges on whole pixels, so that cells are sharp and gaps are even.
    const x = (column: number) => Math.round((column * cellsWidth * scale) / columns.length);
    const y = (layer: number) => Math.round(((layers - 1 - layer) * h) / layers);
    const gap = row > 7 ? Math.max(1, Math.round(scale)) : 0;
    const hasRoom = number && row >= ROOM.height && cellsWidth / columns.length >= ROOM.width;
    context.font = `${11 * scale}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const numbers: { text: string; x: number; y: number }[] = [];
    for (let layer = 0; layer < layers; layer++) {
      const [top, bottom] = [y(layer), y(layer - 1) - gap];
      for (let column = 0; column < columns.length; column++) {
        const fill = colour({ layer, column });
        if (fill === null) continue;
        const [left, right] = [x(column), x(column + 1) - gap];
        context.fillStyle = fill;
        context.fillRect(left, top, right - left, bottom - top);
        const text = hasRoom ? number({ layer, column }) : null;
        if (text !== null) numbers.push({ text, x: (left + right) / 2, y: (top + bottom) / 2 });
      }
      if (!bars) continue;
      context.fillStyle = bars.colour;
      const from = x(columns.length) + 4 * scale;
      context.fillRect(from, top, Math.round(bars.of(layer) * (w - from)), bottom - top);
    }
    // As painted, since the browser mixes the colours.
    const painted = numbers.length > 0 ? context.getImageData(0, 0, w, h).data : [];
    for (const { text, x: middle, y: centre } of numbers) {
      const at = 4 * (Math.floor(centre) * w + Math.floor(middle));
      context.fillStyle = readableOn(painted[at] ?? 0, painted[at + 1] ?? 0, painted[at + 2] ?? 0);
      context.fillText(text, middle, centre + scale / 2);
    }
    context.strokeStyle = ink;
    context.lineWidth = 2 * scale;
    // Around the cell, and inside the canvas.
    const { layer, column } = cursor;
    const [left, top] = [Math.max(scale, x(column)), Math.max(scale, y(layer))];
    const [right, bottom] = [Math.min(w - scale, x(column + 1)), Math.min(h - scale, y(layer - 1))];
    context.strokeRect(left, top, right - left, bottom - top);
  });

  const shown = hovered ?? (hasFocus ? cursor : null);
  useLayoutEffect(() => {
    const [at, text] = [canvas.current?.getBoundingClientRect(), bubble.current];
    if (!at || !text || !shown) return;
    const left = at.left + ((shown.column + 1) * cellsWidth) / columns.length;
    const top = at.top + row * (layers - 1 - shown.layer);
    placeBeside(text, { left, top, bottom: top + row });
  });

  const placeAt = (event: PointerEvent): HeatmapCell => {
    const at = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const within = (value: number, count: number) => Math.max(0, Math.min(count - 1, Math.floor(value * count)));
    return {
      layer: layers - 1 - within((event.clientY - at.top) / at.height, layers),
      column: within((event.clientX - at.left) / cellsWidth, columns.length),
    };
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { layer, column } = cursor;
    const far = Math.max(1, Math.round(layers / 8));
    const to = {
      ArrowUp: { layer: layer + 1, column },
      ArrowDown: { layer: layer - 1, column },
      ArrowLeft: { layer, column: column - 1 },
      ArrowRight: { layer, column: column + 1 },
      PageUp: { layer: layer + far, column },
      PageDown: { layer: layer - far, column },
      Home: { layer: 0, column },
      End: { layer: layers - 1, column },
    }[event.key];
    if (!to || !actionOf("Heatmaps", event)) return;
    event.preventDefault();
    setHovered(null);
    onCursor({
      layer: Math.max(0, Math.min(layers - 1, to.layer)),
      column: Math.max(0, Math.min(columns.length - 1, to.column)),
    });
  };
  const [name = "", ...lines] = shown ? describe(shown) : [];
  return (
    <div class="heatmap">
      <span class="small soft" aria-hidden="true">
        output
      </span>
      <div class="parts" aria-hidden="true">
        {columns.map((column) => (
          <span key={column}>{column}</span>
        ))}
        {bars ? <span style={{ flex: `0 0 ${BARS}px` }}>all</span> : null}
      </div>
      <LayerNumbers layers={layers} row={row} />
      <div
        role="application"
        aria-roledescription="heatmap"
        aria-label={`${label}. ${layers} layers by ${columns.length} parts. Arrow keys move among cells.`}
        tabIndex={0}
        onKeyDown={onKeyDown}
        onFocus={() => setFocus(true)}
        onBlur={() => setFocus(false)}
        onPointerMove={(event) => setHovered(placeAt(event))}
        onPointerLeave={() => setHovered(null)}
        onPointerDown={(event) => onCursor(placeAt(event))}
      >
        <canvas ref={canvas} style={{ height: `${height}px` }} />
      </div>
      <span class="small soft" aria-hidden="true">
        input
      </span>
      {shown ? (
        <div class="bubble" ref={bubble} role={hovered ? undefined : "status"}>
          <strong>{name}</strong>
          {lines.map((line) => (
            <div key={line}>{line}</div>
          ))}
        </div>
      ) : null}
    </div>
  );
}

/** Numbers of layers beside their rows, as many as there is room for. */
function LayerNumbers({ layers, row }: { layers: number; row: number }) {
  const step = [1, 2, 4, 5, 10, 20, 50].find((one) => one * row >= 14) ?? layers;
  const shown = Array.from({ length: Math.ceil(layers / step) }, (_, i) => i * step);
  return (
    <div class="layers" aria-hidden="true">
      {shown.map((layer) => (
        <span key={layer} style={{ top: `${row * (layers - 0.5 - layer)}px` }}>
          {layer}
        </span>
      ))}
    </div>
  );
}
