// Draws loss curves of two programs over each other: a broad line below, a thin one above.

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 300, 48, 12, 34, 36];
const STYLE =
  ".i{fill:#24292f}.s{fill:#57606a}.g{stroke:#d0d7de}.a{stroke:#3b6fb6}.b{stroke:#b3533c}@media(prefers-color-scheme:dark)" +
  "{.i{fill:#e6edf3}.s{fill:#9198a1}.g{stroke:#30363d}.a{stroke:#7aa7e8}.b{stroke:#ef9a84}}";

/** @param {string} title @param {{ what: string, layergraft: number[], TRL: number[] }[]} curves */
export function drawLosses(title, curves) {
  const losses = curves.flatMap(({ layergraft, TRL }) => [...layergraft, ...TRL]);
  const [most, last] = [Math.ceil(Math.max(...losses) * 2) / 2, (curves[0]?.layergraft.length ?? 2) - 1];
  const x = (/** @type {number} */ step) => (LEFT + ((WIDTH - LEFT - RIGHT) * step) / last).toFixed(1);
  const y = (/** @type {number} */ loss) => (TOP + (HEIGHT - TOP - BOTTOM) * (1 - loss / most)).toFixed(1);
  const label = (
    /** @type {number | string} */ left,
    /** @type {number | string} */ top,
    text = "",
    more = 'class="s"',
  ) => `<text ${more} x="${left}" y="${top}">${text}</text>`;
  const pair = (/** @type {number} */ k, /** @type {string} */ broad, /** @type {string} */ thin) =>
    [broad, thin].map((d, i) => {
      const width = i === 0 ? 'stroke-width="5" stroke-opacity="0.3"' : 'stroke-width="1.3"';
      return `<path class="${"ab"[k]}" d="${d}" fill="none" ${width}/>`;
    });
  const parts = [label(LEFT, 18, title, 'class="i" font-weight="600"')];
  for (let loss = 0; loss <= most; loss += 0.5) {
    parts.push(`<line class="g" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(loss)}" y2="${y(loss)}"/>`);
    parts.push(label(LEFT - 6, Number(y(loss)) + 4, loss.toFixed(1), 'class="s" text-anchor="end"'));
  }
  for (const step of [0, 0.25, 0.5, 0.75, 1].map((share) => Math.round(share * last))) {
    parts.push(label(x(step), HEIGHT - BOTTOM + 18, String(step + 1), 'class="s" text-anchor="middle"'));
  }
  parts.push(label(WIDTH / 2, HEIGHT - 4, "step", 'class="s" text-anchor="middle"'));
  for (const [k, { what, layergraft, TRL }] of curves.entries()) {
    const path = (/** @type {number[]} */ own) => `M${own.map((loss, i) => `${x(i)} ${y(loss)}`).join("L")}`;
    const line = `M${LEFT + 10} ${HEIGHT - BOTTOM - 30 + k * 18}h24`;
    parts.push(...pair(k, path(TRL), path(layergraft)), ...pair(k, line, line));
    const text = `${what}: layergraft thin, TRL broad`;
    parts.push(label(LEFT + 42, HEIGHT - BOTTOM - 26 + k * 18, text, 'class="i"'));
  }
  const frame = `viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}"`;
  const font = 'font-family="system-ui, sans-serif" font-size="12" role="img"';
  return `<svg xmlns="http://www.w3.org/2000/svg" ${frame} ${font} aria-label="${title}"><style>${STYLE}</style>${parts.join("")}</svg>\n`;
}
