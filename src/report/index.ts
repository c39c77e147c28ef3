export {
  type Bars,
  type Commands,
  type Figure,
  type Grid,
  gridTable,
  type Lines,
  layerGrid,
  type Page,
  type Section,
  type TableFigure,
} from "./figures.js";
export { type Heatmap, heatmapSvg } from "./heatmap.js";
export { heatmapLines } from "./heatmap-terminal.js";
export { formatTick } from "./lines.js";
export { type LogEntry, lossCurveSvg } from "./loss-curve.js";
export { pageWithData, reportPage } from "./page.js";
export { previewLegend, renderPreview } from "./preview.js";
export { type ProgressDisplay, type ShownProgress, SILENT, showProgress } from "./progress.js";
export { csvLines, escapeMarkdown, latexText, markdownLines, terminalLines } from "./render.js";
export { type Scale, type Score, type Span, scoreAxis } from "./scores.js";
export { layerStrip, type Palette } from "./strip.js";
export {
  type Cell,
  count,
  formatNumber,
  formatSpan,
  type NumberCell,
  plainCell,
  right,
  type Table,
  type TextCell,
} from "./table.js";
