// The tokenizer of a checkpoint folder, from the files that transformers saves.

import { join } from "node:path";
import { exists, readJsonObject } from "../kit/files/index.js";
import { CheckpointError } from "../kit/index.js";
import { JsonTokenizer, type Tokenizer } from "./tokenizer.js";
import { parseTokenizer } from "./tokenizer-file.js";
import { type TokenizerParts, tokenizerParts } from "./tokenizer-parts.js";
import type { TokenizerSettings } from "./tokenizer-settings.js";

// Files of the largest vocabularies, a quarter of a million tokens, have 35 MB.
const MAX_BYTES = 300_000_000;

// Other formats, which transformers converts to a tokenizer.json.
const OTHER_FORMS = ["tokenizer.model", "tekken.json", "tiktoken.model", "vocab.json", "vocab.txt", "spiece.model"];

/** More tokens than the folder has: entries of `added_tokens`; default none. */
interface LoadOptions {
  readonly addedTokens?: readonly object[];
}

/**
 * Loads the tokenizer of a folder: `tokenizer.json`, and its special tokens from `tokenizer_config.json`,
 * `special_tokens_map.json` (if the former does not list its added tokens, as in transformers) and, for those that are
 * still missing, `generation_config.json`. Merges are read, and checked, when a word is first merged.
 * @throws CheckpointError if the folder has no tokenizer.json, or one that cannot be used
 */
export function loadTokenizer(folder: string, options: LoadOptions = {}): Promise<Tokenizer> {
  return fromFiles(folder, options, parseTokenizer, (...files) => new JsonTokenizer(...files));
}

/**
 * Loads the parts of a folder's tokenizer, for programs that tokenize themselves.
 * @throws CheckpointError as `loadTokenizer`
 */
export function loadTokenizerParts(folder: string, options: LoadOptions = {}): Promise<TokenizerParts> {
  return fromFiles(folder, options, undefined, tokenizerParts);
}

async function fromFiles<T>(
  folder: string,
  { addedTokens = [] }: LoadOptions,
  parse: typeof parseTokenizer | undefined,
  make: (...files: ConstructorParameters<typeof JsonTokenizer>) => T,
): Promise<T> {
  const file = join(folder, "tokenizer.json");
  if (!(await exists(file))) throw await missing(folder, file);
  const stored = await readJsonObject(file, MAX_BYTES, parse && ((bytes) => parse(bytes, file)));
  const own: unknown[] = Array.isArray(stored.added_tokens) ? stored.added_tokens : [];
  const json = addedTokens.length > 0 ? { ...stored, added_tokens: [...own, ...addedTokens] } : stored;
  const settings = await readSettings(folder);
  const generation = await readOptional(folder, "generation_config.json");
  const ids = {
    bos: idsOf(generation.bos_token_id)[0],
    eos: idsOf(generation.eos_token_id)[0],
    pad: idsOf(generation.pad_token_id)[0],
  };
  try {
    return make(json, settings, ids);
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
    throw new CheckpointError(`${file}: ${error.message}`, { ...error.where, file }, error);
  }
}

/** Settings of a folder's tokenizer from files other than tokenizer.json. */
export async function readSettings(folder: string): Promise<TokenizerSettings> {
  const settings = await readOptional(folder, "tokenizer_config.json");
  if (settings.added_tokens_decoder !== undefined) return settings;
  return { ...settings, ...(await readOptional(folder, "special_tokens_map.json")) };
}

async function readOptional(folder: string, name: string): Promise<Readonly<Record<string, unknown>>> {
  const file = join(folder, name);
  return (await exists(file)) ? readJsonObject(file) : {};
}

/** One id, or several. */
function idsOf(value: unknown): number[] {
  const list: unknown[] = Array.isArray(value) ? value : [value];
  return list.filter((id): id is number => Number.isSafeInteger(id) && (id as number) >= 0);
}

async function missing(folder: string, file: string): Promise<CheckpointError> {
  if (!(await exists(folder))) return new CheckpointError(`${folder} does not exist`, { file: folder });
  const found: string[] = [];
  for (const name of OTHER_FORMS) if (await exists(join(folder, name))) found.push(name);
  const advice =
    found.length > 0
      ? `convert its ${found.join(", ")} with transformers: ` +
        "AutoTokenizer.from_pretrained(folder).save_pretrained(folder)"
      : "copy tokenizer.json and tokenizer_config.json from its base model";
  return new CheckpointError(`${folder} has no tokenizer.json; ${advice}`, { file, expected: "tokenizer.json" });
}
