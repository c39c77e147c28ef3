// What a tokenizer is made of, for formats that other programs tokenize from.
import { AddedTokens } from "./added-tokens.js";
import { surroundings } from "./encoder.js";
import type { SpecialIds } from "./tokenizer.js";
import { type AddedToken, type CheckedJson, readJson, type TokenizerJson } from "./tokenizer-json.js";
import { namedTokens, SPECIAL_NAMES, type SpecialName, type TokenizerSettings } from "./tokenizer-settings.js";

export interface TokenizerParts extends Pick<CheckedJson, "model" | "vocabulary" | "normalizer" | "preTokenizer"> {
  /** Tokens that are matched before the model sees the text, those of the settings included. */
  readonly added: readonly AddedToken[];
  /** Ids that the post-processor puts before and after a text. */
  readonly before: readonly number[];
  readonly after: readonly number[];
  /** Ids of the special tokens that the settings name. */
  readonly special: ReadonlyMap<SpecialName, number>;
}

/**
 * The parts of a tokenizer, from the values of its files.
 * @throws CheckpointError if they are not valid
 */
export function tokenizerParts(
  value: TokenizerJson,
  settings: TokenizerSettings = {},
  ids: SpecialIds = {},
): TokenizerParts {
  const json = readJson(value);
  const named = namedTokens(settings);
  const added = new AddedTokens(json, named, settings);
  const { model, vocabulary, normalizer, preTokenizer } = json;
  const idOf = (token: string) => added.byContent.get(token)?.id ?? vocabulary.get(token);
  const [before, after] = surroundings(json, idOf);
  const other: Partial<Record<SpecialName, number | undefined>> = {
    bos_token: ids.bos,
    eos_token: ids.eos,
    pad_token: ids.pad,
  };
  const special = SPECIAL_NAMES.flatMap((name): [SpecialName, number][] => {
    const content = named.get(name)?.content;
    const id = content === undefined ? other[name] : idOf(content);
    return id === undefined ? [] : [[name, id]];
  });
  return {
    model,
    vocabulary,
    normalizer,
    preTokenizer,
    added: [...added.byId.values()],
    before,
    after,
    special: new Map(special),
  };
}
