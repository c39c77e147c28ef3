import type { Language } from "../../kit/index.js";
import type { BleuTokenizer } from "../metrics/bleu-tokenizers.js";
import type { AnswerSettings } from "./answer-settings.js";
import type { Protocol } from "./protocol.js";
import type { DataAccess } from "./task-data.js";

export interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** What is asked, cut where items of a task begin to differ, so that the beginning can be computed once. */
export type Prompt =
  | {
      readonly form: "text";
      /** What many items begin with (instructions, shots): the same string for all of them; may be empty. */
      readonly shared: string;
      /** The item's own part. The prompt is `shared` followed by `own`. */
      readonly own: string;
    }
  | {
      readonly form: "chat";
      readonly messages: readonly Message[];
      /** How many messages at the front many items have in common. */
      readonly shared: number;
    };

interface ItemBase {
  /** Unique within the task, the same in every run. */
  readonly id: string;
  /** What the item belongs to, such as the subject of an MMLU question. */
  readonly group?: string;
  readonly prompt: Prompt;
  /** The right answer as text: a number, a letter, a translation, tests. */
  readonly gold: string;
}

export interface Sampling extends Pick<AnswerSettings, "topP" | "topK"> {
  /** Divides the logits; above 0. */
  readonly temperature: number;
  /** Random seed, from 0 to 2^31 - 1. */
  readonly seed: number;
  /** Which of the answers to the item, from 1. */
  readonly repeat: number;
}

/** An item answered by generating. */
export interface GenerateItem extends ItemBase {
  readonly kind: "generate";
  /** Generation ends before the first of these. */
  readonly stop: readonly string[];
  readonly maxNewTokens: number;
  /** Default: greedy. */
  readonly sampling?: Sampling;
  /** The language that the answer is to be written in, where the task's items differ in it. */
  readonly answersIn?: Language | undefined;
  /** Where the answer is a program: what is executed after it, in this order. */
  readonly tests?: readonly { readonly name: string; readonly source: string }[];
}

/** An item answered by the continuation with the highest log-likelihood. */
export interface ChooseItem extends ItemBase {
  readonly kind: "choose";
  /** What follows the prompt, white space included: " A", " B". */
  readonly choices: readonly string[];
  /** What the choices are called in readings: "A", "B". */
  readonly labels: readonly string[];
  readonly correct: number;
}

export type Item = GenerateItem | ChooseItem;

/**
 * The answer of a backend: the text, or the log-likelihood of each choice, null where it is not known.
 */
export type Output = string | readonly (number | null)[];

/** What was read from an output, as plain data: kept in the samples. */
export type Reading = Readonly<Record<string, string | number | readonly string[] | readonly number[] | undefined>>;

/**
 * What a reading is worth: numbers from 0 to 1 that are averaged, or sums that a corpus score is made of. Undefined
 * where there is nothing to judge, which counts as unscored, not as wrong.
 */
export type Verdict = Readonly<Record<string, number | readonly number[]>>;

/** Executes programs, confined: `Sandbox` of evaluate/sandbox is one. */
export interface Executor {
  run(
    parts: readonly { readonly name: string; readonly source: string }[],
    options?: { readonly reference?: string | undefined; readonly signal?: AbortSignal | undefined },
  ): Promise<{ readonly outcome: string; readonly detail: string }>;
}

