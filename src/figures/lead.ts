// Scores and probabilities in sentences.
import type { Scale } from "./scores.js";
import { formatNumber } from "./table.js";

/** A score in a sentence: `82.1%`, or points as they are. */
export const scoreText = (value: number, scale: Scale) =>
  `${formatNumber({ value, scale })}${scale === "share" ? "%" : ""}`;

/** A probability in a sentence: `p = 0.044`, `p < 0.0001`. */
export const probabilityText = (p: number) =>
  `p ${formatNumber({ value: p, scale: "probability" }).replace(/^(?!<)/, "= ")}`;
