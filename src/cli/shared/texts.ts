// Files of texts, one per line, on which models are measured.

import { readBounded } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";

export const ON_HELP = "text file, one text per line (4 to 1000): also measure how alike the models represent them";
const MOST_BYTES = 16_000_000;

/** The texts of a file, one per line. */
export async function readTexts(file: string): Promise<string[]> {
  const tooLarge = () => usageError(`${file} is larger than ${formatBytes(MOST_BYTES)}. Give --on some hundred texts.`);
  const texts = String(await readBounded(file, MOST_BYTES, tooLarge)).split("\n");
  return texts.filter((text) => text.trim() !== "");
}