export interface ScoreOptions {
  /** Needed by tasks that execute programs. */
  readonly executor?: Executor | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A number that a task's samples are summed up in. The first of a task is its headline. */
export interface Metric {
  /** Such as `strict`; unique within the task. */
  readonly name: string;
  /** For tables: `exact match, strict`. */
  readonly title: string;
  /** Entry of the verdicts that it is made of. */
  readonly of: string;
  /** mean: over items; group mean: of the means of the groups; corpus: `score` of the sums over all items. */
  readonly by: "mean" | "group mean" | "corpus";
  /** share: from 0 to 1, printed as a percentage; points: from 0 to 100. */
  readonly scale: "share" | "points";
  /** Whether it says nothing about right or wrong: shown beside scores, and only where there is something to show. */
  readonly isAside?: true;
  readonly score?: (sums: readonly number[]) => number;
  /** How the score was made, where there is a customary way to say so. */
  readonly signature?: string;
}

export interface LoadOptions {
  /**
   * Most items. Default: all. A task with groups takes one from each group in turn, so that every group is there.
   */
  readonly limit?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface LoadedItems {
  readonly items: readonly Item[];
  /** Notes on the data, such as a file with missing rows. */
  readonly notes: readonly string[];
}

/** A benchmark of the hub: its data set, and the name of the task there (eval.yaml, else the configuration). */
export interface Benchmark {
  readonly dataset: string;
  readonly task: string;
}

export interface Task {
  /** Such as `mgsm_sw`. */
  readonly name: string;
  /** For tables: `MGSM Swahili`. */
  readonly title: string;
  readonly protocol: Protocol & { readonly specialTokens: boolean };
  readonly shots: number;
  readonly metrics: readonly Metric[];
  /** How answers are read and scored, where the protocol's version does not say it: a task that a file declares. */
  readonly judging?: unknown;
  /** Where the hub shows scores of it. Default: nowhere. */
  readonly benchmark?: Benchmark | undefined;
  /** Whether outputs are programs, which are executed only where the user allows it. */
  readonly executes: boolean;
  /** How answers in text are drawn. Default: greedily, once. */
  readonly answers?: AnswerSettings | undefined;
  /** The same task as a chat, where no protocol was asked for and there is one: `evaluate` takes it for models with a chat template. */
  readonly asChat?: Task | undefined;
  /**
   * Makes items of the data.
   * @throws LayergraftError code "data" where files are missing or wrong, with what was expected and where
   */
  load(data: DataAccess, options?: LoadOptions): Promise<LoadedItems>;
  /** Reads an output; the same for the same output. */
  read(item: Item, output: Output): Reading;
  score(item: Item, reading: Reading, options?: ScoreOptions): Promise<Verdict | undefined>;
}

export interface OpenOptions {
  /** Protocols that are asked for; a family takes the one that is its own, else its first. */
  readonly protocol: readonly string[];
  /** Solved examples before each item. Default: as the protocol says. */
  readonly shots?: number | undefined;
  /** How BLEU cuts translations; default by the language translated into. */
  readonly tokenize?: BleuTokenizer | undefined;
  /** File with translated prompts, for a family that `takesPrompts`: a row for each problem. Default: none. */
  readonly prompts?: string | undefined;
  /** How answers in text are drawn. Default: greedily, once, of at most as many tokens as the protocol says. */
  readonly answers?: AnswerSettings | undefined;
}

/** Tasks that are declared together, as MGSM in eleven languages. */
export interface TaskFamily {
  readonly name: string;
  readonly summary: string;
  readonly protocols: readonly Protocol[];
  /** Whether its prompts can be those of a file (`OpenOptions.prompts`). Default: false. */
  readonly takesPrompts?: true;
  /** How its tasks are named: `mgsm_LANGUAGE`. */
  readonly pattern: string;
  /** Names of tasks to list: all, or examples where any language code will do. */
  readonly names: readonly string[];
  /**
   * The tasks that a name stands for, undefined where the name is not of this family.
   * @throws RecipeError where the name is of this family but wrong, or the options do not fit it
   */
  open(name: string, options: OpenOptions): Task[] | undefined;
}

/** Items that are answered by text, numbered from 1. */
export function textItems(
  asked: readonly { readonly prompt: Prompt; readonly gold: string }[],
  settings: Pick<GenerateItem, "stop" | "maxNewTokens">,
): GenerateItem[] {
  return asked.map((one, i) => ({ kind: "generate", id: String(i + 1), ...one, ...settings }));
}

/** Takes the first items, or one from each group in turn. */
export function limitItems<T extends Item>(items: readonly T[], limit: number | undefined): readonly T[] {
  if (limit === undefined || items.length <= limit) return items;
  const seen = new Map<string, number>();
  const ranked = items.map((item, index) => {
    const rank = item.group === undefined ? index : (seen.get(item.group) ?? 0);
    if (item.group !== undefined) seen.set(item.group, rank + 1);
    return { index, rank };
  });
  const taken = ranked.sort((a, b) => a.rank - b.rank || a.index - b.index).slice(0, limit);
  return taken.sort((a, b) => a.index - b.index).flatMap(({ index }) => items[index] ?? []);
}
