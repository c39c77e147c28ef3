import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { heatmapSvg, pageWithData } from "../../figures/index.js";
import { writeSafetensors } from "../../formats/safetensors/index.js";
import { checkFolderOutput, writeFolder } from "../../kit/files/index.js";
import type { AnalysisWithRows } from "./analysis.js";
import { heatmapOf } from "./analysis-views.js";
import { pageData } from "./page-data.js";

const FILES: readonly string[] = ["analysis.json", "rows.safetensors", "heatmap.svg", "report.html"];

/** Where an analysis is written. */
export interface AnalysisOutput {
  /** Folder for analysis.json, rows.safetensors, heatmap.svg and report.html. Default: nothing is written. */
  readonly out: string;
  /** Replace an existing analysis. A folder with other files is never replaced. Default: false. */
  readonly force?: boolean | undefined;
  /** Draws the published maps beside each expert's in heatmap.svg. Default: none. */
  readonly beside?: "paper" | undefined;
  /** What report.html proposes to run next. Default: nothing. */
  readonly next?: string | undefined;
}

/**
 * Checks that an analysis can be written to a folder.
 * @param inputs analysed models; the folder must not be one of them
 * @throws OutputError if the folder is an input, or exists and may not be replaced
 */
export function checkAnalysisOutput(output: AnalysisOutput, inputs: readonly string[]): Promise<void> {
  return checkFolderOutput(output, inputs, (path) => FILES.includes(path));
}

/** Writes analysis.json, rows.safetensors, heatmap.svg and report.html. @throws OutputError if it cannot */
export async function writeAnalysis(
  { out, force, beside, next }: AnalysisOutput,
  result: AnalysisWithRows,
): Promise<void> {
  await mkdir(dirname(resolve(out)), { recursive: true });
  const fill = async (partial: string) => {
    await writeFile(join(partial, "analysis.json"), `${JSON.stringify(result.analysis, null, 1)}\n`);
    const page = { ...pageData(result), next };
    await writeFile(join(partial, "report.html"), await pageWithData("#analysis-page", page));
    await writeFile(join(partial, "heatmap.svg"), heatmapSvg(heatmapOf(result.analysis, beside)));
    const tensors = [...result.rows].map(([name, rows]) => {
      return { name, dtype: "F32" as const, shape: [rows.length], data: rows };
    });
    await writeSafetensors(join(partial, "rows.safetensors"), tensors);
  };
  await writeFolder(out, "the analysis", fill, { replace: force ?? false });
}
