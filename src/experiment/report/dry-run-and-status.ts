import { right, terminalLines } from "../../figures/index.js";
import { groupBy } from "../../kit/index.js";
import { formatBytes, formatCount, formatDuration, formatSome, plural } from "../../kit/printing/index.js";
import { rateText } from "../../train/index.js";
import type { PlanProgram } from "../check/programs.js";
import type { ExperimentStatus, Outlook } from "../experiment.js";
import { fieldTitle, lineField } from "../plan/configurations.js";
import { KINDS, type StepKind } from "../steps/step.js";
import type { StepState } from "../steps/step-state.js";
import { describeCounts } from "./progress.js";

const KIND_NAMES: Readonly<Record<StepKind, string>> = {
  train: "training",
  analyze: "analysis",
  merge: "writing merges",
  evaluate: "evaluation",
  verb: "other commands",
};

/** Entries of a list that are printed one by one. */
const MAX_LISTED = 12;

/** Models, steps, time and disk space. */
export function outlookLines(outlook: Outlook): string[] {
  const { estimate, expansion, steps } = outlook;
  const left = steps.filter(({ state }) => state.state !== "done");
  const done = steps.length - left.length;
  return [
    ...modelLines(outlook),
    "",
    ...countLines(outlook),
    ...(left.length > 0 ? ["", "now:", ...stepLines(outlook)] : []),
    ...trainingLines(outlook.training, outlook.variants.length > 1 ? 1 : 3),
    ...mergeLines(outlook.merges),
    ...(expansion.waiting.length > 0 ? ["", "later, depending on results:", ...laterLines(expansion.waiting)] : []),
    "",
    ...(left.length + expansion.waiting.length === 0
      ? [`all ${done === 1 ? "is" : `${done.toLocaleString("en-US")} steps are`} done; nothing to do`]
      : [
          timeLeft(estimate),
          ...gpuLines(estimate),
          ...(estimate.bytes ? [`${formatBytes(estimate.bytes)} more on disk`] : []),
          ...downloadLines(outlook),
          ...exportLines(estimate),
        ]),
    ...programLines(outlook.programs),
  ];
}

/** What a run starts that is not layergraft. */
export function programLines(programs: readonly PlanProgram[]): string[] {
  if (programs.length === 0) return [];
  const lines = programs.map(({ when, what }) => `  ${when.toLowerCase()}: ${what.replaceAll("\n", "\n    ")}`);
  return ["programs that the plan starts:", ...lines];
}

function downloadLines({ downloads: { models, dataSets, folder } }: Outlook): string[] {
  const parts = [
    ...(models.count > 0 ? [`${plural(models.count, "model")} (${formatBytes(models.bytes)})`] : []),
    ...(dataSets.count > 0 ? [`${plural(dataSets.count, "data set")} (${formatBytes(dataSets.bytes)})`] : []),
  ];
  return parts.length > 0 ? [`downloads ${parts.join(" and ")} from the hub into ${folder}`] : [];
}

/** "GPU hours: about 50 for training and 480 for evaluation" */
function gpuLines({ gpuHours }: Outlook["estimate"]): string[] {
  if (!gpuHours) return [];
  const parts = [[gpuHours.training, "training"] as const, [gpuHours.evaluation, "evaluation"] as const].flatMap(
    ([hours, what]) => (hours > 0 ? [`${Number(hours.toPrecision(2)).toLocaleString("en-US")} for ${what}`] : []),
  );
  return [`GPU hours: about ${parts.join(" and ")}, computed for an NVIDIA H100, not measured`];
}

function exportLines({ exports }: Outlook["estimate"]): string[] {
  if (!exports || exports.models === 0) return [];
  const { models, bytes, folder, mostBytes } = exports;
  const limit = models * bytes > mostBytes ? `; it keeps the last ${formatBytes(mostBytes)}` : "";
  return [`up to ${plural(models, "GGUF file")} of ${formatBytes(bytes)} in ${folder}${limit}`];
}

