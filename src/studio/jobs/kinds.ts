// What jobs do: calls of the library, by kind. This runs in the job's thread.
import { join } from "node:path";
import { loadSourceTemplate, openModelSource } from "../../engine/index.js";
import { type ExperimentProgress, runExperiment } from "../../experiment/report/index.js";
import { loadVerb } from "../../experiment/verbs/index.js";
import { usageError } from "../../kit/index.js";
import { pageData } from "../../merge/analysis/index.js";
import { exportModel, merge, push, suggest } from "../../verbs/index.js";
import { analyzeVerb, analyzeWithRows, callVerb, checkInput, generateVerb, withHub } from "../../verbs/shared/index.js";
import { clip } from "../experiments/summary.js";
import { digestOfFile, fileOf, recipeFile } from "../project/project.js";
import type { JobInput, JobKind, Progress, Written } from "../protocol/index.js";
import { evaluateModels, problemOf, scoreSuggestions } from "./evaluate.js";
import { runVerb } from "./verbs.js";

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
  verb: async ({ verb, input, ...how }, place, controls) => runVerb(await loadVerb(verb), input, how, place, controls),
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
  async answer(
    { models, prompt: { text, system }, chat, runner, ...options },
    { project },
    { signal, onProgress, onText },
  ) {
    const results: Record<string, Answered> = {};
    for (const { name, source } of models) {
      const loading = ({ done, total, unit }: Progress) => onProgress({ phase: `loading ${name}`, done, total, unit });
      loading({ phase: "", done: 0, total: 0, unit: "bytes" });
      try {
        const opened = await openModelSource(source, { folder: project, hub: { fetch: "stream", signal } });
        if (chat && !(await loadSourceTemplate(opened))) {
          throw usageError(`${name} has no chat template. Choose Text as the form of the prompt.`);
        }
        // One at a time, so that the memory is that of the largest.
        const how = { backend: runner.backend, ...("type" in runner ? { type: runner.type } : {}) };
        const input = { ...options, ...how, source, prompts: [text], chat, ...(chat && system ? { system } : {}) };
        const { answers } = await callVerb(generateVerb, input, {
          ...{ folder: project, signal, onProgress: loading },
          // The model is there.
          onNote: () => onProgress({ phase: `${name} answers`, done: 0, total: 0, unit: "items" }),
          onPart: (part) => onText(name, part),
        });
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
  async merge({ recipe, ...input }, { project }, { signal, onProgress }) {
    const options = { ...input, folder: project, signal, onProgress };
    const { notes, warnings, summary, bytesWritten } = await merge(await recipeFile(project, recipe), options);
    return { bytes: summary.adapter ? bytesWritten : summary.bytesToWrite, notes: [...notes, ...warnings] };
  },
  async export({ recipe, out, type, resume, force }, { project }, { signal, onProgress }) {
    const source = await recipeFile(project, recipe);
    const options = { folder: project, resume, force, signal, onProgress };
    const { bytes, notes, warnings } = await exportModel({ source, out, type }, options);
    return { bytes, notes: [...notes, ...warnings] };
  },
  async push({ folder, repository, isPrivate }, { project }, { signal, onProgress }) {
    const target = { source: folder, name: repository, private: isPrivate };
    const { bytes, notes, url } = await push(target, { folder: project, signal, onProgress });
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

type Part = NonNullable<Progress["parts"]>[number];

const MAX_PARTS = 64;
/** Milliseconds between reports of the same steps. */
const PAUSE = 200;

/** What an experiment runs at the moment, from its events. */
class PartsInParallel {
  readonly #parts = new Map<string, Part>();
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

  list(): Part[] {
    return [...this.#parts.values()].slice(0, MAX_PARTS);
  }
}
