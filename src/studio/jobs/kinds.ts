// What jobs do: calls of the library, by kind. This runs in the job's thread.
import { join } from "node:path";
import { loadSourceTemplate, openModelSource } from "../../engine/index.js";
import { type ExperimentProgress, runExperiment } from "../../experiment/report/index.js";
import { usageError } from "../../kit/index.js";
import { pageData } from "../../merge/analysis/index.js";
import { suggest } from "../../verbs/index.js";
import {
  analyzeVerb,
  analyzeWithRows,
  callVerb,
  checkInput,
  exportVerb,
  generateVerb,
  mergeVerb,
  pushVerb,
  withHub,
} from "../../verbs/shared/index.js";
import { clip } from "../experiments/summary.js";
import { digestOfFile, fileOf, recipeFile } from "../project/project.js";
import type { JobInput, JobKind, Progress, Written } from "../protocol/index.js";
import { evaluateModels, problemOf, scoreSuggestions } from "./evaluate.js";
import { runVerbJob } from "./verbs.js";

/** Folder of an analysis within that of its job. */
export const ANALYSIS = "analysis";

export interface JobPlace {
  /** The project, from which relative paths start. */
  readonly project: string;
  /** Folder for what the job makes beside its result. */
  readonly folder: string;
}

export interface JobOrder {
  readonly kind: JobKind;
  readonly input: JobInput;
  readonly place: JobPlace;
}

export interface JobControls {
  readonly signal: AbortSignal;
  readonly onProgress: (progress: Progress) => void;
  /** New text of an answer. @param stream which answer */
  readonly onText: (stream: string, text: string) => void;
}

/** An answer, or why there is none. */
type Answered =
  | { readonly text: string; readonly finish: string; readonly tokens: number }
  | { readonly problem: string };

type Result<K extends JobKind> = K extends "merge" | "export" | "push" ? Written : unknown;
export type Work<K extends JobKind> = (
  input: JobInput<K>,
  place: JobPlace,
  controls: JobControls,
) => Promise<Result<K>>;

export const KINDS: { readonly [K in JobKind]: Work<K> } = {
  verb: runVerbJob,
  async analyze({ base, experts }, { project, folder }, controls) {
    const named = Object.fromEntries(experts.map(({ name, source }) => [name, source]));
    const input = checkInput(analyzeVerb, { base, experts: named, out: join(folder, ANALYSIS) });
    return pageData(await analyzeWithRows(input, withHub(analyzeVerb, { ...controls, folder: project, force: true })));
  },
  async suggest({ names: called, score, ...sources }, place, controls) {
    const { suggestions } = await suggest({ ...sources, called }, { folder: place.project, ...controls });
    return score ? scoreSuggestions(suggestions, score, place, controls) : suggestions;
  },
  evaluate: evaluateModels,
  async answer({ models, ...fields }, { project }, { signal, onProgress, onText }) {
    const results: Record<string, Answered> = {};
    for (const { name, source } of models) {
      const loading = ({ done, total, unit }: Progress) => onProgress({ phase: `loading ${name}`, done, total, unit });
      loading({ phase: "", done: 0, total: 0, unit: "bytes" });
      try {
        const opened = await openModelSource(source, { folder: project, hub: { fetch: "stream", signal } });
        if (fields.chat && !(await loadSourceTemplate(opened))) {
          throw usageError(`${name} has no chat template. Choose Text as the form of the prompt.`);
        }
        // One at a time, so that the memory is that of the largest.
        const { answers } = await callVerb(
          generateVerb,
          { ...fields, source },
          {
            folder: project,
            signal,
            onProgress: loading,
            // The model is there.
            onNote: () => onProgress({ phase: `${name} answers`, done: 0, total: 0, unit: "items" }),
            onPart: (part) => onText(name, part),
          },
        );
        for (const { text: answer, finish, ids } of answers) {
          results[name] = { text: answer, finish, tokens: ids.length };
        }
      } catch (error) {
        // One model that cannot be run does not stop the others.
        results[name] = { problem: problemOf(error, signal) };
      }
    }
    return results;
  },
  async merge({ recipe, force, resume, ...fields }, { project }, { signal, onProgress }) {
    const options = { folder: project, force, resume, signal, onProgress };
    const input = { ...fields, recipe: await recipeFile(project, recipe) };
    const { notes, warnings, summary, bytesWritten } = await callVerb(mergeVerb, input, options);
    return { bytes: summary.adapter ? bytesWritten : summary.bytesToWrite, notes: [...notes, ...warnings] };
  },
  async export({ recipe, force, resume, ...fields }, { project }, { signal, onProgress }) {
    const options = { folder: project, force, resume, signal, onProgress };
    const input = { ...fields, source: await recipeFile(project, recipe) };
    const { bytes, notes, warnings } = await callVerb(exportVerb, input, options);
    return { bytes, notes: [...notes, ...warnings] };
  },
  async push(input, { project }, { signal, onProgress }) {
    const { bytes, notes, url } = await callVerb(pushVerb, input, { folder: project, signal, onProgress });
    return { bytes, notes: [...notes], url };
  },
  async experiment({ plan, planDigest, allowCode }, { project }, { signal, onProgress }) {
    const file = await fileOf(project, plan);
    if ((await digestOfFile(file)) !== planDigest) {
      throw usageError(`${plan} was changed since the page read it. Check what it starts, then run it again.`);
    }
    onProgress({ phase: "checking models and data", done: 0, total: 0, unit: "steps" });
    const running = new PartsInParallel();
    const { reportFolder, failures } = await runExperiment(file, {
      signal,
      allowCode,
      onProgress({ event, ...progress }) {
        if (!event) onProgress(progress);
        else if (running.update(event)) onProgress({ ...progress, parts: running.list() });
      },
    });
    return { reportFolder, failures };
  },
};

type RunningPart = NonNullable<Progress["parts"]>[number];

const MAX_PARTS = 64;
/** Milliseconds between reports of the same steps. */
const PAUSE = 200;

/** What an experiment runs at the moment, from its events. */
class PartsInParallel {
  readonly #parts = new Map<string, RunningPart>();
  #last = 0;

  /** @returns whether to report it now */
  update(event: NonNullable<ExperimentProgress["event"]>): boolean {
    const label = clip(event.label);
    if (event.event === "started") this.#parts.set(event.key, { label, share: 0, what: "" });
    else if (event.event === "progress") {
      this.#parts.set(event.key, { label, share: event.share, what: clip(event.what) });
    } else this.#parts.delete(event.key);
    const now = performance.now();
    if (event.event === "progress" && now - this.#last < PAUSE) return false;
    this.#last = now;
    return true;
  }

  list(): RunningPart[] {
    return [...this.#parts.values()].slice(0, MAX_PARTS);
  }
}
