import { join, relative, resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { formatPercent, plural, writeFileAtomically } from "../../core/index.js";
import {
  allRows,
  type DemoResult,
  demoAnswer,
  demoPage,
  EXPERTS,
  MARKS,
  MARKS_LEGEND,
  type ModelAnswers,
  mainAnswers,
  mainRows,
  QUICK_WARNING,
  runDemo,
  shownProblems,
  swapLayersOf,
  type WrittenProblem,
} from "../../demo/index.js";
import { noteOf, progressOf } from "../../findings/index.js";
import { formatSpan, layerStrip, reportPage, right, SILENT, showProgress, terminalLines } from "../../report/index.js";
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
  readonly train?: boolean;
  readonly seed?: number;
  readonly pairs?: number;
  readonly threads?: number;
  readonly quick?: boolean;
  readonly full?: boolean;
  readonly force?: boolean;
}

export function addDemoCommand(program: Command): void {
  const command = program
    .command("demo")
    .description(
      "See layer swapping work on small models. Merges a math expert and a Swahili expert of 0.9 million parameters with " +
        "each method that the papers compare, and scores every model on 1,000 held-out word problems in Swahili. The trained " +
        "experts come with layergraft; --train trains them from nothing. Needs no network and no GPU. Run it again to resume.",
    )
    .optionsGroup("Experiment:")
    .option("-o, --out <folder>", "folder for models, answers and report", "demo-output")
    .addOption(
      new Option("--threads <n>", "threads for each step (default: 1, fastest for small models)").argParser(
        parseThreads,
      ),
    )
    .optionsGroup("Training (each implies --train):")
    .option("--train", "train the base and the experts, in 8 minutes on two cores")
    .addOption(new Option("--seed <n>", "random seed of weights and data (default: 0)").argParser(parseCount))
    .addOption(
      new Option("--pairs <n>", "experts of each kind; every pair is merged (default: 1)").argParser(parsePairs),
    )
    .option("--full", "train all layers of each expert, not only those meant for the swap")
    .option("--quick", "train for a twentieth of the steps, to check that it runs")
    .optionsGroup("Output:")
    .option("--force", "replace a demo with other settings");
  withCommonOptions(command).action(async (flags: DemoFlags) => {
    const start = performance.now();
    const signal = interruptSignal();
    const result = await runWithProgress(flags, signal);
    const page = await writePage(result, signal);
    if (flags.json) {
      const { train, seed, pairs } = result;
      const problems = await shownProblems(flags.out, seed);
      return printJson({
        ...{ train, seed, pairs, rows: allRows(result), main: mainRows(result), answer: demoAnswer(result), page },
        problems: problems.map(({ problem }) => problem),
        answers: mainAnswers(result, problems),
      });
    }
    if (flags.quick) warn(QUICK_WARNING);
    print([
      ...(await resultLines(result)),
      `All methods and controls, answers, and where the experts changed: ${page}`,
    ]);
    const [shown] = await shownProblems(flags.out, result.seed);
    info(
      flags,
      `Finished in ${elapsed(start)}. Change the comparison, or prompt the swap:\n` +
        `  npx layergraft experiment ${join(flags.out, "plan.yaml")} run\n` +
        `  npx layergraft generate ${join(flags.out, "swap.yaml")} --prompt ${JSON.stringify(`${shown?.problem.sw} Solve:`)}`,
    );
  });
}

function parsePairs(text: string): number {
  const value = parseCount(text);
  if (value < 1 || value > 10) throw new InvalidArgumentError("It must be from 1 to 10.");
  return value;
}

async function runWithProgress(flags: DemoFlags, signal: AbortSignal): Promise<DemoResult> {
  const display = flags.quiet || flags.json ? SILENT : showProgress();
  try {
    return await runDemo({
      ...flags,
      signal,
      onTrainBase: ({ step, steps, loss }) =>
        display.update({ phase: "training the base", done: step, total: steps, detail: `loss ${loss.toFixed(3)}` }),
      // Of evaluations, answers are shown instead.
      onEvent: progressOf(display, (event) => (event.event === "done" && event.kind !== "train" ? "" : noteOf(event))),
      onProblems: (problems, asked) => display.note(describeProblems(problems, asked)),
      onAnswers: (answers) => display.note(describeAnswers(answers)),
    });
  } finally {
    display.stop();
  }
}

const ANSWER_WIDTH = 17;
const inColumns = (cells: readonly string[]) => cells.map((cell) => cell.padEnd(ANSWER_WIDTH)).join("");

function describeProblems(problems: readonly WrittenProblem[], asked: number): string {
  const told = problems.flatMap(({ sw, en }, i) => [`${i + 1}  ${sw}`, `   ${en}`]);
  return [
    `A math expert learned mathematics in English, a Swahili expert Swahili without word problems. Each model and each merge`,
    `of the two is asked ${plural(asked, "word problem")} in Swahili. ${problems.length} of them, drawn before any model answered:`,
    ...["", ...told, "", `${MARKS_LEGEND}; and the share of all problems solved:`, ""],
    inColumns(problems.map(({ solution }, i) => `${i + 1}  ${solution}`)),
  ].join("\n");
}

/** `✗ 9 + 7 = 16.    ✓ 4 + 8 = 12.      7.3%  math expert` */
function describeAnswers({ model, answers, score }: ModelAnswers): string {
  const cells = inColumns(answers.map(({ text, mark }) => `${MARKS[mark]} ${text.slice(0, ANSWER_WIDTH - 4)}`));
  return `${cells}${formatPercent(score).padStart(6)}  ${model}`;
}

/** The sentences, the table and the strip of layers. */
async function resultLines(result: DemoResult): Promise<string[]> {
  const { seed, pairs, status, out, train } = result;
  const palette = paletteFor(process.stdout);
  const share = (value: number | undefined) => (value === undefined ? "" : ({ value, scale: "share" } as const));
  const rows = mainRows(result).map(({ name, about, bar, english }) => [
    ...[name, about, share(bar.mean), formatSpan(bar.interval, { scale: "share" }), share(english)],
  ]);
  const columns = ["", "", ...["Swahili", "95% interval", "English"].map(right)];
  const of = `${train ? `, seed ${seed}` : ""}${pairs === 1 ? "" : `, mean of ${pairs ** 2} pairs of experts`}`;
  const layers = await swapLayersOf(status, out);
  return [
    ...(result.quick ? [] : [palette.bold(demoAnswer(result)), ""]),
    ...[`Word problems solved, in percent${of}:`, ""],
    ...[...terminalLines({ columns, rows }), ""],
    ...(layers
      ? ["The layer swap, from its input to its output:", "", ...layerStrip(layers, palette, EXPERTS), ""]
      : []),
  ];
}

/** Writes the page. @returns its path from the working folder */
async function writePage(result: DemoResult, signal: AbortSignal): Promise<string> {
  const page = join(resolve(result.out), "index.html");
  await writeFileAtomically(page, await reportPage(await demoPage(result, signal)));
  return relative(process.cwd(), page);
}
