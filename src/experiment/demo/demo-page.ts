// The page of the demo: its story in order, from the question to the reader's own models.

import { join } from "node:path";
import { formatPercent, formatRanges, plural } from "../../core/index.js";
import { type Analysis, heatmapOf, type PlanSummary } from "../../merge/index.js";
import {
  type BarFigure,
  type Figure,
  formatNumber,
  formatSpan,
  type GridFigure,
  type Page,
  type PageCell,
  pageCell,
  right,
  type Section,
  type Table,
  type TableFigure,
  tableFigure,
} from "../../report/index.js";
import { readRun } from "../../train/index.js";
import type { Experiment } from "../experiment.js";
import { barFigure, legendOf } from "../report/page.js";
import type { ExperimentReport, Overview, OverviewBar } from "../report/report-data.js";
import { NAMES } from "./demo-plan.js";
import {
  type AskedProblem,
  analyzeDemo,
  askedProblems,
  demoAnswer,
  describeP,
  isClear,
  type Lead,
  leads,
  type MainRow,
  mainRows,
  otherMerge,
  overviewOf,
  QUICK_WARNING,
  scoresOf,
  solvedBy,
} from "./demo-report.js";
import { swapLayersOf } from "./reported-swap.js";
import type { DemoResult } from "./run-demo.js";

/** Problems that are shown of each kind. */
const SHOWN = 2;

/** What the rows of the plan are, by their names in it. */
const ABOUT: Readonly<Record<string, string>> = {
  base: "both experts start from it",
  [NAMES.math]: "the math expert, trained in English only",
  [NAMES.language]: "the Swahili expert, trained without word problems",
  both: "trained on the data of both experts",
  soup: "the mean of both experts' weights",
  "soup by magnitude": "a mean with more weight for the expert that changed less",
  TIES: "both experts' changes, trimmed and with one sign for each weight",
  "task arithmetic": "both experts' changes, added to the base",
  "reverse swap, control of layer swap": "control: the default swap with the experts exchanged",
  "swap into the base, control of layer swap": "control: the Swahili layers of the default swap in the base",
  "random layers, control of layer swap": "control: three layers of the Swahili expert, drawn at random",
};

/** Rows that have other names in the plan than in the story. */
const RENAMED: Readonly<Record<string, string>> = {
  [NAMES.math]: "math expert",
  [NAMES.language]: "Swahili expert",
  both: "trained on both",
};

/** The name of a row in the story: `layer swap, chosen`, whatever it was chosen on. */
const named = (label: string) =>
  RENAMED[label] ?? label.replace(/chosen on .*/, "chosen").replace(/, control of .*/, "");

/** What the page is made of. */
export interface DemoStory extends Pick<DemoResult, "report" | "seed" | "pairs" | "quick">, Pick<Experiment, "plan"> {
  readonly answer: string;
  /** How the best merge that is neither a swap nor an average does. */
  readonly other: string;
  readonly rows: readonly MainRow[];
  readonly leads: readonly Lead[];
  readonly problems: readonly AskedProblem[];
  /** Where each layer of the swap comes from; undefined if the plan no longer has it. */
  readonly layers: PlanSummary["ownership"] | undefined;
  readonly analysis: Analysis;
  /** Optimizer steps of the base. */
  readonly baseSteps: number;
}

/** The page of a finished demo. @throws CancelledError if the signal fires */
export async function demoPage(result: DemoResult, signal?: AbortSignal): Promise<Page> {
  const { report, experiment, status, seed, pairs, quick, out } = result;
  const { run } = await readRun(join(out, "base.yaml"));
  return storyPage({
    ...{ report, seed, pairs, quick, plan: experiment.plan, baseSteps: run.steps ?? 0 },
    ...{ answer: demoAnswer(result), other: otherMerge(result), rows: mainRows(result), leads: leads(result) },
    problems: await askedProblems(result),
    layers: await swapLayersOf(status, out),
    analysis: await analyzeDemo(result, signal),
  });
}

