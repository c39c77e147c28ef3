// Tokenizer, chat template and end tokens of a GGUF file.

import { basename } from "node:path";
import type { ModelText } from "../../engine/index.js";
import { digestOfJson, stampOf } from "../../kit/files/index.js";
import { CheckpointError } from "../../kit/index.js";
import { makeChatTemplate, type Tokenizer } from "../../text/index.js";
import type { LlamaFile } from "./library.js";

/** Tokens before new ones with which they are decoded, as spaces and characters may span several. */
const WINDOW = 8;
const INCOMPLETE = "\uFFFD";
/** Most replacement characters at the end of a text that more tokens may complete: bytes of a character but one. */
const MAX_BYTES = 3;

export async function ggufText(path: string, file: LlamaFile, vocabularySize: number): Promise<ModelText> {
  const { tokens, fileInfo } = file;
  const template = fileInfo.metadata.tokenizer?.chat_template;
  const name = basename(path);
  const tokenizer = ggufTokenizer(file, vocabularySize, path);
  return {
    name,
    digest: digestOfJson([name, await stampOf(path)]),
    notes: [],
    tokenizer: async () => tokenizer,
    chatTemplate: async () =>
      ggufTemplate(path, template, { bos_token: tokens.bosString ?? "", eos_token: tokens.eosString ?? "" }),
    stopIds: async () => Array.from({ length: vocabularySize }, (_, id) => id).filter((id) => file.isEogToken(id)),
  };
}

/** The template of a file's metadata. @throws CheckpointError if it cannot be read */
export function ggufTemplate(path: string, template: unknown, variables: Readonly<Record<string, string>> = {}) {
  if (typeof template !== "string") return undefined;
  return makeChatTemplate(template, { variables, name: `the chat template of ${basename(path)}`, file: path });
}

function ggufTokenizer(file: LlamaFile, vocabularySize: number, path: string): Tokenizer {
  const { bos, eos, shouldPrependBosToken, shouldAppendEosToken } = file.tokens;
  const pieces = file.fileInfo.metadata.tokenizer?.ggml?.tokens ?? [];
  const pieceOf = (id: number): string | undefined => {
    const piece = pieces[id];
    return typeof piece === "string" ? piece : undefined;
  };
  let ids: Map<string, number> | undefined;
  const decode = (list: readonly number[], skip: boolean) =>
    file.detokenize(
      list.filter((id) => pieceOf(id) !== undefined),
      !skip,
    );
  return {
    vocabularySize,
    bos: bos ?? undefined,
    eos: eos ?? undefined,
    pad: undefined,
    encode: (text, { specialTokens = false } = {}) => {
      if (pieces.length === 0) throw new CheckpointError(`${path} has no tokenizer. Pass token ids.`, { file: path });
      const encoded = text === "" ? [] : [...file.tokenize(text, true)];
      if (!specialTokens) return encoded;
      const before = shouldPrependBosToken && bos !== null ? [bos] : [];
      return [...before, ...encoded, ...(shouldAppendEosToken && eos !== null ? [eos] : [])];
    },
    decode: (list, { skipSpecialTokens = false } = {}) => decode(list, skipSpecialTokens),
    idOf: (token) => {
      ids ??= new Map(pieces.flatMap((piece, id) => (typeof piece === "string" ? [[piece, id]] : [])));
      return ids.get(token);
    },
    tokenOf: pieceOf,
    incremental: ({ skipSpecialTokens = false } = {}) => {
      let before: number[] = [];
      let held: number[] = [];
      const flush = (isLast: boolean): string => {
        const known = decode(before, skipSpecialTokens);
        const text = decode([...before, ...held], skipSpecialTokens).slice(known.length);
        if (!isLast && text.endsWith(INCOMPLETE) && held.length <= MAX_BYTES) return "";
        before = [...before, ...held].slice(-WINDOW);
        held = [];
        return text;
      };
      return {
        push: (id) => {
          held.push(id);
          return flush(false);
        },
        end: () => {
          const text = flush(true);
          before = [];
          return text;
        },
      };
    },
  };
}
