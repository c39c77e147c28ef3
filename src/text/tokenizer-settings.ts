// Special tokens of tokenizer_config.json and special_tokens_map.json.
import { isObject } from "../kit/index.js";
import { traitsOf } from "./tokenizer-json.js";

/** The value of a tokenizer_config.json. */
export type TokenizerSettings = Readonly<Record<string, unknown>>;

/** The special tokens that transformers names, in its order. */
export const SPECIAL_NAMES = [
  "bos_token",
  "eos_token",
  "unk_token",
  "sep_token",
  "pad_token",
  "cls_token",
  "mask_token",
] as const;

export type SpecialName = (typeof SPECIAL_NAMES)[number];

/** A token that settings name; its traits apply where tokenizer.json does not have it. */
export interface NamedToken extends ReturnType<typeof traitsOf> {
  readonly content: string;
  /** Whether it has a name, as extra special tokens do not. */
  readonly isNamed: boolean;
}

/** A token written as a string or as an object with its content. */
function namedToken(value: unknown, isNamed: boolean): NamedToken | undefined {
  const entry = typeof value === "string" ? { content: value } : value;
  if (!isObject(entry) || typeof entry.content !== "string" || entry.content === "") return undefined;
  return { ...traitsOf(entry, true), content: entry.content, isNamed };
}

/**
 * The special tokens that settings name: first the standard ones, then those of the model (`image_token`), then the
 * nameless extra ones, under their content.
 */
export function namedTokens(settings: TokenizerSettings): Map<string, NamedToken> {
  const named = new Map<string, NamedToken>();
  const add = (name: string, value: unknown, isNamed = true) => {
    const token = namedToken(value, isNamed);
    if (token && !named.has(name)) named.set(name, token);
  };
  for (const name of SPECIAL_NAMES) add(name, settings[name]);
  for (const [name, value] of Object.entries(settings)) if (name.endsWith("_token")) add(name, value);
  const extra = settings.extra_special_tokens ?? settings.additional_special_tokens;
  if (isObject(extra)) for (const [name, value] of Object.entries(extra)) add(name, value);
  if (Array.isArray(extra)) for (const value of extra) add(`${namedToken(value, false)?.content}`, value, false);
  return named;
}

/** The tokens that tokenizer_config.json lists by id, in the order of their ids. */
export function listedTokens(settings: TokenizerSettings): NamedToken[] {
  if (!isObject(settings.added_tokens_decoder)) return [];
  return Object.entries(settings.added_tokens_decoder)
    .sort(([a], [b]) => Number(a) - Number(b))
    .flatMap(([, entry]) => {
      if (!isObject(entry) || typeof entry.content !== "string" || entry.content === "") return [];
      return [{ ...traitsOf(entry), content: entry.content, isNamed: false }];
    });
}

/** Special tokens by their names in chat templates. */
export function templateVariables(settings: TokenizerSettings): Record<string, string> {
  const entries = [...namedTokens(settings)].filter(([name]) => name.endsWith("_token"));
  return Object.fromEntries(entries.map(([name, { content }]) => [name, content]));
}
