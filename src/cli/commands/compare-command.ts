// layergraft compare: two evaluations on the same items, and whether the difference is more than chance.

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
  paletteFor,
  parseCount,
  print,
  printJson,
  say,
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
      "Compares two folders of results on the items that both have: difference, its bootstrap interval, which items " +
        "flipped, and McNemar's exact test. Only what was asked alike is compared: same protocol, shots and prompts.",
    )
    .argument("<first>", "folder that layergraft eval wrote with --out")
    .argument("<second>", "another; differences are second less first")
    .option("--flips", "list the items that only one of the two got right")
    .addOption(new Option("--format <format>", "of the comparison").choices(SCORE_FORMATS).default("table"))
    .addOption(new Option("--seed <n>", "of the bootstrap").argParser(parseCount).default(0))
    .addOption(new Option("--resamples <n>", "of the bootstrap (default: 1000)").argParser(parsePositive));
  withCommonOptions(command).action(async (first: string, second: string, flags: CompareFlags) => {
    const { seed, resamples } = flags;
    const comparison = await compareResults({ first, second, seed, resamples });
    if (flags.json) return printJson(comparison);
    const lines = comparisonLines(comparison, flags.format);
    const notes = [
      ...comparison.skipped.map(({ task, reason }) => `${task} is not compared: ${reason}`),
      ...leftOut(comparison),
    ];
    if (flags.format !== "table") {
      print(lines);
      for (const note of notes) say(flags, `note: ${note}`);
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
      .map(({ title, leftOut }) => `${task}, ${title}: ${leftOut} left out, as one of the two lacks them or a verdict`),
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
