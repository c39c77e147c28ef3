// The page of the demo: the experiment's page, after the question, the problems and the layers of the swap.

import { join } from "node:path";
import { experimentPage } from "../experiment/report/index.js";
import { type Figure, layerGrid, type Page, right, type Section } from "../figures/index.js";
import { commandLine } from "../kit/printing/index.js";
import { type Analysis, analyzeExperts, heatmapOf } from "../merge/analysis/index.js";
import type { PlanSummary } from "../merge/output/index.js";
import { MINIATURE_MODELS } from "./miniature.js";
import {
  demoAnswer,
  EXPERTS,
  isClear,
  MARKS,
  MARKS_LEGEND,
  type ModelAnswers,
  mainAnswers,
  mainRows,
  type Problem,
  shownProblems,
} from "./results.js";
import type { DemoResult } from "./run-demo.js";
import { swapLayersOf } from "./swap.js";

export interface DemoPageOptions {
  readonly signal?: AbortSignal | undefined;
  /** A command as it is typed where layergraft was started. Default: as it is. */
  readonly typed?: ((command: string) => string) | undefined;
}

/** The page of a finished demo. @throws CancelledError if the signal fires */
export async function demoPage(
  result: DemoResult,
  { signal, typed = (command) => command }: DemoPageOptions = {},
): Promise<Page> {
  const { report, status, out } = result;
  const shown = await shownProblems(out);
  const { base, math, language } = MINIATURE_MODELS;
  const experts = { [EXPERTS.task]: join(out, math), [EXPERTS.language]: join(out, language) };
  const { analysis } = await analyzeExperts({ base: join(out, base), experts, ...(signal ? { signal } : {}) });
  const page = experimentPage(report);
  const problems = shown.map(({ problem }) => problem);
  return {
    ...page,
    lead:
      "One model learned mathematics in English. Another learned Swahili. Can their layers be put together, without training, " +
      "into a model that solves word problems in Swahili?",
    verdicts: [{ title: "", text: demoAnswer(result), isOpen: !isClear(result) }],
    sections: [
      questionSection(result, problems, mainAnswers(result, shown)),
      swapSection(await swapLayersOf(status, out), mainRows(result).at(-1)?.bar.about ?? ""),
      ...page.sections,
      changesSection(analysis),
      startSection(typed),
    ].filter(({ figures }) => figures.length > 0),
    footer: `${page.footer} The idea: Bandarkar et al., Layer Swapping for Zero-Shot Cross-Lingual Transfer, arXiv 2410.01335.`,
  };
}

function questionSection(
  { report }: DemoResult,
  problems: readonly Problem[],
  models: readonly ModelAnswers[],
): Section {
  const { parameters = 0, layers = 0 } = report.base;
  return {
    id: "question",
    title: "The question",
    lead:
      `A small language model (${parameters.toLocaleString("en-US")} parameters, ${layers} layers) was trained on a made-up world ` +
      "in English and some Swahili. In word problems it only adds or subtracts 1 or 2, and it never saw the Swahili words for 3, 5, 7 " +
      "and 9. One copy then learned mathematics with larger numbers, in English only. Another learned all Swahili number words, " +
      "without word problems. Every Swahili problem asked here takes a larger number and one of the new words, so it takes both: " +
      `reading and calculating. Here are ${problems.length} of them, drawn before any model answered. ${MARKS_LEGEND}.`,
    figures: [problemsTable(problems), answersTable(problems, models)],
  };
}

function problemsTable(problems: readonly Problem[]): Figure {
  return {
    kind: "table",
    title: "The problems",
    what: "problem",
    columns: ["", "problem", "solution"],
    rows: problems.map(({ sw, en, solution }, i) => [`${i + 1}`, { text: sw, small: en }, solution]),
  };
}

