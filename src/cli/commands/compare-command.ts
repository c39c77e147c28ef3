import { compareFinding } from "../../evaluate/findings/index.js";
import {
  compareResults,
  comparisonLines,
  comparisonNotes,
  type ResultsComparison,
  ratingPage,
  SCORE_FORMATS,
  tallyRatings,
  tallyVerdict,
} from "../../evaluate/index.js";
import { escapeMarkdown, findingText } from "../../figures/index.js";
import { exists, readJsonObject, writeFileAtomically } from "../../kit/files/index.js";
import { OutputError, usageError } from "../../kit/index.js";
import { commandLine, formatSome, plural, visible, wrapped } from "../../kit/printing/index.js";
import {
  type CommonOptions,
  info,
  paletteFor,
  parseCount,
  parseList,
  parsePositive,
  parseShare,
  print,
  printJson,
  withCommonOptions,
} from "../shared/output.js";
import { type Command, Option } from "../shared/typed.js";

export function add(program: Command): void {
  const command = program
    .command("compare")
    .description(
      "Compare evaluations on the items they share: the difference from the first one, its 95% interval, the items that " +
        "flipped, an exact test, and the smallest difference that these items can show. Reads results of layergraft " +
        "and lm-evaluation-harness. Items are compared only if documents and prompts are the same.",
    )
    .argument("<first>", "folder that eval --out or lm_eval wrote")
    .argument("<others...>", "more of them; each is compared with the first. Join runs of one method with commas.")
    .option("--discordance <share>", "share of items expected to flip (default: the share that flipped)", parseShare)
    .optionsGroup("Ratings by people, of two results:")
    .option("--rate <file>", "write a page on which people choose between answers, without names")
    .addOption(new Option("--ratings <files...>", "tally the choices that people saved on that page").conflicts("rate"))
    .option("--force", "replace the page of --rate that is there")
    .optionsGroup("Output:")
    .option("--flips", "list the items that only one of them got right")
    .addOption(new Option("--format <format>", "output format").choices(SCORE_FORMATS).default("table"))
    .option("--seed <n>", "bootstrap seed", parseCount, 0)
    .option("--resamples <n>", "bootstrap resamples (default: 1000)", parsePositive);
  withCommonOptions(command).action(async (first, others, flags) => {
    const { seed, resamples, discordance } = flags;
    if (flags.rate !== undefined || flags.ratings) return rate([first, ...others], flags);
    const results = await Promise.all([first, ...others].map(runsOf));
    const comparison = await compareResults({ results, seed, resamples, discordance });
    if (flags.json) return printJson(comparison);
    const lines = comparisonLines(comparison, flags.format);
    const notes = comparisonNotes(comparison);
    if (flags.format !== "table") {
      const legend = comparison.methods.map(({ name }, i) => `${i + 1}. ${escapeMarkdown(name)}`);
      print(flags.format === "markdown" ? [...legend, "", ...lines] : lines);
      for (const note of notes) info(flags, `note: ${note}`);
      return;
    }
    const palette = paletteFor(process.stdout);
    const [header = "", ...rows] = lines;
    const labels =
      comparison.methods.length > 2 ? comparison.methods.map((_, i) => String(i + 1)) : ["first ", "second"];
    print([
      ...comparison.methods.map(({ name }, i) => `${labels[i]}  ${name}`),
      "",
      palette.dim(header),
      ...rows,
      ...verdicts(comparison),
      ...(flags.flips ? ["", ...flips(comparison)] : []),
      ...(notes.length > 0 ? ["", ...notes.flatMap((note) => wrapped(note).map(palette.dim))] : []),
    ]);
  });
}

interface RatingFlags extends CommonOptions {
  readonly rate?: string | undefined;
  readonly ratings?: readonly string[] | undefined;
  readonly force?: boolean | undefined;
  readonly seed: number;
}

/** Writes the page for raters, or tallies what they chose. */
async function rate(results: readonly string[], flags: RatingFlags): Promise<void> {
  const [first, second] = results;
  if (first === undefined || second === undefined || results.length > 2) {
    throw usageError(`--rate and --ratings take two results, not ${results.length}`);
  }
  const { rate: file, ratings } = flags;
  if (file !== undefined) {
    if (!flags.force && (await exists(file)))
      throw new OutputError(`${file} already exists`, { file, option: "force" });
    const { page, pairs, equal } = await ratingPage([first, second], flags.seed);
    await writeFileAtomically(file, page);
    if (flags.json) return printJson({ file, pairs, equal });
    print(`Wrote ${file}: ${plural(pairs, "pair")} of answers${equal > 0 ? `; ${equal} are equal, and left out` : ""}`);
    info(flags, `Tally what raters save: ${commandLine`compare ${[first, second]} --ratings FILES`}`);
    return;
  }
  const saved = (ratings ?? []).map(async (name) => [name, await readJsonObject(name)] as const);
  const tallies = await tallyRatings([first, second], Object.fromEntries(await Promise.all(saved)));
  if (flags.json) return printJson(tallies);
  print(
    tallies.flatMap((tally) => [
      `${tally.task}: ${tallyVerdict(tally, ["the first", "the second"])}`,
      ...tally.notes.map(({ id, note }) => `  item ${id}: ${visible(note)}`),
    ]),
  );
}

/** The results of a method: a path, or several runs joined with commas. */
async function runsOf(path: string): Promise<string | string[]> {
  return path.includes(",") && !(await exists(path)) ? parseList(path) : path;
}

/** What was found on each task, by its main metric, where there are two results. */
function verdicts({ tasks, methods }: ResultsComparison): string[] {
  if (methods.length > 2) return [];
  const found = tasks.flatMap(({ title, comparisons }) =>
    comparisons
      .slice(0, 1)
      .flatMap((one) => wrapped(`${title}: ${findingText(compareFinding(one, ["the first", "the second"]))}`)),
  );
  return ["", ...found];
}

function flips({ tasks, methods }: ResultsComparison): string[] {
  return tasks.flatMap(({ task, comparisons }) =>
    comparisons.flatMap(({ title, gained, lost, method }) => {
      if (gained.length + lost.length === 0) return [];
      const which = methods.length > 2 ? `, result ${method + 1}` : "";
      return [
        `${task}, ${title}${which}`,
        `  gained: ${formatSome(gained, gained.length)}`,
        `  lost:   ${formatSome(lost, lost.length)}`,
      ];
    }),
  );
}
