// Everything from a declaration to examples that can be batched: finds the files, reads the sets, sets held-out examples
// apart, and counts what became of each row.
import type { ChatTemplate, Tokenizer } from "../engine/index.js";
import { checkSchema, checkSettings } from "../settings/index.js";
import type { ExampleList } from "./batches.js";
import { type CollectedSet, collectSet } from "./collect.js";
import { readEvaluationFiles } from "./contamination.js";
import type { SetCounts } from "./counts.js";
import { type DataDeclaration, type DataInput, dataSchema, planSet } from "./declaration.js";
import { Encoder } from "./encode.js";
import type { Environment } from "./hub/index.js";
import type { MappingDeclaration } from "./mapping.js";
import { DataError } from "./read/data-error.js";
import type { LossOn, PromptTemplate } from "./row-template.js";
import { findSource } from "./source.js";
import { type HeldOut, listOf, splitSets } from "./split.js";
import { ExampleStore } from "./store.js";

/** Where the work is. */
export type PrepareProgress =
  | { readonly phase: "fetching"; readonly set: string; readonly done: number; readonly total: number }
  | { readonly phase: "reading"; readonly set: string; readonly rows: number; readonly kept: number };

export interface PrepareOptions {
  /** What `dataSchema` reads: a mapping with sets, a list of sets, or a set. */
  readonly data: DataInput;
  readonly tokenizer: Tokenizer;
  /** The model's chat template, for declarations that want it. */
  readonly chatTemplate?: ChatTemplate | undefined;
  /** Most tokens of an example. */
  readonly sequenceLength: number;
  /** Default: responses. */
  readonly loss?: LossOn | undefined;
  /**
   * Examples that are kept out of training: a share, or a number of them. Which ones depends on the texts of their rows
   * alone, not on the seed, and changes little when rows are added.
   */
  readonly heldOut?: HeldOut | undefined;
  /** Of what is drawn at random for caps. Default 0. */
  readonly seed?: number | undefined;
  /** Folder that relative paths start from. Default: the working directory. */
  readonly folder?: string | undefined;
  /** Memory for encoded examples before the rest goes to a temporary file. Default 512 MiB. */
  readonly memory?: number | undefined;
  /** Default: the process's. */
  readonly environment?: Environment | undefined;
  readonly onProgress?: ((progress: PrepareProgress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Data that is ready to be batched. */
export interface PreparedData {
  /** What became of the rows, by set. */
  readonly counts: readonly SetCounts[];
  readonly train: ExampleList;
  /** Sets of which nothing is held out are not in it. Undefined where nothing is at all. */
  readonly heldOut: ExampleList | undefined;
  /** For BatchStream: whether passes repeat small sets. */
  readonly repeat: boolean;
  /** Commits of the sets that came from the hub, by name. */
  readonly commits: Readonly<Record<string, string>>;
  /** Lets go of memory and of the temporary file; lists cannot be read any more. */
  readonly close: () => void;
}

/**
 * Prepares data. The result depends on the declaration, the files, the tokenizer and the seed, on nothing else.
 * @throws {RecipeError} if the declaration has problems, all of them at once
 * @throws {DataError} if data cannot be found or read, or nothing of a set is left
 * @throws {CancelledError} when the signal fires
 */
export async function prepareData(options: PrepareOptions): Promise<PreparedData> {
  const { tokenizer, sequenceLength, loss, seed = 0, signal, onProgress } = options;
  const declaration = checkData(options.data);
  const plans = declaration.sets.map(planSet);
  const { too_long: tooLong, bos, eos, contamination } = declaration;
  const encoderFor = (map?: MappingDeclaration) => {
    const template = templateOf(declaration.template, options.chatTemplate, map);
    const encoder = new Encoder({ tokenizer, template, sequenceLength, loss, tooLong, bos, eos });
    return { encoder, template: nameOf(template) };
  };
  // What is wrong with the template is found before anything is fetched.
  for (const { map } of plans) encoderFor(map);
  const store = new ExampleStore(options.memory);
  try {
    const index = contamination
      ? await readEvaluationFiles(contamination, { folder: options.folder, signal })
      : undefined;
    const seen = declaration.deduplicate ? new Set<string>() : undefined;
    const sets: CollectedSet[] = [];
    const commits = new Map<string, string>();
    for (const plan of plans) {
      const { files, commit } = await findSource(plan, {
        ...{ folder: options.folder, environment: options.environment, signal },
        onProgress: (state) => onProgress?.({ phase: "fetching", set: plan.name, ...state }),
      });
      if (commit !== undefined) commits.set(plan.name, commit);
      const context = { encoderFor, store, seen, contamination: index, seed, onBadRow: declaration.on_bad_row, signal };
      const report = ({ rows, kept }: SetCounts) => onProgress?.({ phase: "reading", set: plan.name, rows, kept });
      sets.push(await collectSet(plan, files, { ...context, onProgress: report }));
    }
    const split = splitSets(
      sets.map(({ kept }) => kept),
      options.heldOut,
    );
    sets.forEach(({ counts }, i) => {
      counts.heldOut = split.heldOut[i]?.length ?? 0;
    });
    const named = (side: typeof split.train) =>
      plans.map(({ name, weight }, i) => ({ name, weight, kept: side[i] ?? [] }));
    const heldOut = named(split.heldOut).filter(({ kept }) => kept.length > 0);
    return {
      counts: sets.map(({ counts }) => counts),
      train: listOf(store, named(split.train)),
      heldOut: heldOut.length > 0 ? listOf(store, heldOut) : undefined,
      repeat: declaration.repeat,
      commits: Object.fromEntries(commits),
      close: () => store.close(),
    };
  } catch (error) {
    store.close();
    throw error;
  }
}

/** Checks a declaration given as a value. @throws {RecipeError} with every problem */
export function checkData(value: unknown): DataDeclaration {
  return checkSettings(value, { kind: "declaration of data", check: (data) => checkSchema(dataSchema, data) });
}

function templateOf(declared: string, chat: ChatTemplate | undefined, map?: MappingDeclaration): PromptTemplate {
  if (declared === "plain") return "plain";
  // Text without a prompt is no conversation that a chat template could hold.
  const hasPrompts = map === undefined || !("response" in map) || map.prompt !== undefined;
  if (declared === "auto") return chat && hasPrompts ? { chat } : "plain";
  if (declared !== "chat") return { turn: declared };
  if (chat) return { chat };
  throw new DataError("template: chat is asked for, and the model has no chat template; use plain, or write one out", {
    field: "template",
  });
}

function nameOf(template: PromptTemplate): string {
  if (template === "plain") return "plain";
  return "chat" in template ? "the model's chat template" : JSON.stringify(template.turn);
}