export function storyPage(story: DemoStory): Page {
  const { report, seed, pairs, quick, problems, answer } = story;
  const { parameters = 0, layers = 0 } = report.base;
  const several = `Scores are means over ${pairs ** 2} pairs of experts. Answers, layers and changes are of the first pair.`;
  const sections: Section[] = [
    {
      ...{ id: "question", title: "The question" },
      lead:
        `A small language model (${parameters.toLocaleString("en-US")} parameters, ${layers} layers) was trained on a made-up world ` +
        "in English and some Swahili. In word problems it only adds or subtracts 1 or 2, and it never saw the Swahili words for 3, 5, 7 " +
        "and 9. One copy then learned mathematics with larger numbers, in English only. Another learned all Swahili number words, " +
        "without word problems. Every Swahili problem asked here takes a larger number and one of the new words, so it takes both: " +
        "reading and calculating.",
      // Other sections start with the first ones.
      figures: solvedBy(problems, { right: [], wrong: ["base"] })
        .slice(-1)
        .map((problem) => problemFigure(problem, ["base"])),
    },
    expertsSection(story),
    pictureSection(story),
    resultSection(story),
    changesSection(story),
    methodsSection(story),
    madeSection(story),
    START,
  ];
  return {
    title: "Layer swapping in miniature",
    lead:
      "One model learned mathematics in English. Another learned Swahili. Can their layers be put together, without training, " +
      "into a model that solves word problems in Swahili?",
    verdicts: [{ title: "", text: answer }],
    notes: [...(quick ? [QUICK_WARNING] : []), ...(pairs > 1 ? [several] : [])],
    sections: sections.filter(({ figures }) => figures.length > 0),
    footer: `Made by layergraft ${report.layergraft} with seed ${seed}. The idea: Bandarkar et al., Layer Swapping for Zero-Shot Cross-Lingual Transfer, arXiv 2410.01335.`,
  };
}

const percent = (value: number | undefined) => (value === undefined ? "–" : formatPercent(value));

/** A problem with the answers of some models. */
function problemFigure({ swahili, english, gold, answers }: AskedProblem, names: readonly string[]): TableFigure {
  const rows = answers
    .filter(({ name }) => names.includes(name))
    .map(({ name, text, isRight }) => [
      { text: name, small: isRight ? "✓ right" : "✗ wrong" },
      { text: text.trim() || "no answer" },
    ]);
  const caption = `In English: ${english} The answer is ${gold}.`;
  return {
    ...tableFigure({ columns: ["model", "answer"], rows: [] }, "model", { title: swahili, lang: "sw", caption }),
    rows,
  };
}

/** What reading alone takes: asked for a number that stands in a Swahili text. */
function readingSentence(report: ExperimentReport): string[] {
  const scores = scoresOf(report, "reading");
  const [base, math, language] = ["base", NAMES.math, NAMES.language].map((label) => scores.get(label));
  if (base === undefined || math === undefined || language === undefined) return [];
  return [
    `Asked only which number is in a new Swahili text, which it practiced, the Swahili expert answers ${percent(language)} right, ` +
      `the math expert ${percent(math)} and the base ${percent(base)}.`,
  ];
}

function expertsSection({ report, rows, problems }: DemoStory): Section {
  const sentences = rows
    .filter(({ name }) => name.endsWith("expert"))
    .map(
      ({ name, bar, english }) =>
        `The ${name} solves ${percent(english)} of the problems in English and ${percent(bar.mean)} of them in Swahili.`,
    );
  const experts = ["math expert", "Swahili expert"];
  const bothFail = solvedBy(problems, { right: [], wrong: experts });
  const composed = solvedBy(problems, { right: ["layer swap"], wrong: experts });
  const counted = `Both experts miss ${bothFail.length} of the ${plural(problems.length, "problem")}, and the layer swap solves ${composed.length} of these.`;
  const chosen = composed.length > 0 ? composed : bothFail;
  const shown = chosen.slice(0, SHOWN);
  const which = shown.length === 0 ? "" : ` Here are the first ${composed.length > 0 ? "that it solves" : "of them"}:`;
  return {
    ...{ id: "experts", title: "What each expert gets wrong" },
    lead: [...sentences, ...readingSentence(report), counted + which].join(" "),
    figures: shown.map((problem) => problemFigure(problem, [...experts, "layer swap"])),
  };
}

const SOURCES: Readonly<Record<string, string>> = { task: "math", language: "Swahili", base: "base" };

/** The three models side by side, the output at the top. */
function pictureSection({ layers: ownership = [], report }: DemoStory): Section {
  const of = (source: string) => ({ text: SOURCES[source] ?? source, kind: source });
  const cell = (origins: readonly (readonly string[])[]) => {
    const [first = []] = origins;
    if (origins.length > 1) return { text: "parts of both", kind: "merge" };
    return first.length > 1 ? { text: "average", kind: "average" } : of(first[0] ?? "");
  };
  const rows = ownership.map(({ layer, origins }) => ({
    label: layer === null ? "embeddings, output" : `layer ${layer}`,
    cells: [of("task"), cell(origins), of("language")],
  }));
  const layers = rows.slice(0, -1).toReversed();
  const from = (source: string) => {
    const own = ownership.flatMap(({ layer, origins }) =>
      layer !== null && origins.length === 1 && origins[0]?.length === 1 && origins[0][0] === source ? [layer] : [],
    );
    return own.length === 0 ? "no layer" : `${own.length === 1 ? "layer" : "layers"} ${formatRanges(own)}`;
  };
  const grid: GridFigure = {
    ...{ kind: "grid", title: "", rowTitle: "", columnTitle: "" },
    columns: ["math expert", "layer swap", "Swahili expert"],
    rows: [...layers, ...rows.slice(-1)],
  };
  return {
    ...{ id: "swap", title: "The swap" },
    lead:
      `The swap has ${from("language")} of the Swahili expert and ${from("task")} of the math expert. Text enters at layer 0, the ` +
      "bottom, and the answer leaves at the top. Layers are copied, and nothing is trained." +
      choiceSentence(report),
    figures: ownership.length > 0 ? [grid] : [],
  };
}

