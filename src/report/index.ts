// Exports of report/ for other rooms.
export { type Heatmap, heatmapSvg } from "./heatmap.js";
export { heatmapLines } from "./heatmap-terminal.js";
export { type LinesData, placeLines } from "./lines.js";
export { type LogEntry, lossCurveSvg } from "./loss-curve.js";
export {
  type BarFigure,
  type CommandsFigure,
  type Figure,
  type GridFigure,
  type LinesFigure,
  type Page,
  type PageCell,
  pageCell,
  pageWithData,
  type Section,
  type TableFigure,
  tableFigure,
} from "./page.js";
export { previewLegend, renderPreview } from "./preview.js";
export { type Progress, type ProgressDisplay, SILENT, showProgress } from "./progress.js";
export { csvLines, escapeMarkdown, latexText, markdownLines, terminalLines } from "./render.js";
export { layerStrip, type Palette } from "./strip.js";
export {
  type Cell,
  count,
  formatNumber,
  formatSpan,
  type NumberCell,
  plainCell,
  right,
  type Scale,
  type Span,
  type Table,
} from "./table.js";
