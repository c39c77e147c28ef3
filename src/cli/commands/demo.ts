// layergraft demo: the effect in miniature, from nothing, offline.
import { join, resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { heatmapOf } from "../../analysis/index.js";
import { writeFileAtomically } from "../../core/files.js";
import {
  type DemoResult,
  demoAnswer,
  demoPageData,
  demoRows,
  demoTable,
  QUICK_WARNING,
  runDemo,
} from "../../experiment/demo/index.js";
import { svgToPng } from "../../report/draw.js";
import { heatmapSvg } from "../../report/heatmap.js";
import { heatmapLines } from "../../report/heatmap-terminal.js";
import { pageWithData } from "../../report/page.js";
import { showTasks } from "../../report/tasks.js";
import {
  type CommonOptions,
  elapsed,
  hasColors,
  interruptSignal,
  paletteFor,
  parseCount,
  parseThreads,
  print,
  printJson,
  say,
  warn,
  withCommonOptions,
} from "../output.js";

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
    .summary("see layer swapping work in miniature: train, merge, evaluate, all offline")
    .description(
      "Makes a small world of word problems in English and Swahili, pretrains a base of half a million parameters, fine-tunes a " +
        "math expert on English and a language expert on Swahili, merges them in every way the papers compare, and asks all of " +
        "them held-out problems in Swahili. Needs no network and no GPU; takes some minutes on two cores.",
    )
    .option("-o, --out <folder>", "folder for models, answers, pictures and the page", "demo-output")
    .addOption(new Option("--seed <n>", "of first weights and data").argParser(parseCount).default(0))
    .addOption(
      new Option("--pairs <n>", "experts of each kind; all pairs of them are merged").argParser(parsePairs).default(1),
    )
    .addOption(
      new Option("--threads <n>", "threads to compute with; one is fastest for models so small").argParser(
        parseThreads,
      ),
    )
    .option("--quick", "a twentieth of the training: see everything run in half a minute, not that it works")
    .option("--resume", "go on with a demo that was stopped, to the same numbers")
    .option("--force", "replace an earlier demo in the folder");
  withCommonOptions(command).action(async (flags: DemoFlags) => {
    const start = performance.now();
    const display = flags.quiet ? undefined : showTasks();
    let result: DemoResult;
    try {
      result = await runDemo({
        ...{ out: flags.out, seed: flags.seed, pairs: flags.pairs, signal: interruptSignal() },
        ...(flags.threads === undefined ? {} : { threads: flags.threads }),
        ...(flags.quick ? { quick: true } : {}),
        ...(flags.resume ? { resume: true } : {}),
        ...(flags.force ? { force: true } : {}),
        onProgress: ({ phase, done, total, detail, phaseIndex, phases }) =>
          display?.update({
            phase: phase === "done" ? phase : `${phaseIndex + 1}/${phases} ${phase}`,
            done,
            total,
            detail,
          }),
      });
    } finally {
      display?.stop();
    }
    const page = await writeReport(flags.out, result, flags.quick ?? false);
    if (flags.json) {
      const { seed, pairs, seconds } = result;
      return printJson({ seed, pairs, rows: demoRows(result), seconds, page });
    }
    const palette = paletteFor(process.stdout);
    if (flags.quick) warn(QUICK_WARNING);
    print([
      palette.bold(
        `Word problems in Swahili, exact match (${problemsOf(result)} held-out problems, seed ${result.seed})`,
      ),
      "",
      ...demoTable(result),
      "",
    ]);
    print([...heatmapLines(heatmapOf(result.analysis), hasColors(process.stdout)), "", demoAnswer(result)]);
    say(flags, `${elapsed(start)}; the page with all of it: ${page}`);
    say(
      flags,
      `Change the comparison: npx layergraft experiment ${join(flags.out, "plan.yaml")} run\n` +
        `Ask the merge yourself: npx layergraft generate ${join(flags.out, "swap.yaml")} --prompt "musa alikuwa na vitabu 12 . musa alibeba vitabu 6 . musa ana vitabu vingapi sasa ? [solve] :"`,
    );
  });
}

function parsePairs(text: string): number {
  const value = parseCount(text);
  if (value < 1 || value > 10) throw new InvalidArgumentError("It must be from 1 to 10.");
  return value;
}

const problemsOf = ({ results }: DemoResult) => results[0]?.swahili.length ?? 0;

async function writeReport(out: string, result: DemoResult, quick: boolean): Promise<string> {
  const heatmap = heatmapOf(result.analysis);
  const svg = await heatmapSvg(heatmap);
  const { pairs, seed } = result;
  const json = (value: unknown) => `${JSON.stringify(value, null, 2)}\n`;
  await writeFileAtomically(join(out, "heatmap.svg"), svg);
  await writeFileAtomically(join(out, "heatmap.png"), await svgToPng(svg));
  await writeFileAtomically(join(out, "results.json"), json({ seed, pairs, rows: demoRows(result) }));
  const page = join(resolve(out), "index.html");
  await writeFileAtomically(page, await pageWithData("#demo-page", await demoPageData(result, heatmap, quick)));
  return page;
}
