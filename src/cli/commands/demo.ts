// layergraft demo: the effect in miniature, from nothing, offline.
import { join, resolve } from "node:path";
import { type Command, InvalidArgumentError, Option } from "commander";
import { heatmapOf } from "../../analysis/index.js";
import { writeFileAtomically } from "../../core/files.js";
import { formatDuration } from "../../core/format.js";
import {
  type DemoResult,
  type DemoRow,
  demoRows,
  gainsAndLosses,
  NAMED_SWAP,
  runDemo,
} from "../../experiment/demo/index.js";
import { svgToPng } from "../../report/draw.js";
import { heatmapSvg } from "../../report/heatmap.js";
import { heatmapLines } from "../../report/heatmap-terminal.js";
import { pageWithData } from "../../report/page.js";
import { formatTable } from "../../report/table.js";
import { showTasks } from "../../report/tasks.js";
import {
  type CommonOptions,
  elapsed,
  hasColors,
  interruptSignal,
  paletteFor,
  parseCount,
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
      new Option("--threads <n>", "threads to compute with; one is fastest for models so small").argParser(parseCount),
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
    const rows = demoRows(result);
    const page = await writeReport(flags.out, result, rows, flags.quick ?? false);
    if (flags.json) return printJson({ seed: result.seed, pairs: result.pairs, rows, seconds: result.seconds, page });
    const palette = paletteFor(process.stdout);
    if (flags.quick) warn(QUICK);
    print([
      palette.bold(
        `Word problems in Swahili, exact match (${problemsOf(result)} held-out problems, seed ${result.seed})`,
      ),
      "",
      ...table(rows, result.pairs),
      "",
    ]);
    print([...heatmapLines(heatmapOf(result.analysis), hasColors(process.stdout)), "", answerOf(rows)]);
    say(flags, `${elapsed(start)}; the page with all of it: ${page}`);
    say(
      flags,
      `Ask the merge yourself: layergraft generate ${join(flags.out, "swap.yaml")} --prompt "musa alikuwa na vitabu 12 . musa alibeba vitabu 6 . musa ana vitabu vingapi sasa ? [solve] :"`,
    );
  });
}

const QUICK =
  "this was a quick demo: a twentieth of the training shows that everything runs, not whether merging works";

function parsePairs(text: string): number {
  const value = parseCount(text);
  if (value < 1 || value > 10) throw new InvalidArgumentError("It must be from 1 to 10.");
  return value;
}

const problemsOf = ({ results }: DemoResult) => results[0]?.swahili.length ?? 0;

function table(rows: readonly DemoRow[], pairs: number): string[] {
  const score = (value: number) => value.toFixed(1);
  const header =
    pairs > 1 ? ["", ">min", ">mean", ">max", ">English", ""] : ["", ">Swahili", ">± error", ">English", ""];
  return formatTable(
    header,
    rows.map(({ name, swahili, english, error, note }) => [
      name,
      ...(pairs > 1 ? [swahili.least, swahili.mean, swahili.most].map(score) : [score(swahili.mean), score(error)]),
      score(english),
      note,
    ]),
  );
}

/** What came out, in a sentence, whatever it is. */
function answerOf(rows: readonly DemoRow[]): string {
  const find = (name: string) => rows.find((row) => row.name.startsWith(name));
  const swap = find(NAMED_SWAP);
  if (!swap) return "";
  const others = ["base", "math expert", "language expert", "soup", "TIES", "joint training"].flatMap(
    (name) => find(name) ?? [],
  );
  const beaten = others.filter(({ swahili }) => swap.swahili.mean > swahili.mean).map(({ name }) => name);
  const unbeaten = others.filter(({ swahili }) => swap.swahili.mean <= swahili.mean);
  const score = (row: DemoRow) => `${row.name} (${row.swahili.mean.toFixed(1)})`;
  const clear = others
    .filter(({ swahili }) => swap.swahili.mean - swahili.mean > 2 * Math.SQRT2 * swap.error)
    .map(({ name }) => name);
  return [
    `Swapping in the two bottom layers of the language expert solves ${swap.swahili.mean.toFixed(1)}% of the Swahili problems.`,
    beaten.length > 0
      ? `That is more than ${beaten.join(", ")}${clear.length > 0 ? `; clear of chance: ${clear.join(", ")}` : ", all within chance"}.`
      : "",
    unbeaten.length > 0 ? `It does not beat ${unbeaten.map(score).join(", ")}.` : "",
  ]
    .filter(Boolean)
    .join(" ");
}

/** The swap that is told of, as a recipe to try and to change. */
const SWAP_RECIPE = `# ${NAMED_SWAP}: the bottom two layers of the language expert, the others of the math expert.
method: swap
task: math-1/last
language: language-1/last
bottom: 2
top: 0
`;

async function writeReport(out: string, result: DemoResult, rows: readonly DemoRow[], quick: boolean): Promise<string> {
  const heatmap = await heatmapSvg(heatmapOf(result.analysis));
  const { gained, lost } = gainsAndLosses(result, NAMED_SWAP, "math expert");
  const { pairs, seconds, seed } = result;
  const time = (name: string) => (seconds[name] === undefined ? "" : `${formatDuration(seconds[name])} of training.`);
  const page = await pageWithData("#demo-page", {
    ...{ rows, pairs, heatmap, gained, lost },
    parameters: result.parameters,
    answer: answerOf(rows),
    about: `${quick ? `${QUICK}. ` : ""}${problemsOf(result)} held-out problems, greedy answers, last number compared; seed ${seed}${pairs > 1 ? `, ${pairs ** 2} pairs of experts` : ""}.`,
    flipsAbout: `${NAMED_SWAP} against the math expert, first pair.`,
    times: { base: time("base"), math: time("math-1"), language: time("language-1") },
  });
  await writeFileAtomically(join(out, "heatmap.svg"), heatmap);
  await writeFileAtomically(join(out, "heatmap.png"), await svgToPng(heatmap));
  await writeFileAtomically(join(out, "results.json"), `${JSON.stringify({ seed, pairs, rows }, null, 2)}\n`);
  await writeFileAtomically(join(out, "swap.yaml"), SWAP_RECIPE);
  const path = join(resolve(out), "index.html");
  await writeFileAtomically(path, page);
  return path;
}
