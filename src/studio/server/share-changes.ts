// Why a recipe has its layers, and where its experts changed, for the page that is shared.
import { join } from "node:path";
import { z } from "zod";
import { type Figure, layerGrid, ownClass } from "../../figures/index.js";
import { formatPercent, formatRanges } from "../../kit/printing/index.js";
import { changeOf, comparedChanges, hasDefaultLayers, whereChanged } from "../../merge/index.js";
import { readJobs, readResult } from "../jobs/jobs.js";
import { fingerprintsOf } from "../models/fingerprints.js";
import { PRIVATE_FOLDER } from "../project/project.js";
import { haveChanged, jobInputs, type Settings } from "../protocol/index.js";
import type { Board, RecipeValue } from "../recipe/board.js";

/** What the shared page reads of an analysis, whose file may be a stranger's. */
const measuredPage = z.object({
  experts: z.array(z.string()),
  columns: z.array(z.string()),
  steps: z.array(z.number()),
  marks: z.array(z.object({ name: z.string(), steps: z.array(z.number()) })),
  cells: z.array(
    z.array(
      z.array(z.object({ rows: z.number(), above: z.array(z.number()), mean: z.number().nullable() }).nullable()),
    ),
  ),
});

/** What the latest analysis of the models as they are found. */
interface Changes {
  readonly finding: string;
  readonly grids: readonly Omit<Extract<Figure, { kind: "grid" }>, "kind">[];
  /** Of each expert: its changed rows by layer. */
  readonly taken: readonly { readonly source: string; readonly changed: readonly number[] }[];
}

/** Of the models as they are; empty if there is no such analysis. */
export async function changesOf(project: string, { base, experts }: Settings): Promise<Changes> {
  const folder = join(project, PRIVATE_FOLDER, "jobs");
  for (const found of (await readJobs(folder)).reverse()) {
    const { data: input } = jobInputs.analyze.safeParse(found.kind === "analyze" ? found.input : undefined);
    if (found.state !== "done" || input?.base !== base) continue;
    if (haveChanged(found.fingerprints, await fingerprintsOf(Object.keys(found.fingerprints ?? {}), project))) continue;
    const { data: page } = measuredPage.safeParse(await readResult(join(folder, found.id)));
    if (!page) continue;
    const measured = input.experts.flatMap(({ source, name }) => {
      const at = experts.findIndex((one) => one.source === source);
      const expert = page.experts.indexOf(name);
      const { own, common, mean } = changeOf(page, expert);
      if (at < 0 || !own) return [];
      const layers = page.cells[expert] ?? [];
      const step = page.marks[0]?.steps[expert] ?? 0;
      const size = (value: number) => value.toExponential(2);
      const above = common
        ? `; ${formatPercent(common.share)} of its rows are above ${size(common.threshold)}, one threshold for all`
        : "";
      return [
        {
          source,
          changed: layers.map((cells) => cells.reduce((sum, cell) => sum + (cell?.above[step] ?? 0), 0)),
          grid: {
            title: experts[at]?.name ?? name,
            note: `Threshold ${size(own.threshold)}; mean change ${size(mean ?? 0)}${above}.`,
            digits: 0,
            own: ownClass(at),
            ...layerGrid(
              page.columns,
              layers.map((cells) =>
                cells.map((cell) => (cell && cell.rows > 0 ? (cell.above[step] ?? 0) / cell.rows : null)),
              ),
            ),
          },
        },
      ];
    });
    const names = page.experts.map((name) => {
      const source = input.experts.find((one) => one.name === name)?.source;
      return experts.find((one) => one.source === source)?.name ?? name;
    });
    return {
      finding: `${whereChanged(page, names, formatRanges)} ${comparedChanges(page, names)}`.trim(),
      grids: measured.map(({ grid }) => grid),
      taken: measured,
    };
  }
  return { finding: "", grids: [], taken: [] };
}

/** How the layers were chosen, and how much of what each expert changed is in those that are taken from it. */
export function whyLayers(
  recipe: RecipeValue,
  { rows }: Board,
  { taken }: Changes,
  nameOf: (source: string) => string,
): string {
  const how =
    recipe.method === "swap" && hasDefaultLayers(recipe)
      ? ["The layers are the paper's default for this depth (5 at the input and 2 at the output of 32, in proportion)."]
      : ["The recipe chooses these layers; they are not the paper's default."];
  const measured = taken.flatMap(({ source, changed }) => {
    const all = changed.reduce((sum, rows) => sum + rows, 0);
    if (all === 0) return [];
    const own = changed.filter((_, layer) => {
      const { attention = [], mlp = [] } = rows[layer] ?? {};
      return attention.includes(source) && mlp.includes(source);
    });
    const share = own.reduce((sum, rows) => sum + rows, 0) / all;
    return [`${formatPercent(share)} of the rows that ${nameOf(source)} changed`];
  });
  return [
    ...how,
    ...(measured.length > 0 ? [`The layers that the merge takes have ${measured.join(" and ")}.`] : []),
  ].join(" ");
}
