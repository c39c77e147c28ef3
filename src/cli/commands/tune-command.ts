import { mkdir } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { type Command, Option } from "commander";
import { taskFileOf } from "../../evaluate/tasks/index.js";
import {
  type ExperimentInput,
  openExperiment,
  previewExperiment,
  refuseProblems,
  TUNE_METHODS,
  TUNE_SEARCHES,
  TUNED,
  type TuneSettings,
  tunePlan,
} from "../../experiment/index.js";
import {
  ofPlan,
  outlookLines,
  overviewLines,
  type PlanReport,
  RECIPES,
  REPORT,
  reportExperiment,
} from "../../experiment/report/index.js";
import { canonicalJson, exists, isFile, writeFileAtomically } from "../../kit/files/index.js";
import { isObject, OutputError, usageError } from "../../kit/index.js";
import { commandLine } from "../../kit/printing/index.js";
import { openSettings, readSettingsText, yamlText } from "../../kit/settings/index.js";
import { inspect } from "../../verbs/index.js";
import { sourceFrom } from "../../verbs/shared/index.js";
import { asTyped } from "../shared/command-name.js";
import { hubAccess } from "../shared/hub-access.js";
import {
  type CommonOptions,
  info,
  interruptSignal,
  parseCount,
  parseWhole,
  print,
  printJson,
  runWithProgress,
  warn,
  withCommonOptions,
} from "../shared/output.js";
import { runShown } from "./experiment-command.js";

interface TuneFlags extends Omit<TuneSettings, "layers">, CommonOptions {
  readonly out: string;
  readonly dryRun?: boolean;
}

/** First line of a plan that this command may replace. */
const HEADER = "# Written by layergraft tune. Change a copy: tune replaces this file.";

export function add(program: Command): void {
  const command = program
    .command("tune")
    .description(
      "Search for the merge of two experts that scores best on your task, without writing any of them. The search sees 40% of the items; the best " +
        "recipe is scored on the others. Stop it at any time and run it again to resume. --budget can grow later.",
    )
    .optionsGroup("Models and task:")
    .requiredOption("--task <source>", "task expert")
    .requiredOption("--language <source>", "language expert")
    .option("--base <source>", "model both were fine-tuned from; ties needs it")
    .requiredOption("--on <task>", "task that decides: a task file, or a name such as mgsm_sw")
    .option("--limit <n>", "items of the task (default: all)", parseWhole(2))
    .optionsGroup("Search:")
    .addOption(
      new Option(
        "--method <name>",
        "swap: layers of each expert; slerp: share of each by layer; ties: density and lambda",
      )
        .choices(TUNE_METHODS)
        .default("swap"),
    )
    .addOption(new Option("--how <name>", "way to search").choices(TUNE_SEARCHES).default("cma-es"))
    .option("--budget <n>", "configurations to evaluate", parseWhole(2), 40)
    .option("--seed <n>", "random seed", parseCount, 0)
    .optionsGroup("Output:")
    .option("-o, --out <folder>", "folder for the plan, results and report", TUNED)
    .option("--dry-run", "print the plan and its steps, and exit");
  withCommonOptions(command).action(tune);
}

async function tune(given: TuneFlags): Promise<void> {
  // A plan has paths that start from it, so that the file is named here.
  const on = (await isFile(given.on)) ? given.on : ((await taskFileOf(given.on)) ?? given.on);
  const flags = { ...given, on };
  const { out, dryRun } = flags;
  if (flags.task === flags.language) warn("task and language are the same source; every merge of them is the same");
  if (/\.ya?ml$/.test(flags.on) && !(await isFile(flags.on))) {
    throw usageError(`${flags.on} does not exist. Give --on a task file, or the name of a task.`);
  }
  const { layers } = await runWithProgress(flags, (controls) =>
    inspect({ source: flags.task }, { hub: hubAccess("headers", controls) }),
  );
  // A plan without a file starts from the working folder.
  const settings = { ...(dryRun ? flags : await moved(flags, out)), layers };
  const plan = tunePlan(settings);
  const text = `${HEADER}\n${yamlText(plan)}`;
  const signal = interruptSignal("this pass");
  if (dryRun) {
    const experiment = await openExperiment(plan, { out: join(out, plan.out ?? ""), signal });
    const outlook = await previewExperiment(experiment);
    const { estimate, downloads, problems } = outlook;
    if (flags.json) printJson({ plan, estimate, downloads, problems });
    else print([text.trimEnd(), "", ...outlookLines(outlook)]);
    return refuseProblems(problems, "the plan");
  }
  const file = await writePlan(out, text, plan);
  const experiment = await openExperiment(file, { signal });
  for (const note of experiment.world.notes) warn(note);
  await runShown(experiment, flags, signal);
  const { report: written, reportFolder: folder } = await reportExperiment(experiment);
  const report = ofPlan(written, "tune");
  const best = bestOf(report, file, relative(process.cwd(), folder));
  if (flags.json) return printJson({ plan: file, report: folder, ...best });
  print(describe(report, best));
  info(flags, `Wrote the report; open ${relative(process.cwd(), join(folder, "index.html"))}`);
}