function timeLeft({ seconds, workers, stepBytes }: Outlook["estimate"]): string {
  const memory = stepBytes === undefined ? "" : `, as a step needs up to ${formatBytes(stepBytes)} of memory`;
  const side = `up to ${plural(workers, "step")} in parallel${memory}`;
  return seconds === undefined
    ? `time left: unknown until a step of each kind is done; ${side}`
    : `time left: about ${formatDuration(seconds)}, ${side}`;
}

/** The models of the experiment; with a matrix, of variants that have the same ones together. */
function modelLines({ variants }: Pick<Outlook, "variants">): string[] {
  const [only] = variants;
  if (only && variants.length === 1) return knownLines(only.expansion, "models known now");
  const alike = groupBy(variants, ({ expansion }) => JSON.stringify(knownLines(expansion, "")));
  return [
    `${plural(variants.length, "variant")} of the matrix`,
    ...[...alike.values()].flatMap((some) => {
      const titles = some.map(({ variant }) => variant.title);
      const more = titles.length > 2 ? ` and ${titles.length - 1} more` : titles.length > 1 ? ` and ${titles[1]}` : "";
      const who = some.length === variants.length ? "each variant" : `${titles[0]}${more}`;
      return some[0] ? ["", ...knownLines(some[0].expansion, `models of ${who} known now`)] : [];
    }),
  ];
}

/** Experts by family, and merges by group. */
function knownLines({ models }: Outlook["expansion"], what: string): string[] {
  const lines: (readonly [string, string])[] = [];
  for (const [expertFamily, of] of groupBy(models, ({ model }) =>
    "expertFamily" in model ? model.expertFamily : "",
  )) {
    const names = of.map(({ model }) => model.name);
    if (expertFamily !== "") lines.push([expertFamily, formatSome(names, MAX_LISTED)]);
  }
  const merges = models.flatMap(({ model }) => ("group" in model ? [model] : []));
  for (const [group, of] of groupBy(merges, (model) => model.group)) {
    const pairs = new Set(of.map(({ members }) => members.join())).size;
    const configurations = new Set(of.map(({ configuration }) => configuration.label)).size;
    const [first] = of;
    const field = first?.merge.figure === undefined ? undefined : lineField(first.merge);
    const how = field === undefined ? "" : `, all reported, as lines over ${fieldTitle(field)}`;
    lines.push([group, `${plural(pairs, "combination")}, ${plural(configurations, "configuration")} of each${how}`]);
  }
  const first = lines.length === 0 ? `${what}: base` : `${what}: base, and`;
  return [first, ...terminalLines({ columns: ["", ""], rows: lines }).slice(1)];
}

function countLines({ steps }: Outlook): string[] {
  const rows = KINDS.flatMap((kind) => {
    const own = steps.filter(({ step }) => step.kind === kind);
    // Few plans have them.
    if ((kind === "merge" || kind === "verb") && own.length === 0) return [];
    const done = own.filter(({ state }) => state.state === "done").length;
    return [[KIND_NAMES[kind], String(done), String(own.length - done)]];
  });
  return terminalLines({ columns: ["step", right("done"), right("now")], rows });
}

