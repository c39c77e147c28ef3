// The best merge of two experts by a task: a plan that searches, which is written, run and reported.
import { mkdir } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import type { z } from "zod";
import { taskFileOf } from "../../evaluate/tasks/index.js";
import type { ShownProgress } from "../../figures/index.js";
import { canonicalJson, exists, isFile, writeFileAtomically } from "../../kit/files/index.js";
import { isObject, OutputError, type Progress, usageError } from "../../kit/index.js";
import { commandLine } from "../../kit/printing/index.js";
import { openSettings, readSettingsText, yamlText } from "../../kit/settings/index.js";
import { inspect } from "../../verbs/index.js";
import {
  type Controls,
  callVerb,
  type Noted,
  sourceFrom,
  type Verb,
  type VerbOptions,
} from "../../verbs/shared/index.js";
import { type Outlook, openExperiment, previewExperiment, refuseProblems, runOpened } from "../experiment.js";
import type { TuneInput } from "../inputs.js";
import type { ExperimentInput } from "../plan/plan-schema.js";
import { type TuneSettings, tunePlan, tuneSchema } from "../plan/tune-plan.js";
import {
  adviceOnFailures,
  downloadsOn,
  noteOf,
  type Overview,
  ofPlan,
  outlookLines,
  overviewLines,
  type PlanReport,
  progressOf,
  RECIPES,
  REPORT,
  reportExperiment,
} from "../report/index.js";
import type { RunSummary } from "../run/run-experiment.js";

type Input = z.output<typeof tuneSchema>;

/** What `tune` found. */
export interface TuneResult extends Noted {
  /** Path of the plan, which `layergraft experiment` takes, too. */
  readonly plan: string;
  /** Absolute path of the report's folder. */
  readonly report: string;
  /** What was chosen, such as `bottom 3, top 1`; undefined if the search did not end. */
  readonly configuration?: string;
  /** Its score on the items that the search did not see, from 0 to 1. */
  readonly score?: number;
  /** Path of its recipe. */
  readonly recipe?: string;
  /** Command that writes it. */
  readonly command?: string;
  /** How the search went, in a sentence; empty if it did not end. */
  readonly summary: string;
  /** The experts and the merge, on the items that the search did not see. */
  readonly overviews: readonly Overview[];
  /** Steps that failed, with their reasons. */
  readonly failures: RunSummary["failures"];
}

/** What a dry run says. */
interface TunePlanned {
  readonly plan: ExperimentInput;
  readonly text: string;
  readonly outlook: Outlook;
  readonly warnings: readonly string[];
}

/** First line of a plan that this verb may replace. */
const HEADER = "# Written by layergraft tune. Change a copy: tune replaces this file.";

export const tuneVerb: Verb<typeof tuneSchema, TuneResult, ShownProgress & Progress, TunePlanned> = {
  name: "tune",
  description:
    "Search for the merge of two experts that scores best on your task, without writing any of them. The search sees 40% of the items; the best " +
    "recipe is scored on the others. Stop it at any time and run it again to resume. `budget` can grow later.",
  schema: tuneSchema,
  fetch: "headers",
  options: {},
  async run(input, { folder = "", signal, onProgress, onNote, hub }) {
    const out = resolve(folder, input.out);
    const { plan, text, warnings } = await planned(input, { folder, signal, hub }, out);
    const file = await writePlan(join(out, "plan.yaml"), join(folder, input.out, "plan.yaml"), text, plan);
    const experiment = await openExperiment(file, { signal });
    const notes = [...warnings, ...experiment.world.notes];
    for (const note of notes) onNote?.(`warning: ${note}`);
    const display = {
      note: (line: string) => onNote?.(line),
      update: (progress: ShownProgress) => onProgress?.({ unit: "steps", ...progress }),
    };
    const { failures } = await runOpened(experiment, {
      signal,
      onDownload: downloadsOn(display),
      onEvent: progressOf(display, (event) =>
        event.event === "failed" ? `warning: ${failureText(event)}` : noteOf(event),
      ),
    });
    const { report: written, reportFolder } = await reportExperiment(experiment);
    const report = ofPlan(written, "tune");
    const failed = failures.length > 0 ? [...failures.map(failureText), adviceOnFailures(failures.length)] : [];
    return {
      plan: join(input.out, "plan.yaml"),
      report: reportFolder,
      ...bestOf(report, join(input.out, "plan.yaml"), relative(resolve(folder), reportFolder)),
      summary: report.searches.map(({ summary }) => summary).join(" "),
      overviews: report.overviews,
      failures,
      notes: [],
      warnings: [...notes, ...failed],
    };
  },
  show({ overviews, summary, recipe, command }) {
    const lines = [
      ...(summary === "" ? [] : [summary]),
      ...(recipe === undefined ? [] : [`Recipe: ${recipe}`]),
      ...(command === undefined ? [] : [`Write it: ${command}`]),
    ];
    return [
      ...overviews.map((overview) => ({ kind: "text" as const, lines: overviewLines(overview) })),
      ...(lines.length > 0 ? [{ kind: "text" as const, lines }] : []),
    ];
  },
  plan: {
    description: "print the plan and its steps, and exit",
    async run(input, { folder = "", signal, hub }) {
      const { plan, text, warnings } = await planned(input, { folder, signal, hub });
      const experiment = await openExperiment(plan, { out: resolve(folder, input.out, plan.out ?? ""), signal });
      return { plan, text, outlook: await previewExperiment(experiment), warnings };
    },
    show: ({ text, outlook }) => [
      { kind: "text", lines: [text.trimEnd()] },
      { kind: "text", lines: outlookLines(outlook) },
    ],
    json: ({ plan, outlook: { estimate, downloads, problems } }) => ({ plan, estimate, downloads, problems }),
    refuse: ({ outlook }) => refuseProblems(outlook.problems, "the plan"),
  },
  terminal: {
    groups: {
      "Models and task": ["task", "language", "base", "on", "limit"],
      Search: ["method", "how", "budget", "seed"],
      Output: ["out", "dryRun"],
    },
    flags: { method: { value: "name" }, how: { value: "name" } },
    waitsFor: "this pass",
    detail: ({ detail }) => detail ?? "",
    json: ({ plan, report, configuration, score, recipe, command }) => ({
      ...{ plan, report },
      ...(command === undefined ? {} : { configuration, score, recipe, command }),
    }),
    isFailure: ({ failures }) => failures.length > 0,
    closing: ({ report }) => [`Wrote the report; open ${relative(process.cwd(), join(report, "index.html"))}`],
  },
};

