import { join, relative, resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { writeFileAtomically } from "../../core/index.js";
import {
  analyzeDemo,
  type DemoResult,
  demoAnswer,
  demoPageData,
  demoRows,
  progressOf,
  QUICK_WARNING,
  runDemo,
} from "../../experiment/index.js";
import { heatmapOf } from "../../merge/index.js";
import {
  formatSpan,
  heatmapSvg,
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
  readonly resume?: boolean;
  readonly force?: boolean;
}

export function addDemoCommand(program: Command): void {
  const command = program
    .command("demo")
    .description(
      "See layer swapping work on small models. Generates word problems in English and Swahili and trains a base of half a " +
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
    .option("--quick", "train for a twentieth of the steps, to check that it runs")
    .optionsGroup("Output:")
    .option("--resume", "resume an interrupted demo")
    .option("--force", "replace an existing demo");
  withCommonOptions(command).action(async (flags: DemoFlags) => {
    const start = performance.now();
    const signal = interruptSignal();
    const result = await runWithProgress(flags, signal);
    const page = await writePage(result, signal);
    const rows = demoRows(result.report);
    if (flags.json) return printJson({ seed: flags.seed, pairs: flags.pairs, rows, answer: demoAnswer(result), page });
    if (flags.quick) warn(QUICK_WARNING);
    print([...tableLines(result), "", demoAnswer(result)]);
    info(flags, `Finished in ${elapsed(start)}; open ${page}`);
    info(
      flags,
      `Change the comparison: npx layergraft experiment ${join(flags.out, "plan.yaml")} run\n` +
        `Prompt the merge: npx layergraft generate ${join(flags.out, "swap.yaml")} --prompt "musa alikuwa na vitabu 12 . musa alibeba vitabu 6 . musa ana vitabu vingapi sasa ? [solve] :"`,
    );
  });
}

function parsePairs(text: string): number {
  const value = parseCount(text);
  if (value < 1 || value > 10) throw new InvalidArgumentError("It must be from 1 to 10.");
  return value;
}

async function runWithProgress(flags: DemoFlags, signal: AbortSignal): Promise<DemoResult> {
  const display = flags.quiet ? SILENT : showProgress();
  try {
    return await runDemo({
      ...flags,
      signal,
      onTrainBase: ({ step, steps, loss }) =>
        display.update({ phase: "training the base", done: step, total: steps, detail: `loss ${loss.toFixed(3)}` }),
      onEvent: progressOf(display),
    });
  } finally {
    display.stop();
  }
}

function tableLines({ report, seed, pairs }: DemoResult): string[] {
  const isOne = pairs === 1;
  const share = (value: number | undefined) => (value === undefined ? "" : ({ value, scale: "share" } as const));
  const rows = demoRows(report).map(({ label, detail, mean, low, high, interval, english }) => [
    detail === "" ? label : `${label} (${detail})`,
    share(mean),
    ...(isOne ? [formatSpan(interval, { scale: "share" })] : [share(low), share(high)]),
    share(english),
  ]);
  const columns = isOne ? ["Swahili", "95% interval", "English"] : ["Swahili mean", "min", "max", "English"];
  const title = `Word problems solved, in percent (seed ${seed}${isOne ? "" : `, ${pairs ** 2} pairs of experts`})`;
  return [paletteFor(process.stdout).bold(title), "", ...terminalLines({ columns: ["", ...columns.map(right)], rows })];
}

/** Writes the page. @returns its path from the working folder */
async function writePage(result: DemoResult, signal: AbortSignal): Promise<string> {
  const heatmap = heatmapOf(await analyzeDemo(result, signal));
  const page = join(resolve(result.out), "index.html");
  const data = { ...(await demoPageData(result)), heatmap: await heatmapSvg({ ...heatmap, title: "" }) };
  await writeFileAtomically(page, await pageWithData("#demo-page", data));
  return relative(process.cwd(), page);
}