function answersTable(problems: readonly Problem[], models: readonly ModelAnswers[]): Figure {
  return {
    kind: "table",
    title: "The answers",
    what: "model",
    // The score is beside the model, where a phone shows it too.
    columns: ["model", right("all, percent"), ...problems.map((_, i) => `${i + 1}`)],
    rows: models.map(({ model, answers, score }) => [
      model,
      { value: score, scale: "share" },
      ...answers.map(({ text, mark }) => ({ text: text || "no answer", small: `${MARKS[mark]} ${mark}` })),
    ]),
  };
}

const SOURCES: Readonly<Record<string, string>> = { task: "math", language: "Swahili", base: "base" };

/** The three models side by side, the output at the top. @param about whose each layer is, in words */
function swapSection(ownership: PlanSummary["ownership"] | undefined, about: string): Section {
  const of = (source: string) => ({ text: SOURCES[source] ?? source, kind: source });
  const cell = (origins: readonly (readonly string[])[]) => {
    const [first = []] = origins;
    if (origins.length > 1) return { text: "parts of both", kind: "merge" };
    return first.length > 1 ? { text: "average", kind: "average" } : of(first[0] ?? "");
  };
  const layers = ownership ?? [];
  // The output at the top; what is outside the layers is last.
  const shown = [...layers.slice(0, -1).toReversed(), ...layers.slice(-1)];
  const grid: Figure = {
    kind: "grid",
    title: "",
    rowTitle: "",
    columnTitle: "",
    columns: [EXPERTS.task, "layer swap", EXPERTS.language],
    rows: shown.map(({ layer }) => (layer === null ? "embeddings, output" : `layer ${layer}`)),
    cells: shown.map(({ origins }) => [of("task"), cell(origins), of("language")]),
    marked: [],
  };
  return {
    id: "swap",
    title: "The swap",
    lead:
      `The swap takes ${about}. Text enters at layer 0, the bottom, and the answer leaves at the top. Layers are copied, and ` +
      "nothing is trained. Of the choices of layers in the plan, this one was best on 200 other problems.",
    figures: layers.length > 0 ? [grid] : [],
  };
}

/** Where each expert changed, the output at the top. */
function changesSection(analysis: Analysis): Section {
  const { columns, panels } = heatmapOf(analysis);
  const most = Math.max(0.01, ...panels.flatMap(({ cells }) => cells.flat().map((cell) => cell ?? 0)));
  return {
    id: "changes",
    title: "Where the experts changed",
    lead:
      `${ALLOWED} A cell is the percentage of a weight matrix's rows that changed ` +
      "by more than a threshold, in attention (q, k, v, o) and feed-forward (gate, up, down). Text enters at the bottom.",
    figures: panels.map(({ title, subtitle = "", cells }) => ({
      kind: "grid",
      title,
      note: subtitle,
      isDense: true,
      ...layerGrid(columns, cells),
      span: { low: 0, high: most },
      digits: 0,
    })),
  };
}

const ALLOWED =
  "Each expert was trained in some of the layers only: mathematics in layers 3 to 7, Swahili in the embeddings and layers 0 to 2. " +
  "The figure shows where it was allowed to change, not that experts divide the layers by themselves.";

const startSection = (typed: (command: string) => string): Section => ({
  id: "start",
  title: "Start with your own models",
  lead:
    "You need two models that were fine-tuned from the same base: one on the task, one on the language. Pass their folders, or " +
    "their names on the Hugging Face hub.",
  figures: [
    {
      kind: "commands",
      commands: [
        {
          what: "See which layers would come from which expert",
          command: typed(commandLine`swap --task math-expert --language swahili-expert --dry-run`),
        },
        {
          what: "Write the merged model",
          command: typed(commandLine`swap --task math-expert --language swahili-expert --out merged`),
        },
        {
          what: "Compare methods and layers on your tasks: copy plan.yaml from this folder, name your models in it, and run it",
          command: typed(commandLine`experiment plan.yaml run`),
        },
      ],
    },
  ],
});
