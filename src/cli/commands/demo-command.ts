import { join, relative, resolve } from "node:path";
import type { Command } from "commander";
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
  type Problem,
  runDemo,
  shownProblems,
  swapLayersOf,
} from "../../demo/index.js";
import { loadRuntime } from "../../engine/runtime/index.js";
import { noteOf, progressOf } from "../../experiment/report/index.js";
import { formatSpan, layerStrip, reportPage, right, SILENT, showProgress, terminalLines } from "../../figures/index.js";
import { writeFileAtomically } from "../../kit/files/index.js";
import { commandLine, formatPercent } from "../../kit/printing/index.js";
import { asTyped } from "../shared/command-name.js";
import {
  type CommonOptions,
  elapsed,
  info,
  interruptSignal,
  paletteFor,
  print,
  printJson,
  withCommonOptions,
} from "../shared/output.js";

interface DemoFlags extends CommonOptions {
  readonly out: string;
  readonly force?: boolean;
}

export function add(program: Command): void {
  const command = program
    .command("demo")
    .description(
      "See layer swapping work on small models. Merges a math expert and a Swahili expert of 0.9 million parameters with " +
        "each method that the papers compare, and scores every model on 1,000 held-out word problems in Swahili. Needs no " +
        "network and no GPU. Run it again to resume.",
    )
    .option("-o, --out <folder>", "folder for models, answers and report", "demo-output")
    .option("--force", "replace an earlier demo");
  withCommonOptions(command).action(async (flags: DemoFlags) => {
    const start = performance.now();
    const signal = interruptSignal();
    // Missing, it would fail each step of the plan.
    await loadRuntime();
    const result = await runWithProgress(flags, signal);
    const page = await writePage(result, signal);
    if (flags.json) {
      const problems = await shownProblems(flags.out);
      return printJson({
        rows: allRows(result),
        main: mainRows(result),
        answer: demoAnswer(result),
        page,
        problems: problems.map(({ problem }) => problem),
        answers: mainAnswers(result, problems),
      });
    }
    print([
      ...(await resultLines(result)),
      `All methods and controls, answers, and where the experts changed: ${page}`,
    ]);
    const [shown] = await shownProblems(flags.out);
    info(
      flags,
      `Finished in ${elapsed(start)}. Change the comparison, or prompt the swap:\n` +
        `  ${commandLine`experiment ${join(flags.out, "plan.yaml")} run`}\n` +
        `  ${commandLine`generate ${join(flags.out, "swap.yaml")} --chat --prompt ${shown?.problem.sw ?? ""}`}`,
    );
  });
}

async function runWithProgress(flags: DemoFlags, signal: AbortSignal): Promise<DemoResult> {
  const display = flags.quiet || flags.json ? SILENT : showProgress();
  try {
    return await runDemo({
      ...flags,
      signal,
      // Of evaluations, answers are shown instead.
      onEvent: progressOf(display, (event) => (event.event === "done" ? "" : noteOf(event))),
      onProblems: (problems) => display.note(describeProblems(problems)),
      onAnswers: (answers) => display.note(describeAnswers(answers)),
    });
  } finally {
    display.stop();
  }
}

const ANSWER_WIDTH = 17;
const inColumns = (cells: readonly string[]) => cells.map((cell) => cell.padEnd(ANSWER_WIDTH)).join("");

function describeProblems(problems: readonly Problem[]): string {
  const told = problems.flatMap(({ sw, en }, i) => [`${i + 1}  ${sw}`, `   ${en}`]);
  return [
    `A math expert learned mathematics in English, a Swahili expert Swahili without word problems. Each model and each merge`,
    `of the two is asked 1,000 word problems in Swahili. ${problems.length} of them, drawn before any model answered:`,
    ...["", ...told, "", `${MARKS_LEGEND}; and the share of all problems solved:`, ""],
    inColumns(problems.map(({ solution }, i) => `${i + 1}  ${solution}`)),
  ].join("\n");
}

/** `✗ 9 + 7 = 16.    ✓ 4 + 8 = 12.      7.3%  math expert` */
function describeAnswers({ model, answers, score }: ModelAnswers): string {
  const cells = inColumns(answers.map(({ text, mark }) => `${MARKS[mark]} ${text.slice(0, ANSWER_WIDTH - 4)}`));
  return `${cells}${formatPercent(score).padStart(6)}  ${model}`;
}

async function resultLines(result: DemoResult): Promise<string[]> {
  const { status, out } = result;
  const palette = paletteFor(process.stdout);
  const share = (value: number | undefined) => (value === undefined ? "" : ({ value, scale: "share" } as const));
  const rows = mainRows(result).map(({ name, about, bar, english }) => [
    ...[name, about, share(bar.mean), formatSpan(bar.interval, { scale: "share" }), share(english)],
  ]);
  const columns = ["", "", ...["Swahili", "95% interval", "English"].map(right)];
  const layers = await swapLayersOf(status, out);
  return [
    ...[palette.bold(demoAnswer(result)), ""],
    ...["Word problems solved, in percent:", ""],
    ...[...terminalLines({ columns, rows }), ""],
    ...(layers
      ? ["The layer swap, from its input to its output:", "", ...layerStrip(layers, palette, EXPERTS), ""]
      : []),
  ];
}

/** Writes the page. @returns its path from the working folder */
async function writePage(result: DemoResult, signal: AbortSignal): Promise<string> {
  const page = join(resolve(result.out), "index.html");
  await writeFileAtomically(page, await reportPage(await demoPage(result, { signal, typed: asTyped })));
  return relative(process.cwd(), page);
}
