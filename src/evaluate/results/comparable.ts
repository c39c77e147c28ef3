// What `compare` needs of results, whichever program wrote them.
import type { Dirent } from "node:fs";
import { readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describeField } from "../../engine/index.js";
import { isFile, readJsonObject } from "../../kit/files/index.js";
import { isObject, isSystemError, own, parsePythonJson, RecipeError } from "../../kit/index.js";
import { commandLine, formatSome } from "../../kit/printing/index.js";
import { bleuFromStatistics } from "../metrics/bleu.js";
import { CHRF_PLUS_PLUS, chrfFromStatistics } from "../metrics/chrf.js";
import type { JudgedItem } from "../scoring/scores.js";
import type { AnswerSettings, Metric } from "../tasks/open-tasks.js";
import { readLmEval } from "./lm-eval.js";
import { readResults, readVerdicts } from "./read-results.js";
import type { Results, StoredMetric, TaskResult } from "./result-types.js";

export interface ComparableSample extends JudgedItem {
  /** Digests of what was asked, by what they are of: `{ documents, prompts }`. Two results must agree in those they share. */
  readonly asked: Readonly<Record<string, string>>;
}

export interface ComparableTask {
  readonly task: string;
  readonly title: string;
  /** Full name and version. */
  readonly protocol: string;
  /** Undefined where the program does not store them. */
  readonly shots: number | undefined;
  /** How answers were drawn, where the program stores it. */
  readonly answers?: AnswerSettings | undefined;
  /** The model's own settings that changed its answers in text, as `repetition_penalty 1.1`. */
  readonly settings?: readonly string[] | undefined;
  /** How answers are read and scored: a digest, and what a person calls it. */
  readonly judging?: { readonly digest: string; readonly names: readonly string[] } | undefined;
  /** Reads samples, and the metrics that they have. */
  read(): Promise<{
    readonly metrics: readonly Metric[];
    readonly samples: readonly ComparableSample[];
    /** Items whose highest log-likelihood several choices have. */
    readonly tied?: number;
  }>;
}

export interface ComparableResults {
  readonly path: string;
  readonly program: "layergraft" | "lm-eval";
  /** What was evaluated, and by what. */
  readonly name: string;
  readonly tasks: readonly ComparableTask[];
  readonly notes: readonly string[];
}

/**
 * Opens results of layergraft or lm-evaluation-harness, told apart by what the files hold.
 * @param path a folder, or the results file in it
 * @throws RecipeError if there are no results, or several, or they are of a program that `compare` does not read
 */
export async function openComparable(path: string): Promise<ComparableResults> {
  const file = await resultsFile(path);
  let value: Readonly<Record<string, unknown>>;
  try {
    value = await readJsonObject(file, undefined, (bytes) => parsePythonJson(bytes.toString("utf8")));
  } catch (error) {
    throw RecipeError.at({ file }, `${path} has no results of an evaluation: ${(error as Error).message}`);
  }
  if (isObject(value.results) && value.format === undefined) return { ...(await readLmEval(file, value)), path };
  return ownResults(path, file, await readResults(file));
}

async function resultsFile(path: string): Promise<string> {
  if (path.endsWith(".jsonl")) {
    throw RecipeError.at({ file: path }, `${path} holds samples; pass its folder, or the results file beside it`);
  }
  if (path.endsWith(".json") || (await isFile(path))) return path;
  const found = await nearestResults(path);
  if (found.length > 1) {
    const message = `${path} has ${found.length} results, such as ${formatSome(found, 2)}; pass one of them`;
    throw RecipeError.at({ file: path }, message);
  }
  return found[0] ?? join(path, "results.json");
}

const MAX_FOLDERS = 100;

/** lm-eval writes MODEL/results_DATE.json. */
const NAMES = [/^results\.json$/, /^results_.*\.json$/];

/** The results in a folder, or in the nearest folders inside it. */
async function nearestResults(path: string): Promise<string[]> {
  let level = [path];
  for (let seen = 0; level.length > 0 && seen < MAX_FOLDERS; seen += level.length) {
    const inside = (await Promise.all(level.slice(0, MAX_FOLDERS).map(listed))).flat();
    const files = inside.filter((entry) => !entry.isDirectory());
    const found = NAMES.map((pattern) => files.filter(({ name }) => pattern.test(name))).find(
      ({ length }) => length > 0,
    );
    if (found) return found.map(({ parentPath, name }) => join(parentPath, name));
    level = inside.filter((entry) => entry.isDirectory()).map(({ parentPath, name }) => join(parentPath, name));
  }
  if ((await listed(path)).some(({ name }) => name === "config.json")) {
    const message = `${path} is a model, not results. Evaluate it first: ${commandLine`eval ${path} --tasks TASK --out FOLDER`}`;
    throw RecipeError.at({ file: path }, message);
  }
  return [];
}

async function listed(folder: string): Promise<Dirent[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.sort((one, other) => (one.name < other.name ? -1 : 1));
  } catch (error) {
    if (isSystemError(error, "ENOENT") || isSystemError(error, "ENOTDIR")) return [];
    throw error;
  }
}

/** How scores of whole corpora are made of the sums in the verdicts. */
const CORPUS_SCORES: Readonly<Record<string, (sums: readonly number[]) => number>> = {
  chrf: (sums) => chrfFromStatistics(sums, {}).score,
  bleu: (sums) => bleuFromStatistics(sums).score,
  "chrf++": (sums) => chrfFromStatistics(sums, CHRF_PLUS_PLUS).score,
};

/** The model's own settings that changed answers to a task; none where it has no answers in text. */
export function settingsOfModel({ backend }: Results, { answeredBy }: TaskResult): string[] {
  const isWritten = (answeredBy.generation ?? 0) > 0;
  return isWritten ? Object.entries(backend.generationConfig ?? {}).map(([name, one]) => describeField(name, one)) : [];
}

function ownResults(path: string, file: string, results: Results): ComparableResults {
  const { source, backend, tasks } = results;
  const who = backend.server ?? backend.backend;
  return {
    path,
    program: "layergraft",
    notes: [],
    name: `${source} (${backend.model === source ? who : `${backend.model}, ${who}`})`,
    tasks: tasks.map((one): ComparableTask => {
      const { task, title, protocol, shots, answers, judgingDigest, metrics, problems } = one;
      const names = metrics.flatMap(({ signature }) => signature ?? []);
      return {
        task,
        title,
        protocol,
        shots,
        answers,
        settings: settingsOfModel(results, one),
        judging: judgingDigest === undefined ? undefined : { digest: judgingDigest, names },
        read: async () => {
          const samples = await readVerdicts(dirname(file), task);
          return {
            metrics: metrics.flatMap(withScore),
            samples: samples.map(({ asked, ...judged }) => ({ ...judged, asked: { questions: asked } })),
            tied: problems.tied,
          };
        },
      };
    }),
  };
}

function withScore(metric: StoredMetric): Metric[] {
  if (metric.by !== "corpus") return [metric];
  const score = own(CORPUS_SCORES, metric.of);
  return score ? [{ ...metric, score }] : [];
}
