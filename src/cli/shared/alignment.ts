// `--on`: how alike the models of an analysis represent texts.

import type { HubAccess } from "../../formats/checkpoint/index.js";
import { readBounded } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import type { Analysis } from "../../merge/analysis/index.js";
import type { WorkControls } from "./output.js";

export const ON_HELP = "text file, one text per line (4 to 1000): also measure how alike the models represent them";
const MOST_BYTES = 16_000_000;

/** Adds the alignment on the texts of a file. @param experts sources by the names of the analysis */
export async function align(
  analysis: Analysis,
  {
    base,
    experts,
    on,
  }: { readonly base: string; readonly experts: Readonly<Record<string, string>>; readonly on: string },
  controls: WorkControls & { readonly hub: HubAccess },
): Promise<Analysis> {
  const { alignExperts } = await import("../../engine/index.js");
  return alignExperts(analysis, base, experts, await readTexts(on), controls);
}

/** The texts of a file, one per line. */
export async function readTexts(file: string): Promise<string[]> {
  const tooLarge = () => usageError(`${file} is larger than ${formatBytes(MOST_BYTES)}. Give --on some hundred texts.`);
  const texts = String(await readBounded(file, MOST_BYTES, tooLarge)).split("\n");
  return texts.filter((text) => text.trim() !== "");
}