const failureText = ({ label, reason }: { readonly label: string; readonly reason: string }) =>
  `${label} failed: ${reason}`;

/** The plan of an input. @param to folder that its paths start from. Default: the working folder */
async function planned(
  { out: _, ...input }: Input,
  { folder = "", signal, hub }: Pick<Controls, "folder" | "signal" | "hub">,
  to?: string,
): Promise<Omit<TunePlanned, "outlook">> {
  const { task, language, base } = input;
  const given = resolve(folder, input.on);
  // A plan has paths that start from it, so that the file is named here.
  const file = (await isFile(given)) ? given : await taskFileOf(given);
  if (/\.ya?ml$/.test(input.on) && file === undefined) {
    throw usageError(`${input.on} does not exist. Pass a task file, or the name of a task.`);
  }
  const { layers } = await inspect({ source: task }, { folder: folder || undefined, signal, hub });
  const start = to ?? process.cwd();
  const isMoved = to !== undefined || folder !== "";
  const [ofTask = task, ofLanguage = language, ofBase] = isMoved
    ? await Promise.all([task, language, base].map((source) => source && sourceFrom(source, start, folder || ".")))
    : [task, language, base];
  const on = file === undefined ? input.on : relative(start, file);
  const settings: TuneSettings = { ...input, task: ofTask, language: ofLanguage, base: ofBase, on, layers };
  const plan = tunePlan(settings);
  const same = "task and language are the same source; every merge of them is the same";
  return { plan, text: `${HEADER}\n${yamlText(plan)}`, warnings: task === language ? [same] : [] };
}

/**
 * @param shown the file for messages
 * @throws OutputError if the folder has a plan of another origin, or the report of another search
 */
async function writePlan(file: string, shown: string, text: string, plan: ExperimentInput): Promise<string> {
  const isWritten = await exists(file);
  // A pipe or a device could be read without end.
  const before = (await isFile(file)) ? await readSettingsText(file, "plan") : isWritten ? "" : undefined;
  if (before !== undefined && !before.startsWith(HEADER)) {
    throw new OutputError(`${shown} was not written by tune; run it with ${commandLine`experiment ${shown}`}`, {
      file: shown,
      option: "out",
    });
  }
  const report = join(shown, "..", plan.out ?? "", REPORT);
  const isOther = before !== undefined && !isSameSearch(file, before, text);
  if (isOther && (await exists(join(file, "..", plan.out ?? "", REPORT)))) {
    throw new OutputError(`${report} is of another search, and its recipes would be replaced`, {
      ...{ file: report, option: "out" },
    });
  }
  await mkdir(join(file, ".."), { recursive: true });
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

/** The chosen configuration; none if the search did not end. */
function bestOf(
  { searches, overviews, recipes }: PlanReport,
  file: string,
  folder: string,
): Pick<TuneResult, "configuration" | "score" | "recipe" | "command"> {
  const chosen = searches[0]?.chosen;
  const bar = overviews[0]?.bars.find(({ detail, isSummary }) => detail === chosen && !isSummary);
  const recipe = recipes.find(({ model }) => bar?.models.includes(model));
  if (chosen === undefined || !recipe || !bar) return {};
  const command = commandLine`experiment ${file} export ${recipe.id} --out best`;
  return { configuration: chosen, score: bar.mean, recipe: join(folder, RECIPES, `${recipe.id}.yaml`), command };
}

/** Options of `tune`. */
export type TuneOptions = VerbOptions<ShownProgress & Progress>;

/**
 * Searches for the merge of two experts that scores best on a task, without writing any of them, and writes a report. What was
 * evaluated is kept: call it again to resume, or with a larger `budget` to go further.
 * @throws RecipeError if the input is not valid, or models or the task cannot be used, with every problem
 * @throws OutputError if `out` has a plan of another origin, or the report of another search
 * @throws LayergraftError with code `locked` if another process runs it
 * @throws CancelledError if the signal fires
 */
export function tune(input: TuneInput, options: TuneOptions = {}): Promise<TuneResult> {
  return callVerb(tuneVerb, input, options);
}