/** Settings whose paths start from a folder. */
async function moved(flags: TuneFlags, out: string): Promise<TuneFlags> {
  const [task, language, base] = await Promise.all(
    [flags.task, flags.language, flags.base].map((source) => source && sourceFrom(source, out)),
  );
  const on = (await isFile(flags.on)) ? relative(resolve(out), resolve(flags.on)) : flags.on;
  return { ...flags, task: task ?? flags.task, language: language ?? flags.language, base, on };
}

/** @throws OutputError if the folder has a plan of another origin, or the report of another search */
async function writePlan(out: string, text: string, plan: ExperimentInput): Promise<string> {
  const file = join(out, "plan.yaml");
  const isWritten = await exists(file);
  // A pipe or a device could be read without end.
  const before = (await isFile(file)) ? await readSettingsText(file, "plan") : isWritten ? "" : undefined;
  if (before !== undefined && !before.startsWith(HEADER)) {
    throw new OutputError(
      `${file} was not written by tune. Choose another --out, or run it: ${commandLine`experiment ${file}`}`,
      { file },
    );
  }
  const report = join(out, plan.out ?? "", REPORT);
  if (before !== undefined && !isSameSearch(file, before, text) && (await exists(report))) {
    throw new OutputError(`${report} is of another search, and its recipes would be replaced. Choose another --out.`, {
      file: report,
    });
  }
  await mkdir(out, { recursive: true });
  await writeFileAtomically(file, text);
  return file;
}

/** Whether two texts are the plan of one search, with any budget. */
function isSameSearch(file: string, before: string, now: string): boolean {
  const [one, other] = [before, now].map((text) => {
    const plan = openSettings(text, file).value;
    if (!isObject(plan) || !isObject(plan.search)) return undefined;
    return canonicalJson({ ...plan, search: { ...plan.search, budget: 0 } });
  });
  return one !== undefined && one === other;
}

/** The chosen configuration: its score on the items that the search did not see, from 0 to 1, and its recipe. */
interface Best {
  readonly configuration: string;
  readonly score: number;
  /** Path of its file. */
  readonly recipe: string;
  /** Command that writes it. */
  readonly command: string;
}

/** The chosen recipe; undefined if the search did not end. */
function bestOf({ searches, overviews, recipes }: PlanReport, file: string, folder: string): Best | undefined {
  const chosen = searches[0]?.chosen;
  const bar = overviews[0]?.bars.find(({ detail, isSummary }) => detail === chosen && !isSummary);
  const recipe = recipes.find(({ model }) => bar?.models.includes(model));
  if (chosen === undefined || !recipe || !bar) return undefined;
  const command = commandLine`experiment ${file} export ${recipe.id} --out best`;
  return { configuration: chosen, score: bar.mean, recipe: join(folder, RECIPES, `${recipe.id}.yaml`), command };
}

/** How the search went, the table of the experts and the merge, and the recipe. */
function describe({ searches, overviews }: PlanReport, best: Best | undefined): string[] {
  return [
    ...overviews.flatMap((overview) => [...overviewLines(overview), ""]),
    ...searches.map(({ summary }) => summary),
    ...(best ? [`Recipe: ${best.recipe}`, asTyped(`Write it: ${best.command}`)] : []),
  ];
}