function resultSection({ report, rows, problems, leads: all, other }: DemoStory): Section {
  const overview = overviewOf(report, "sw");
  const gained = solvedBy(problems, { right: ["layer swap"], wrong: ["math expert"] });
  const lost = solvedBy(problems, { right: ["math expert"], wrong: ["layer swap"] });
  const shown = lost.slice(0, SHOWN).map((problem) => problemFigure(problem, ["math expert", "layer swap"]));
  const bars: readonly OverviewBar[] = rows.map(({ name, about, bar, english }) => ({
    ...{ ...bar, label: name, detail: `${about}; in English ${percent(english)}`, isBest: false },
  }));
  const main: BarFigure[] = overview
    ? [
        {
          ...barFigure({ ...told(overview), bars }),
          id: "main",
          title: "Swahili problems solved",
        },
      ]
    : [];
  return {
    ...{ id: "result", title: "The result" },
    lead:
      `The swap solves ${plural(gained.length, "problem")} that the math expert misses, and misses ${lost.length} that the math ` +
      `expert solves.${shown.length > 0 ? " The last tables show the first of those. Only the last number is graded, so a wrong equation can be right by accident." : ""}` +
      (other ? ` ${other}` : ""),
    legend: legendOf(overview ? [{ ...overview, bars }] : []),
    figures: [...main, ...leadsFigures(all.filter(({ isMain }) => isMain)), ...shown],
  };
}

/** An overview in the words of the demo. */
function told(overview: Overview): Overview {
  return { ...overview, choice: "", verdict: "", protocol: "answered with the most likely words" };
}

function choiceSentence({ searches }: ExperimentReport): string {
  const [search] = searches.flatMap(({ tasks }) => tasks);
  return search
    ? ` Of the choices of layers in the plan, this one was best on ${plural(search.all, "other problem")}.`
    : "";
}

function leadsFigures(all: readonly Lead[]): Figure[] {
  if (all.length === 0) return [];
  const share = { scale: "share", isSigned: true } as const;
  const rows = all.map((lead): PageCell[] => [
    {
      text: named(lead.against),
      small: `${isClear(lead) ? "beyond chance" : "too close to tell"}, ${describeP(lead)}`,
    },
    { text: formatNumber({ value: lead.difference, ...share }), small: formatSpan(lead.interval, share) },
    pageCell({ value: lead.standardError, scale: "share" }),
  ]);
  const columns = ["against", right("points, 95% interval"), right("standard error")];
  const caption =
    "Both models answered the same problems, so their difference is more certain than the intervals above. It covers the choice of " +
    "problems, not of training runs. p: sign-flip test.";
  const title = "The swap minus each of the others";
  return [{ ...tableFigure({ columns, rows: [] }, "comparison", { title, caption }), rows }];
}

function changesSection({ analysis, plan }: DemoStory): Section {
  const isPart = Object.values(plan.experts).some(({ train }) => train?.run.train !== undefined);
  const { columns, panels } = heatmapOf(analysis);
  const most = Math.max(0.01, ...panels.flatMap(({ cells }) => cells.flat().map((cell) => cell ?? 0)));
  const figures = panels.map(
    ({ title, subtitle, cells }): GridFigure => ({
      ...{ kind: "grid", title, caption: subtitle ?? "", isDense: true, rowTitle: "layer", columnTitle: "" },
      columns,
      rows: cells
        .map((row, layer) => ({
          label: String(layer),
          cells: row.map((value) =>
            value === null ? null : { text: formatNumber({ value, scale: "share", digits: 0 }), depth: value / most },
          ),
        }))
        .toReversed(),
    }),
  );
  return {
    ...{ id: "changes", title: "Where the experts changed" },
    lead:
      `${isPart ? ALLOWED : describeLeaning(analysis)} A cell is the percentage of a weight matrix's rows that changed by more than a threshold, ` +
      "in attention (q, k, v, o) and feed-forward (gate, up, down). Text enters at the bottom.",
    figures,
  };
}

const ALLOWED =
  "Each expert was trained in some of the layers only: mathematics in the middle and upper layers, Swahili in the embeddings and at " +
  "the bottom. The figure shows where it was allowed to change, not that experts divide the layers by themselves. Run the demo " +
  "with --full to see where they change when all layers are trained.";