/** Known steps that are not done: training runs, analyses, and the models of each task. */
function stepLines({ steps, expansion }: Outlook): string[] {
  const left = new Set(steps.filter(({ state }) => state.state !== "done").map(({ step }) => step.key));
  const tasks = new Map<string, Map<string, number>>();
  for (const { model, tasks: asked } of expansion.models) {
    const who = "group" in model ? model.group : model.name;
    for (const { request, steps: parts } of asked) {
      const count = parts.filter(({ key }) => left.delete(key)).length;
      if (count === 0) continue;
      const of = tasks.get(request.task) ?? new Map<string, number>();
      tasks.set(request.task, of.set(who, (of.get(who) ?? 0) + count));
    }
  }
  const asked = [...tasks].map(([task, of]) => {
    const names = [...of].map(([who, count]) => (count > 1 ? `${count} times ${who}` : who));
    return `  evaluate on ${task}: ${formatSome(names, MAX_LISTED)}`;
  });
  const trained = steps.flatMap(({ step }) => (step.kind === "train" && left.has(step.key) ? [step.name] : []));
  const written = steps.flatMap(({ step }) => (step.kind === "merge" && left.has(step.key) ? [step.label] : []));
  const others = steps.flatMap(({ step }) => (step.kind === "verb" && left.has(step.key) ? [`  ${step.label}`] : []));
  const analyzed = steps.filter(({ step }) => step.kind === "analyze" && left.has(step.key)).length;
  return [
    ...(trained.length > 0 ? [`  train ${formatSome(trained, MAX_LISTED)}`] : []),
    ...(written.length > 0 ? [`  ${formatSome(written, MAX_LISTED)}`] : []),
    ...(analyzed > 0 ? [`  analyze ${plural(analyzed, "pair")}`] : []),
    ...asked.slice(0, MAX_LISTED),
    ...(asked.length > MAX_LISTED ? [`  evaluate on ${plural(asked.length - MAX_LISTED, "more task")}`] : []),
    ...others.slice(0, MAX_LISTED),
    ...(others.length > MAX_LISTED ? [`  and ${plural(others.length - MAX_LISTED, "more command")}`] : []),
  ];
}

/** What merges will note, each note once. */
function mergeLines({ notes, later }: Outlook["merges"]): string[] {
  const found = groupBy(notes, ({ note }) => note);
  const lines = [...found].map(
    ([note, of]) => `note: ${formatSome([...new Set(of.map(({ name }) => name))], 3)}: ${note}`,
  );
  const rest = later > 0 ? [`notes of ${plural(later, "merge")} are known once the experts are here`] : [];
  return lines.length + rest.length > 0 ? ["", ...lines, ...rest] : [];
}

/** What each training run will do; runs with the same numbers together. @param named how many of these are named */
function trainingLines(training: Outlook["training"], named: number): string[] {
  if (training.length === 0) return [];
  const alike = [...groupBy(training, (one) => JSON.stringify(trainingCells(one))).values()];
  const rows = alike.slice(0, MAX_LISTED).flatMap((some): string[][] => {
    const [first] = some;
    return first ? [[formatSome([...new Set(some.map(({ name }) => name))], named), ...trainingCells(first)]] : [];
  });
  const more = alike.slice(MAX_LISTED).flat().length;
  const columns = ["training run", ...TRAINING_COLUMNS.map(right), "saving may lose"];
  return [
    "",
    ...terminalLines({ columns, rows }),
    ...(more > 0 ? [`and ${plural(more, "more training run")}`] : []),
    totalTokens(training),
    ...noteLines(training),
    ...lostNotes(training),
  ];
}

/** What runs will note, each once. */
function noteLines(training: Outlook["training"]): string[] {
  const found = groupBy(
    training.flatMap(({ name, notes }) => notes.map((note) => ({ name, note }))),
    ({ note }) => note,
  );
  return [...found].map(([note, of]) => `note: ${formatSome([...new Set(of.map(({ name }) => name))], 3)}: ${note}`);
}

/** "18 training runs: at most 1.06B tokens" */
function totalTokens(training: Outlook["training"]): string {
  const most = training.some(({ isMost }) => isMost) ? "at most " : "about ";
  const tokens = training.reduce((sum, one) => sum + one.tokens, 0);
  return `${plural(training.length, "training run")}: ${most}${formatCount(tokens)} tokens`;
}

