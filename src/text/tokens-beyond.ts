// Tokens of a tokenizer that the embedding has no row for: a model cannot read them, so they are left out of every export.

import { CheckpointError } from "../kit/index.js";
import { formatSome, plural } from "../kit/printing/index.js";
import type { TokenizerParts } from "./tokenizer-parts.js";

interface Tokens extends Pick<TokenizerParts, "added" | "special" | "before" | "after"> {
  /** Ids by token. */
  readonly vocabulary: Iterable<readonly [string, number]>;
}

/**
 * Tokens from `rows` on, by id, and a note on them. Published Gemma 3 has one, the place of an image, in models without images.
 * @param template chat template, which must not need them
 * @throws CheckpointError if the template, or the start or end of a text, has one, or words are made of it
 */
export function tokensBeyond(
  { vocabulary, added, special, before, after }: Tokens,
  rows: number,
  { name, format, template = "" }: { readonly name: string; readonly format: string; readonly template?: string },
): { readonly ids: ReadonlySet<number>; readonly notes: readonly string[] } {
  const all = [...vocabulary, ...added.map(({ content, id }) => [content, id] as const)];
  const beyond = new Map(all.flatMap(([token, id]) => (id >= rows ? [[id, token] as const] : [])));
  if (beyond.size === 0) return { ids: new Set(), notes: [] };
  const tokens = [...beyond.values()];
  const count = `${plural(tokens.length, "token")} beyond the ${rows} rows of the embedding`;
  const ends = new Set([...before, ...after, special.get("bos_token"), special.get("eos_token")]);
  const apart = new Set(added.map(({ id }) => id));
  // Tokens of the model itself are parts of others.
  if ([...beyond].some(([id, token]) => ends.has(id) || !apart.has(id) || template.includes(token))) {
    throw new CheckpointError(
      `${name} cannot be exported as ${format}: its tokenizer has ${count}: ${formatSome(tokens)}.`,
      { file: name },
    );
  }
  const note = `the tokenizer has ${count}, which the export leaves out: ${formatSome(tokens)}`;
  return { ids: new Set(beyond.keys()), notes: [note] };
}