// Smaller differences between two groups of layers are called even.
const LEAN = 1.1;

/** Whether the changes lean as in the paper's figure: mathematics above the bottom layers, language in them. */
export function describeLeaning(analysis: Analysis): string {
  const bottom = Math.ceil(analysis.layers / 4);
  const { panels } = heatmapOf(analysis);
  const found = panels.map(({ title, cells }) => {
    const mean = (layers: typeof cells) => {
      const values = layers.flat().filter((value) => value !== null);
      return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
    };
    const [low, high] = [mean(cells.slice(0, bottom)), mean(cells.slice(bottom))];
    const lean = low > LEAN * high ? "bottom" : high > LEAN * low ? "upper" : "even";
    const where = bottom === 1 ? "bottom layer" : `bottom ${bottom} layers`;
    return {
      lean,
      text: `The ${title} changed ${percent(low)} of the rows in the ${where}, and ${percent(high)} above.`,
    };
  });
  const [math, language] = found.map(({ lean }) => lean);
  const [isMath, isLanguage] = [math === "upper", language === "bottom"];
  const verdict =
    isMath && isLanguage
      ? "The changes lean as in the paper: mathematics in the middle and upper layers, language at the bottom"
      : isMath
        ? "Mathematics leans to the middle and upper layers, as in the paper; language does not lean to the bottom"
        : isLanguage
          ? "Language leans to the bottom, as in the paper; mathematics does not lean to the middle and upper layers"
          : "The changes do not lean as in the paper, which finds mathematics in the middle and upper layers and language at the bottom";
  return [`${verdict}.`, ...found.map(({ text }) => text)].join(" ");
}

function methodsSection({ report, leads: all }: DemoStory): Section {
  const overview = overviewOf(report, "sw");
  const english = scoresOf(report, "en");
  const bars = (overview?.bars ?? []).map((bar) => ({
    ...{ ...bar, label: named(bar.label) },
    detail: `${ABOUT[bar.label] ?? bar.detail}; in English ${percent(english.get(bar.label))}`,
  }));
  return {
    ...{ id: "methods", title: "All methods and controls" },
    lead:
      "Averages and task vectors merge the same two experts in other ways. The controls ask whether any exchange of layers would " +
      "do. Training one model on both data sets needs all the data at once, which merging does not.",
    legend: overview ? legendOf([overview]) : [],
    figures: overview
      ? [
          { ...barFigure({ ...told(overview), bars }), id: "all", title: "" },
          ...leadsFigures(all.filter(({ isMain }) => !isMain)),
        ]
      : [],
  };
}

const LEARNED: Readonly<Record<string, string>> = {
  [NAMES.math]: "mathematics in English",
  [NAMES.language]: "Swahili without word problems",
  both: "the data of both experts",
};

function madeSection({ plan, report, baseSteps }: DemoStory): Section {
  const families = Object.entries(plan.experts).flatMap(([family, { train }]) =>
    train ? [{ family, steps: Number(train.run.steps ?? 0), part: train.run.train }] : [],
  );
  const count = (value: number) => ({ value, scale: "count" }) as const;
  const table: Table = {
    columns: ["model", "learned from", right("steps")],
    rows: [
      ["base", "English and some Swahili", count(baseSteps)],
      ...families.map(({ family, steps, part }) => [
        named(family),
        `${LEARNED[family] ?? ""}${part ? `, in ${part} only` : ""}`,
        count(steps),
      ]),
    ],
  };
  const overview = overviewOf(report, "sw");
  return {
    ...{ id: "made", title: "How it was made" },
    lead:
      "Texts come from templates: names, things, verbs that add or take away, numbers and places. The base meets larger numbers in bare " +
      "equations. Swahili words are cut into syllables, so reading them takes work. No model was trained on the problems " +
      `asked${overview ? ` (${overview.items})` : ""}. The same seed gives the same numbers.`,
    figures: [tableFigure(table, "model")],
  };
}

const START: Section = {
  ...{ id: "start", title: "Start with your own models" },
  lead:
    "You need two models that were fine-tuned from the same base: one on the task, one on the language. Pass their folders, or " +
    "their names on the Hugging Face hub. Run these commands in your clone of layergraft:",
  figures: [
    {
      kind: "commands",
      commands: [
        {
          what: "See which layers would come from which expert",
          command: "npx layergraft swap --task math-expert --language swahili-expert --dry-run",
        },
        {
          what: "Write the merged model",
          command: "npx layergraft swap --task math-expert --language swahili-expert --out merged",
        },
        {
          what: "Compare methods and layers on your tasks: copy plan.yaml from this folder, name your models in it, and run it",
          command: "npx layergraft experiment plan.yaml run",
        },
      ],
    },
  ],
};
