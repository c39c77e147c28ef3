export {
  type Bars,
  type Figure,
  type Grid,
  type Lines,
  layerGrid,
  type Page,
  type Section,
  tablesOf,
  type Verdict,
} from "./figures.js";
export {
  type Compared,
  type Finding,
  findingText,
  findingVerdict,
  findingWords,
  isMerge,
  type Lead,
  listed,
  type ModelKind,
  type Next,
  sentence,
} from "./finding.js";
export { type Heatmap, heatmapSvg } from "./heatmap.js";
export { probabilityText } from "./lead.js";
export { lossPage } from "./loss-page.js";
export { formatTick, pageWithData, reportPage } from "./page.js";
export { pageMarkdown } from "./page-markdown.js";
export { type ProgressDisplay, type ShownProgress, SILENT, showProgress } from "./progress.js";
export { csvLines, escapeMarkdown, latexText, markdownLines, terminalLines } from "./render.js";
export { ownClass, type Scale, type Score, type Span, scoreAxis } from "./scores.js";
export { type PlainFigure, plainFigures, type Shown, shownLines } from "./shown.js";
export { layerStrip, type Palette, previewLegend, renderPreview, type StripLayer } from "./strip.js";
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
