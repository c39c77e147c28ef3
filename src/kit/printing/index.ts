export { commandLine } from "./commands.js";
export {
  directionsOf,
  formatBytes,
  formatCount,
  formatDuration,
  formatFixed,
  formatPercent,
  formatRanges,
  formatSome,
  isolated,
  parseBytes,
  plural,
  shorten,
} from "./format.js";
export { installCommand, publishedAt, pythonOf } from "./install-command.js";
export { removedAdvice } from "./removed.js";
export { asField, type SayField } from "./say-field.js";
export { redactor } from "./secrets.js";
export { closest, didYouMean, suggestName } from "./spelling.js";
export { endLine, shellQuote, visible, widthOf, wrapped, write } from "./terminal.js";
