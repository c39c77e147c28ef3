import { join, relative, resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { formatPercent, writeFileAtomically } from "../../core/index.js";
import {
  type DemoResult,
  demoAnswer,
  demoPage,
  demoRows,
  leads,
  mainRows,
  noteOf,
  otherMerge,
  progressOf,
  QUICK_WARNING,
  runDemo,
  type ShownAnswer,
  type ShownProblem,
  shownProblem,
  swapLayersOf,
} from "../../experiment/index.js";
import {
  formatSpan,
  layerStrip,
  pageWithData,
  right,
  SILENT,
  showProgress,
  terminalLines,
} from "../../report/index.js";
import {
  type CommonOptions,
  elapsed,
  info,
  interruptSignal,
  paletteFor,
  parseCount,
  parseThreads,
  print,
  printJson,
  warn,
  withCommonOptions,
} from "../shared/output.js";

interface DemoFlags extends CommonOptions {
  readonly out: string;
  readonly seed: number;
  readonly pairs: number;
  readonly threads?: number;
  readonly quick?: boolean;
  readonly full?: boolean;
  readonly resume?: boolean;
  readonly force?: boolean;
}

export function addDemoCommand(program: Command): void {
  const command = program
    .command("demo")
    .description(
      "See layer swapping work on small models. Generates word problems in English and Swahili and trains a base of 0.8 " +
        "million parameters. Then trains a math expert and a Swahili expert, merges them with each method the papers " +
        "compare, and scores every model on held-out problems in Swahili. Needs no network and no GPU; takes a few minutes " +
        "on two cores.",
    )
    .optionsGroup("Experiment:")
    .option("-o, --out <folder>", "folder for models, answers and report", "demo-output")
    .addOption(new Option("--seed <n>", "random seed of weights and data").argParser(parseCount).default(0))
    .addOption(new Option("--pairs <n>", "experts of each kind; every pair is merged").argParser(parsePairs).default(1))
    .addOption(
      new Option("--threads <n>", "threads for each step (default: 1, fastest for small models)").argParser(
        parseThreads,
      ),
    )
    .option("--full", "train all layers of each expert, not only those meant for the swap")
    .option("--quick", "train for a twentieth of the steps, to check that it runs")
    .optionsGroup("Output:")
    .option("--resume", "resume an interrupted demo")
    .option("--force", "replace an existing demo");
  withCommonOptions(command).action(async (flags: DemoFlags) => {
    const start = performance.now();
    const signal = interruptSignal();
    if (!flags.json) info(flags, INTRODUCTION);
    const result = await runWithProgress(flags, signal);
    const page = await writePage(result, signal);
    const rows = demoRows(result.report);
    if (flags.json) {
      const { seed, pairs } = flags;
      return printJson({ seed, pairs, rows, leads: leads(result), answer: demoAnswer(result), page });
    }
    if (flags.quick) warn(QUICK_WARNING);
    print([
      ...(await resultLines(result)),
      `All methods and controls, problems with answers, and the experts' changes: ${page}`,
    ]);
    info(
      flags,
      `Finished in ${elapsed(start)}. Change the comparison, or prompt the swap:\n` +
        `  npx layergraft experiment ${join(flags.out, "plan.yaml")} run\n` +
        `  npx layergraft generate ${join(flags.out, "swap.yaml")} --prompt ${JSON.stringify((await shownProblem(flags.out)).prompt)}`,
    );
  });
}

const INTRODUCTION =
  "Trains a small model, then two copies of it: a math expert on mathematics in English, and a Swahili expert on Swahili " +
  "without word problems. A layer swap joins layers of both. Each model is asked word problems in Swahili.\n";

function parsePairs(text: string): number {
  const value = parseCount(text);
  if (value < 1 || value > 10) throw new InvalidArgumentError("It must be from 1 to 10.");
  return value;
}

async function runWithProgress(flags: DemoFlags, signal: AbortSignal): Promise<DemoResult> {
  const display = flags.quiet || flags.json ? SILENT : showProgress();
  let isShown = false;
  try {
    return await runDemo({
      ...flags,
      signal,
      onTrainBase: ({ step, steps, loss }) =>
        display.update({ phase: "training the base", done: step, total: steps, detail: `loss ${loss.toFixed(3)}` }),
      // Of evaluations, answers are shown instead.
      onEvent: progressOf(display, (event) => (event.event === "done" && event.kind !== "train" ? "" : noteOf(event))),
      onAnswer: (answer, problem) => {
        if (!isShown) display.note(describeProblem(problem));
        isShown = true;
        display.note(describeAnswer(answer));
      },
    });
  } finally {
    display.stop();
  }
}

function describeProblem({ swahili, english, gold }: ShownProblem): string {
  return `One of the Swahili problems, and how the models answer it. No model is trained on it.
  Swahili: ${swahili}
  English: ${english}
  Answer:  ${gold}
`;
}

/** `math expert: 12 + 0 = 12 . 12 - 5 = 7 . the answer is 7 . (right; 38.4% of all problems)` */
function describeAnswer({ model, trained, text, isRight, score }: ShownAnswer): string {
  const who = trained === undefined ? model : `${model}, ${Math.round(100 * trained)}% trained`;
  const all = score === undefined ? "" : `; ${formatPercent(score)} of all problems`;
  return `${who}: ${text || "no answer"} (${isRight ? "right" : "wrong"}${all})`;
}

/** The sentence, the table and the strip of layers. */
async function resultLines(result: DemoResult): Promise<string[]> {
  const { seed, pairs, status, out } = result;
  const palette = paletteFor(process.stdout);
  const share = (value: number | undefined) => (value === undefined ? "" : ({ value, scale: "share" } as const));
  const rows = mainRows(result).map(({ name, about, bar, english }) => [
    ...[name, about, share(bar.mean), formatSpan(bar.interval, { scale: "share" }), share(english)],
  ]);
  const columns = ["", "", ...["Swahili", "95% interval", "English"].map(right)];
  const of = pairs === 1 ? "" : `, mean of ${pairs ** 2} pairs of experts`;
  const layers = await swapLayersOf(status, out);
  return [
    ...[palette.bold(demoAnswer(result)), ""],
    ...[`Word problems solved, in percent (seed ${seed}${of}):`, ""],
    ...[...terminalLines({ columns, rows }), ""],
    ...[otherMerge(result)].filter(Boolean).flatMap((line) => [line, ""]),
    ...(layers
      ? ["The layer swap, from its input to its output:", "", ...layerStrip(layers, palette, SOURCES), ""]
      : []),
  ];
}

/** What the strip calls the sources of the swap. */
const SOURCES = { task: "math expert", language: "Swahili expert" };

/** Writes the page. @returns its path from the working folder */
async function writePage(result: DemoResult, signal: AbortSignal): Promise<string> {
  const page = join(resolve(result.out), "index.html");
  await writeFileAtomically(page, await pageWithData("#report-page", await demoPage(result, signal)));
  return relative(process.cwd(), page);
}