const TRAINING_COLUMNS = [
  "rows",
  "tokens",
  "sequences",
  "steps",
  "warmup",
  "peak rate",
  "last rate",
  "epochs",
  "GPU hours",
];
/** What the estimate of the loss supposes. */
function lostNotes(training: Outlook["training"]): string[] {
  const lossy = training.filter(({ kept }) => kept);
  if (lossy.length === 0) return [];
  const weights = lossy.every(({ isSampled }) => isSampled) ? "weights of the base" : "weights of about 0.02";
  return [
    `saving may lose: elements of the change, an estimate for ${weights} that move as far as steps in random directions; a run measures it`,
  ];
}

function trainingCells(one: Outlook["training"][number]): string[] {
  const count = (value: number | undefined) => (value === undefined ? "?" : value.toLocaleString("en-US"));
  const { rows, isLeast, tokens, isMost, sequences, steps, warmup, peak, last, epochs, gpuHours, kept } = one;
  const share =
    steps === undefined || warmup === undefined ? "" : ` (${Number(((100 * warmup) / steps).toPrecision(2))}%)`;
  return [
    `${isLeast ? "over " : ""}${count(rows)}`,
    `${isMost ? "at most " : isLeast ? "about " : ""}${formatCount(tokens)}`,
    count(sequences),
    count(steps),
    `${count(warmup)}${share}`,
    rateText(peak),
    last === undefined ? "?" : rateText(last),
    epochs === undefined ? "?" : `${isLeast ? "under " : ""}${Number(epochs.toPrecision(2))}`,
    gpuHours === undefined ? "none" : String(Number(gpuHours.toPrecision(2))),
    kept === undefined ? "nothing" : `about ${Math.round(100 * (1 - kept.elements))}% (${kept.dtype})`,
  ];
}

function laterLines(waiting: Outlook["expansion"]["waiting"]): string[] {
  const later = waiting.toSorted((a, b) => b.steps - a.steps);
  const others = later.slice(MAX_LISTED);
  const rest = others.reduce((sum, { steps }) => sum + steps, 0);
  return [
    ...later.slice(0, MAX_LISTED).map(({ what, steps }) => `  about ${plural(steps, "step")}: ${what}`),
    ...(others.length > 0 ? [`  about ${plural(rest, "step")} of ${others.length} other kinds`] : []),
  ];
}

/** Steps that are done, running and left, and why steps failed. */
export function statusLines({ counts, steps, expansion, estimate, seconds }: ExperimentStatus): string[] {
  const inState = <S extends StepState["state"]>(name: S) =>
    steps.flatMap(({ step: { label }, state }) =>
      state.state === name ? [{ label, ...(state as Extract<StepState, { state: S }>) }] : [],
    );
  const failed = inState("failed");
  const pending = inState("pending");
  const stopped = pending.filter(({ reason }) => reason !== undefined).slice(0, MAX_LISTED);
  const others = pending.filter(({ reason }) => reason === undefined).slice(0, Math.max(0, 10 - stopped.length));
  const more = pending.length - stopped.length - others.length;
  return [
    describeCounts(counts),
    ...inState("running").map(({ label, since }) => `running  ${label} (since ${since})`),
    ...failed.map(({ label, reason }) => `failed   ${label}: ${reason}`),
    ...(failed.length > 0 ? [adviceOnFailures(failed.length)] : []),
    ...expansion.warnings.map((text) => `warning  ${text}`),
    ...stopped.map(({ label, reason }) => `stopped  ${label}: ${reason}; resume continues it`),
    ...others.map(({ label }) => `left     ${label}`),
    ...(more > 0 ? [`left     ${more} more`] : []),
    ...laterLines(expansion.waiting).map((line) => `later  ${line}`),
    ...(seconds > 0 ? [`${formatDuration(seconds)} of work so far`] : []),
    ...(counts.left + counts.running + counts.waiting > 0 ? [timeLeft(estimate)] : []),
  ];
}

export function adviceOnFailures(count: number): string {
  return `${plural(count, "step")} failed. Fix the cause, then run resume; steps that are done are kept.`;
}
