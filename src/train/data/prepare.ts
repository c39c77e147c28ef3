// From a declaration to examples: finds files, reads sets, and splits off held-out examples.
import { createHash } from "node:crypto";
import type { Environment } from "../../formats/hub/index.js";
import { checkSchema, checkSettings } from "../../kit/settings/index.js";
import { type ChatTemplate, type Tokenizer, withVariables } from "../../text/index.js";
import type { ExampleList } from "./batches.js";
import { type CollectedSet, collectSet, type Kept } from "./collect.js";
import type { SetCounts } from "./counts.js";
import { whyNone } from "./data-warnings.js";
import { type DataDeclaration, type DataInput, dataSchema, planSet } from "./declaration.js";
import { encoderOf } from "./encode.js";
import type { Example } from "./example.js";
import type { MappingDeclaration } from "./mapping.js";
import { DataError } from "./read/row.js";
import { type LossOn, type PromptTemplate, splitReplies } from "./row-template.js";
import { findSource } from "./source.js";

export interface PrepareOptions {
  /** What `dataSchema` reads: a mapping with sets, a list of sets, or a set. */
  readonly data: DataInput;
  readonly tokenizer: Tokenizer;
  readonly chatTemplate?: ChatTemplate | undefined;
  /** Most tokens of an example. */
  readonly sequenceLength: number;
  /** Default: responses. */
  readonly loss?: LossOn | undefined;
  /** Share or number of held-out examples. Which ones depends on the texts of their rows alone, not on the seed. */
  readonly heldOut?: HeldOut | undefined;
  /** Of the samples of capped sets. Default 0. */
  readonly seed?: number | undefined;
  /** Folder that relative paths start from. Default: the working folder. */
  readonly folder?: string | undefined;
  /** Default: that of the process. */
  readonly environment?: Environment | undefined;
  /** The model's end tokens, for `endless` of the counts. Default: not known. */
  readonly endIds?: readonly number[] | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface PreparedData {
  /** By set. */
  readonly counts: readonly SetCounts[];
  readonly train: ExampleList;
  /** The sets with held-out examples; undefined if there are none. */
  readonly heldOut: ExampleList | undefined;
  /** Whether passes repeat small sets. */
  readonly repeat: boolean;
}

/**
 * Prepares data. The result depends on the declaration, the files, the tokenizer and the seed alone.
 * @throws RecipeError with all problems of the declaration
 * @throws DataError if data cannot be found or read, or no example of a set is left
 * @throws CancelledError when the signal fires
 */
export async function prepareData(options: PrepareOptions): Promise<PreparedData> {
  const { tokenizer, sequenceLength, loss, seed = 0, signal, endIds } = options;
  const declaration = checkData(options.data);
  const plans = declaration.sets.map(planSet);
  const encoderFor = (map?: MappingDeclaration) => {
    const template = templateOf(declaration, options.chatTemplate, map);
    const encoder = encoderOf({ ...declaration, tokenizer, template, sequenceLength, loss, endIds });
    const split = (example: Example) => splitReplies(template, example, loss);
    if (template === "plain") return { encoder, split, template };
    const name = "chat" in template ? "the model's chat template" : JSON.stringify(template.turn);
    return { encoder, split, template: name };
  };
  // Finds problems of the template before anything is downloaded.
  for (const { map } of plans) encoderFor(map);
  const seen = declaration.deduplicate ? new Set<string>() : undefined;
  const sets: CollectedSet[] = [];
  for (const plan of plans) {
    const { folder, environment } = options;
    const files = await findSource(plan, { folder, environment, signal });
    const context = { encoderFor, seen, seed, onBadRow: declaration.on_bad_row, signal };
    sets.push(await collectSet(plan, files, context));
  }
  for (const { counts } of sets) {
    const problem = whyNone(counts, sequenceLength);
    if (problem !== undefined) throw new DataError(problem);
  }
  const kept = sets.map((set) => set.kept);
  const split = splitSets(kept, options.heldOut);
  for (const [i, { counts }] of sets.entries()) counts.heldOut = split.heldOut[i]?.length ?? 0;
  const named = (side: typeof split.train) =>
    plans.map(({ name, weight }, i) => ({ name, weight, kept: side[i] ?? [] }));
  const heldOut = named(split.heldOut).filter(({ kept }) => kept.length > 0);
  return {
    counts: sets.map(({ counts }) => counts),
    train: listOf(named(split.train)),
    heldOut: heldOut.length > 0 ? listOf(heldOut) : undefined,
    repeat: declaration.repeat,
  };
}

/** Checks a declaration given as a value. @throws RecipeError with every problem */
export function checkData(value: unknown): DataDeclaration {
  return checkSettings(value, { kind: "declaration of data", check: (data) => checkSchema(dataSchema, data) });
}

function templateOf(
  { template: declared, chat_template_kwargs: variables }: Pick<DataDeclaration, "template" | "chat_template_kwargs">,
  known: ChatTemplate | undefined,
  map?: MappingDeclaration,
): PromptTemplate {
  const chosen = chooseTemplate(declared, known, map);
  if (variables === undefined) return chosen;
  if (chosen !== "plain" && "chat" in chosen) return { chat: withVariables(chosen.chat, variables) };
  throw new DataError("chat_template_kwargs: the data is written without a chat template. Leave them out.", {
    field: "chat_template_kwargs",
  });
}

function chooseTemplate(declared: string, chat: ChatTemplate | undefined, map?: MappingDeclaration): PromptTemplate {
  if (declared === "plain") return "plain";
  // Plain text has no prompt for a chat template.
  const hasPrompts = map === undefined || !("text" in map || ("response" in map && map.prompt === undefined));
  if (declared === "auto") return chat && hasPrompts ? { chat } : "plain";
  if (declared !== "chat") return { turn: declared };
  if (chat) return { chat };
  throw new DataError("template: the model has no chat template. Use plain, or the text of a turn.", {
    field: "template",
  });
}

export interface HeldOut {
  readonly share?: number | undefined;
  readonly samples?: number | undefined;
}

/**
 * Holds out examples by the hashes of their rows: those below a share, or a number of the smallest. Examples of equal rows
 * stay together, so there may be a few more than the number.
 * @throws DataError if no example would be left to train on
 */
export function splitSets(
  sets: readonly (readonly Kept[])[],
  heldOut: HeldOut | undefined,
): { readonly train: Kept[][]; readonly heldOut: Kept[][] } {
  if (!heldOut) return { train: sets.map((kept) => [...kept]), heldOut: sets.map(() => []) };
  const { share, samples = 0 } = heldOut;
  const bound = share ?? boundOf(sets.flat(), samples);
  return {
    train: sets.map((kept) => kept.filter(({ split }) => split >= bound)),
    heldOut: sets.map((kept) => kept.filter(({ split }) => split < bound)),
  };
}

/** The smallest hash that is not held out. */
function boundOf(kept: readonly Kept[], samples: number): number {
  const hashes = kept.map(({ split }) => split).sort((a, b) => a - b);
  const last = hashes[samples - 1];
  const bound = last === undefined ? undefined : hashes.find((hash) => hash > last);
  if (bound !== undefined) return bound;
  throw new DataError(`holdout: cannot hold out ${samples} of ${kept.length} examples and leave any to train on`, {
    field: "holdout",
  });
}

/** Examples set by set. */
export function listOf(
  sets: readonly { readonly name: string; readonly weight?: number | undefined; readonly kept: readonly Kept[] }[],
): ExampleList {
  const digest = createHash("sha256");
  for (const { kept } of sets) for (const { digest: one } of kept) digest.update(one);
  return {
    sets: sets.map(({ name, weight, kept }) => ({ name, weight, examples: kept.map(({ encoded }) => encoded) })),
    digest: digest.digest("hex"),
  };
}
