// Evaluates models one after another, so that the memory is that of the largest. Results are folders of `layergraft eval`.
import { readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import { openModelSource } from "../../engine/index.js";
import { scoreTexts } from "../../evaluate/index.js";
import type { Score as MainScore } from "../../evaluate/scoring/index.js";
import { judgingDigest, promptsDigest } from "../../evaluate/tasks/index.js";
import { digestOfJson, exists, readJsonObject, writeFileAtomically } from "../../kit/files/index.js";
import {
  isAnySystemError,
  LayergraftError,
  type Progress,
  systemMessage,
  usageError,
  VERSION,
} from "../../kit/index.js";
import { type EvaluateProgress, evaluate, type Model, openModel } from "../../verbs/index.js";
import { callVerb, checkInput, type EvaluateControls, evalVerb, withHub } from "../../verbs/shared/index.js";
import { type Input, type JobInput, recipeSource, type Score, type Suggestion } from "../protocol/index.js";
import type { JobControls, JobPlace } from "./kinds.js";

/** Folder of all results within a project. */
export const EVALUATIONS = "evaluations";
/** Written when an evaluation is complete. */
const RESULTS = "results.json";
const MODEL = "model.json";

const note = z.object({ digest: z.string(), recipe: z.string().optional(), source: z.string().optional() });

/**
 * What the studio noted of a result's model: its digest, a recipe as it was then, and the source that has the result now, where
 * a recipe was renamed. Undefined for results that the studio did not make.
 */
export async function noteOf(folder: string): Promise<z.infer<typeof note> | undefined> {
  return note.safeParse(await readJsonObject(join(folder, MODEL)).catch(() => undefined)).data;
}

/** Gives the result in a folder to another source. */
export async function giveResult(folder: string, source: string): Promise<void> {
  await writeFileAtomically(join(folder, MODEL), JSON.stringify({ ...(await noteOf(folder)), source }));
}

export interface Evaluated {
  readonly name: string;
  /** Its folder within `evaluations`. */
  readonly folder: string;
  /** Whether it was there before. */
  readonly isKept: boolean;
}

/** What a person is told of an error. @throws the error if the work was cancelled, or if it is a bug */
export function problemOf(error: unknown, signal: AbortSignal): string {
  if (!signal.aborted && isAnySystemError(error)) return systemMessage(error);
  if (!signal.aborted && error instanceof LayergraftError) return error.message;
  throw error;
}

/** Fields of `eval` that a job or a recipe's score has. */
type Asked = ReturnType<typeof evalInput>;
type CarryOut = (
  input: Asked,
  controls: Pick<EvaluateControls, "folder" | "hub" | "signal" | "resume" | "onProgress">,
) => Promise<unknown>;

/** @throws LayergraftError code `usage` that names the models that failed, after the others were evaluated */
export async function evaluateModels(
  { models, ...fields }: JobInput<"evaluate">,
  { project }: Pick<JobPlace, "project">,
  { signal, onProgress }: Pick<JobControls, "signal" | "onProgress">,
  carryOut: CarryOut = (input, controls) => callVerb(evalVerb, input, controls),
): Promise<Evaluated[]> {
  onProgress({ phase: "reading the task", done: 0, total: 0, unit: "items" });
  const asked = await questionsOf(evalInput({ ...fields, source: "model" }), project, signal);
  const total = models.length * asked.items;
  const results: Evaluated[] = [];
  const failures: string[] = [];
  for (const [i, { name, source }] of models.entries()) {
    const report = (phase: string, done: number) =>
      onProgress({ model: name, phase, done: i * asked.items + done, total, unit: "items" });
    report("loading", 0);
    try {
      results.push(await evaluateOne(name, source, report));
    } catch (error) {
      failures.push(`${name}: ${problemOf(error, signal)}`);
    }
  }
  if (failures.length > 0) {
    const others = results.length > 0 ? [`The results of ${results.map(({ name }) => name).join(", ")} are kept.`] : [];
    throw usageError([...failures, ...others].join("\n"));
  }
  return results;

  async function evaluateOne(name: string, source: string, report: Report): Promise<Evaluated> {
    const recipe = /\.ya?ml$/i.test(source) ? await readFile(resolve(project, source), "utf8") : undefined;
    const { digest } = await openModelSource(source, { folder: project, hub: { fetch: "stream", signal } });
    const input = evalInput({ ...fields, source });
    const all = digestOfJson([VERSION, { ...input, tasks: asked.digests, data: undefined }, digest]);
    // Named after the source: an expert that gets another name keeps its results.
    const called = inFolderName(basename(source).replace(/\.ya?ml$/i, ""));
    const own = `${asked.name}-${called}-${digest.slice(0, 8)}-${all.slice(0, 10)}`;
    const out = join(project, EVALUATIONS, own);
    const isKept = await exists(join(out, RESULTS));
    if (!isKept) {
      const onLoading = ({ done, total: bytes }: Progress) =>
        report(bytes > 0 ? `loading, ${Math.floor((100 * done) / bytes)}%` : "loading", 0);
      const hub = { fetch: "files", signal, onProgress: onLoading } as const;
      const controls = { folder: project, hub, signal, resume: true, onProgress: inAll(report) };
      await carryOut({ ...input, out }, controls);
      await writeFileAtomically(join(out, MODEL), JSON.stringify({ digest, recipe }));
    }
    return { name, folder: own, isKept };
  }
}

const evalInput = (fields: object) => checkInput(evalVerb, fields);

/** A score as the page shows it. */
export function shownScore(main: Pick<MainScore, "value" | "scale" | "interval">): Score & { unit: string } {
  const scale = main.scale === "share" ? 1 : 0.01;
  const scaled = (value: number | undefined) =>
    value === undefined || !Number.isFinite(value) ? null : Math.min(1, Math.max(0, scale * value));
  const { value, interval } = main;
  return { ...scoreTexts(main), value: scaled(value), low: scaled(interval?.low), high: scaled(interval?.high) };
}

/** Suggestions with their scores, the best first; those that cannot be run are last, with the problem. */
export async function scoreSuggestions(
  found: readonly Suggestion[],
  { task, limit }: NonNullable<JobInput<"suggest">["score"]>,
  { project }: Pick<JobPlace, "project">,
  { signal, onProgress }: Pick<JobControls, "signal" | "onProgress">,
) {
  const scored: (Suggestion & { readonly score?: Score; readonly problem?: string })[] = [];
  let before: Model | undefined;
  try {
    for (const [done, one] of found.entries()) {
      onProgress({ phase: `scoring ${one.title}`, done, total: found.length, unit: "steps" });
      try {
        const model = await openModel(one.recipe, { folder: project, signal });
        // Closed now, as it has tensors in common with this one.
        await before?.close();
        before = model;
        const { scores } = await evaluate(model, { name: one.name, tasks: [task], limit, folder: project, signal });
        scored.push({ ...one, ...(scores[0] ? { score: shownScore(scores[0]) } : {}) });
      } catch (error) {
        scored.push({ ...one, problem: problemOf(error, signal) });
      }
    }
  } finally {
    await before?.close();
  }
  return scored.sort((a, b) => (b.score?.value ?? -1) - (a.score?.value ?? -1));
}

/** The model of the last version stays open: most layers of the next one are equal, and are shared. */
let last: Model | undefined;

/** Evaluates a recipe on the first items of a task. @returns the folder of the result within `evaluations` */
export async function scoreVersion(
  { folder, name, task, limit }: Input<"recipe.score"> & { readonly folder: string },
  { signal }: { readonly signal: AbortSignal },
): Promise<string> {
  const order = { models: [{ name, source: recipeSource(name) }], tasks: [task], limit } as JobInput<"evaluate">;
  const controls = { signal, onProgress() {} };
  const [found] = await evaluateModels(order, { project: folder }, controls, async (input, options) => {
    const { source, tasks, out } = input;
    const model = await openModel(source as string, { folder, signal });
    try {
      await evaluate(model, { ...options, name: source as string, tasks, limit, out });
    } finally {
      await last?.close();
      last = model;
    }
  });
  return found?.folder ?? "";
}

type Report = (phase: string, done: number) => void;

/** Progress of one task after another as that of all. */
function inAll(report: Report): (progress: EvaluateProgress) => void {
  let [before, now] = [0, { task: "", total: 0 }];
  return ({ phase, done, total, task }) => {
    if (task !== now.task) before += now.total;
    now = { task, total };
    report(phase, before + done);
  };
}

/** What tasks ask, in digests that change with every question and with how answers are judged. */
async function questionsOf(input: Asked, folder: string, signal: AbortSignal) {
  const loaded = (await evalVerb.plan?.run(input, withHub(evalVerb, { folder, signal }))) ?? [];
  const digests = loaded.flatMap(({ task, items }) => [promptsDigest(items), judgingDigest(task)]);
  const items = loaded.reduce((sum, one) => sum + one.items.length, 0);
  const [first] = loaded;
  const name = loaded.length === 1 && first ? first.task.name : (input.tasks[0] ?? "");
  return { name: inFolderName(name), items, digests };
}

/** Whole characters, as half of one is not a name that a disk takes. */
const inFolderName = (name: string) => [...name.replace(/[^\p{L}\p{N}_]+/gu, "-")].slice(0, 40).join("");
