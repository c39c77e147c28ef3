// Layers across, parts down, on a canvas. Arrow keys move the cursor, and what is there is said.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { placeBeside } from "../components/basics.js";
import { Ticks } from "../components/interval.js";
import { actionOf } from "../keys.js";
import type { HeatmapCell } from "./figures.js";

interface Props {
  readonly label: string;
  readonly layers: number;
  readonly columns: readonly string[];
  /** Colour of a cell; null where there is nothing. Another function draws again. */
  readonly colour: (place: HeatmapCell) => string | null;
  /** Colour of the lines around the cursor. */
  readonly ink: string;
  readonly cursor: HeatmapCell;
  readonly onCursor: (place: HeatmapCell) => void;
  /** Lines of text about a cell: the first is its name. */
  readonly describe: (place: HeatmapCell) => readonly string[];
}

/** Pixels of a row. */
const ROW = 18;

export function Heatmap({ label, layers, columns, colour, ink, cursor, onCursor, describe }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const bubble = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [hovered, setHovered] = useState<HeatmapCell | null>(null);
  const [hasFocus, setFocus] = useState(false);
  const height = ROW * columns.length;

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || width === 0) return;
    const scale = devicePixelRatio;
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (element.width !== w || element.height !== h) [element.width, element.height] = [w, h];
    context.clearRect(0, 0, w, h);
    // Edges on whole pixels, so that cells are sharp and gaps are even.
    const x = (layer: number) => Math.round((layer * w) / layers);
    const y = (column: number) => Math.round((column * h) / columns.length);
    const gap = width / layers > 5 ? Math.max(1, Math.round(scale)) : 0;
    for (let layer = 0; layer < layers; layer++) {
      for (let column = 0; column < columns.length; column++) {
        const fill = colour({ layer, column });
        if (fill === null) continue;
        context.fillStyle = fill;
        context.fillRect(x(layer), y(column), x(layer + 1) - x(layer) - gap, y(column + 1) - y(column) - gap);
      }
    }
    context.strokeStyle = ink;
    context.lineWidth = 2 * scale;
    // Around the cell, and inside the canvas.
    const { layer, column } = cursor;
    const [left, top] = [Math.max(scale, x(layer)), Math.max(scale, y(column))];
    const [right, bottom] = [Math.min(w - scale, x(layer + 1)), Math.min(h - scale, y(column + 1))];
    context.strokeRect(left, top, right - left, bottom - top);
  });

  const shown = hovered ?? (hasFocus ? cursor : null);
  useLayoutEffect(() => {
    const [at, text] = [canvas.current?.getBoundingClientRect(), bubble.current];
    if (!at || !text || !shown) return;
    const left = at.left + ((shown.layer + 1) * at.width) / layers;
    const top = at.top + ROW * shown.column;
    placeBeside(text, { left, top, bottom: top + ROW });
  });

  const placeAt = (event: PointerEvent): HeatmapCell => {
    const at = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const within = (value: number, count: number) => Math.max(0, Math.min(count - 1, Math.floor(value * count)));
    return {
      layer: within((event.clientX - at.left) / at.width, layers),
      column: within((event.clientY - at.top) / at.height, columns.length),
    };
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const { layer, column } = cursor;
    const far = Math.max(1, Math.round(layers / 8));
    const to = {
      ArrowLeft: { layer: layer - 1, column },
      ArrowRight: { layer: layer + 1, column },
      ArrowUp: { layer, column: column - 1 },
      ArrowDown: { layer, column: column + 1 },
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
      <div class="parts" aria-hidden="true">
        {columns.map((column) => (
          <span key={column}>{column}</span>
        ))}
      </div>
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
      <LayerTicks layers={layers} />
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

/** Numbers of layers below a heatmap or chart. */
export function LayerTicks({ layers }: { layers: number }) {
  const step = [1, 2, 4, 5, 10, 20, 50, 100, 500, 1000].find((one) => layers / one <= 16) ?? layers;
  const ticks = Array.from({ length: Math.ceil(layers / step) }, (_, i) => i * step);
  return <Ticks places={ticks.map((layer) => (layer + 0.5) / layers)} texts={ticks} />;
}
