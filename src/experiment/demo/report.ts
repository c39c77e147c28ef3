// What the miniature tells of itself: its table as lines of text, what came out in a sentence, the data of its page.
// Writes nothing; the page's looks are in assets/demo.html.
import { formatDuration, formatFixed } from "../../core/format.js";
import { type Heatmap, heatmapSvg } from "../../report/heatmap.js";
import { formatTable } from "../../report/table.js";
import { NAMED_SWAP } from "./methods.js";
import type { DemoResult } from "./run.js";
import { askedProblems, demoRows, gainsAndLosses, type Lead } from "./table.js";

/** What is said of a run that shows only that everything runs. */
export const QUICK_WARNING =
  "This was a quick demo: a twentieth of the training shows that everything runs, not whether merging works.";

const points = (value: number) => formatFixed(value, 1);
const signed = (value: number) => {
  const size = points(Math.abs(value));
  return size === "0.0" ? size : `${value < 0 ? "-" : "+"}${size}`;
};
const leadText = (lead: Lead | undefined) => (lead ? `${signed(lead.points)} ± ${points(lead.error)}` : "");

/** The table for a terminal. */
export function demoTable(result: DemoResult): string[] {
  const { pairs } = result;
  const scores = pairs > 1 ? [">min", ">mean", ">max"] : [">Swahili", ">± error"];
  return formatTable(
    ["", ...scores, `>${NAMED_SWAP} leads by`, ">English", ""],
    demoRows(result).map(({ name, swahili, english, error, lead, note }) => [
      name,
      ...(pairs > 1 ? [swahili.least, swahili.mean, swahili.most] : [swahili.mean, error]).map(points),
      leadText(lead),
      points(english),
      note,
    ]),
  );
}

/** What came out, in sentences, whatever it is. */
export function demoAnswer(result: DemoResult): string {
  const rows = demoRows(result);
  const swap = rows.find(({ name }) => name === NAMED_SWAP);
  if (!swap) return "";
  const named = ["base", "math expert", "language expert", "soup", "TIES", "task arithmetic", "joint training"];
  const leads = named.flatMap((name) => {
    const { lead } = rows.find((row) => row.name === name) ?? {};
    return lead ? [{ name, lead }] : [];
  });
  const list = (holds: (lead: Lead) => boolean) => leads.filter(({ lead }) => holds(lead)).map(({ name }) => name);
  const said = (text: string, names: readonly string[]) => (names.length > 0 ? `${text} ${names.join(", ")}.` : "");
  return [
    `Swapping in the two bottom layers of the language expert solves ${points(swap.swahili.mean)}% of the Swahili problems.`,
    said(
      "That is more than",
      list(({ points: by, isClear }) => by > 0 && isClear),
    ),
    said(
      "Too close to tell, on these problems, from",
      list(({ isClear }) => !isClear),
    ),
    said(
      "It is less than",
      list(({ points: by, isClear }) => by < 0 && isClear),
    ),
  ]
    .filter(Boolean)
    .join(" ");
}

/** Data of the page. @param quick whether the run was one */
export async function demoPageData(result: DemoResult, heatmap: Heatmap, quick: boolean): Promise<unknown> {
  const { pairs, seconds, seed } = result;
  const problems = askedProblems(result, [NAMED_SWAP, "math expert"]);
  const examples = askedProblems(result, ["base", "math expert", "language expert", NAMED_SWAP]);
  const { gained, lost } = gainsAndLosses(problems);
  const time = (name: string) => (seconds[name] === undefined ? "" : `${formatDuration(seconds[name])} of training.`);
  const first = gained[0]?.swahili;
  return {
    rows: demoRows(result),
    ...{ pairs, gained, lost, named: NAMED_SWAP },
    example: examples.find(({ swahili }) => swahili === first) ?? examples[0],
    heatmap: await heatmapSvg({ ...heatmap, title: "" }),
    parameters: result.parameters,
    answer: demoAnswer(result),
    warning: quick ? QUICK_WARNING : "",
    about: `${problems.length} held-out problems, greedy answers, last number compared; seed ${seed}${pairs > 1 ? `, ${pairs ** 2} pairs of experts` : ""}.`,
    times: { base: time("base"), math: time("math-1"), language: time("language-1") },
  };
}
