import { type Command, Option } from "commander";
import { formatSome } from "../../core/index.js";
import {
  compareResults,
  comparisonLines,
  type ResultsComparison,
  SCORE_FORMATS,
  type ScoreFormat,
} from "../../evaluate/index.js";
import { parsePositive } from "../shared/engine-run.js";
import {
  type CommonOptions,
  info,
  paletteFor,
  parseCount,
  print,
  printJson,
  withCommonOptions,
} from "../shared/output.js";

interface CompareFlags extends CommonOptions {
  readonly format: ScoreFormat;
  readonly seed: number;
  readonly resamples?: number;
  readonly flips?: boolean;
}

export function addCompareCommand(program: Command): void {
  const command = program
    .command("compare")
    .description(
      "Compare two evaluations on the items they share: the difference, its 95% interval, the items that flipped, " +
        "and McNemar's exact test. Items are compared only if protocol, shots and prompts are the same.",
    )
    .argument("<first>", "folder that eval --out wrote")
    .argument("<second>", "second folder; differences are second minus first")
    .optionsGroup("Output:")
    .option("--flips", "list the items that only one of them got right")
    .addOption(new Option("--format <format>", "output format").choices(SCORE_FORMATS).default("table"))
    .addOption(new Option("--seed <n>", "bootstrap seed").argParser(parseCount).default(0))
    .addOption(new Option("--resamples <n>", "bootstrap resamples (default: 1000)").argParser(parsePositive));
  withCommonOptions(command).action(async (first: string, second: string, flags: CompareFlags) => {
    const { seed, resamples } = flags;
    const comparison = await compareResults({ first, second, seed, resamples });
    if (flags.json) return printJson(comparison);
    const lines = comparisonLines(comparison, flags.format);
    const notes = [
      ...comparison.skipped.map(({ task, reason }) => `${task} not compared: ${reason}`),
      ...leftOut(comparison),
    ];
    if (flags.format !== "table") {
      print(lines);
      for (const note of notes) info(flags, `note: ${note}`);
      return;
    }
    const palette = paletteFor(process.stdout);
    const [header = "", ...rows] = lines;
    print([
      `first   ${nameOf(comparison.first)}`,
      `second  ${nameOf(comparison.second)}`,
      "",
      palette.dim(header),
      ...rows,
      ...(flags.flips ? ["", ...flips(comparison)] : []),
      ...(notes.length > 0 ? ["", ...notes.map((note) => palette.dim(note))] : []),
    ]);
  });
}

function nameOf({ source, backend }: ResultsComparison["first"]): string {
  const who = backend.server ?? backend.backend;
  return `${source} (${backend.model === source ? who : `${backend.model}, ${who}`})`;
}

function leftOut({ tasks }: ResultsComparison): string[] {
  return tasks.flatMap(({ task, comparisons }) =>
    comparisons
      .filter(({ leftOut }) => leftOut > 0)
      .map(
        ({ title, leftOut }) => `${task}, ${title}: ${leftOut} left out; one evaluation lacks the item or its verdict`,
      ),
  );
}

function flips({ tasks }: ResultsComparison): string[] {
  return tasks.flatMap(({ task, comparisons }) =>
    comparisons.flatMap(({ title, gained, lost }) =>
      gained.length + lost.length === 0
        ? []
        : [
            `${task}, ${title}`,
            `  gained: ${formatSome(gained, gained.length)}`,
            `  lost:   ${formatSome(lost, lost.length)}`,
          ],
    ),
  );
}
