// The tokenizer of a GGUF file as tokenizer.json and tokenizer_config.json: the inverse of
// src/export/gguf/tokenizer-metadata.ts.
import { CheckpointError, type JsonObject } from "../../kit/index.js";
import { shorten } from "../../kit/printing/index.js";
import type { GgufHeader, GgufValue } from "./header.js";
import { knownPreTokenizer, preTokenizerPart } from "./pre-tokenizers.js";

/** `llama_token_type`. */
const TYPE = { unknown: 2, control: 3, userDefined: 4, unused: 5 } as const;

const SPACE = "▁";

/** What the files say, or why there is no tokenizer. */
export type GgufTokenizer =
  | { readonly tokenizer: JsonObject; readonly settings: JsonObject }
  | { readonly problem: string };

/**
 * The tokenizer.
 * @throws CheckpointError if its lists do not fit each other
 */
export function ggufTokenizer({ metadata }: GgufHeader, path: string): GgufTokenizer {
  const read = (key: string) => metadata.get(`tokenizer.ggml.${key}`);
  const tokens = stringsOf(read("tokens"));
  const kind = read("model");
  if (!tokens) return { problem: "the file has no tokenizer" };
  const types = read("token_type") === undefined ? tokens.map(() => 1) : (numbersOf(read("token_type")) ?? []);
  const scores = read("scores") === undefined ? undefined : (numbersOf(read("scores")) ?? []);
  if (types.length !== tokens.length || (scores && scores.length !== tokens.length)) {
    throw new CheckpointError(`${path} has ${tokens.length} tokens, and another number of their types or scores.`, {
      file: path,
    });
  }
  const vocabulary: Vocabulary = { tokens, types, scores, read };
  const made =
    kind === "gpt2"
      ? byteLevel(vocabulary)
      : kind === "llama" || kind === "gemma4"
        ? bySentencePiece(vocabulary)
        : kind === "t5"
          ? unigram(vocabulary)
          : undefined;
  if (made === undefined) return { problem: `layergraft does not read its tokenizer, ${String(kind).slice(0, 40)}` };
  if (typeof made === "string") return { problem: made };

  const [bos, eos] = [idOf(read("bos_token_id")), idOf(read("eos_token_id"))];
  // As llama.cpp does where a file does not say, and with Gemma 4 whatever a file says.
  const isByName = kind === "gpt2" && knownPreTokenizer(String(read("pre")))?.addsBos === true;
  const addsBos = kind === "gemma4" || (read("add_bos_token") ?? (kind === "llama" || isByName));
  const addsEos = read("add_eos_token") ?? kind === "t5";
  const before = addsBos === true && bos !== undefined ? tokens[bos] : undefined;
  const after = addsEos === true && eos !== undefined ? tokens[eos] : undefined;
  const added = types.flatMap((type, id) =>
    type === TYPE.control || type === TYPE.userDefined || type === TYPE.unknown
      ? [addedToken(id, tokens[id] ?? "", type)]
      : [],
  );
  const special = {
    bos_token: bos,
    eos_token: eos,
    unk_token: idOf(read("unknown_token_id")),
    pad_token: idOf(read("padding_token_id")),
  };
  const template = metadata.get("tokenizer.chat_template");
  return {
    tokenizer: {
      version: "1.0",
      truncation: null,
      padding: null,
      added_tokens: added,
      ...made,
      post_processor: withEnds(before, after, tokens) ?? made.post_processor,
    },
    settings: {
      tokenizer_class: "PreTrainedTokenizerFast",
      clean_up_tokenization_spaces: false,
      add_bos_token: before !== undefined,
      add_eos_token: after !== undefined,
      ...Object.fromEntries(
        Object.entries(special).flatMap(([name, id]) =>
          id === undefined || tokens[id] === undefined ? [] : [[name, tokens[id]]],
        ),
      ),
      ...(typeof template === "string" ? { chat_template: template } : {}),
    },
  };
}

interface Vocabulary {
  readonly tokens: readonly string[];
  readonly types: readonly number[];
  readonly scores: readonly number[] | undefined;
  readonly read: (key: string) => GgufValue | undefined;
}

interface Parts {
  readonly normalizer: object | null;
  readonly pre_tokenizer: object | null;
  readonly post_processor: object | null;
  readonly decoder: object;
  readonly model: JsonObject;
}

const stringsOf = (value: GgufValue | undefined) =>
  Array.isArray(value) && value.every((one) => typeof one === "string") ? (value as string[]) : undefined;
const numbersOf = (value: GgufValue | undefined) =>
  Array.isArray(value) && value.every((one) => typeof one === "number") ? (value as number[]) : undefined;
const idOf = (value: GgufValue | undefined) => (typeof value === "number" ? value : undefined);

/** Ids by token. Places without a token are padding of the embedding. */
function vocabOf({ tokens, types }: Vocabulary): Record<string, number> {
  return Object.fromEntries(tokens.flatMap((token, id) => (types[id] === TYPE.unused ? [] : [[token, id]])));
}

function addedToken(id: number, content: string, type: number): object {
  const special = type !== TYPE.userDefined;
  return { id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special };
}

function withEnds(
  before: string | undefined,
  after: string | undefined,
  tokens: readonly string[],
): object | undefined {
  if (before === undefined && after === undefined) return undefined;
  const token = (id: string) => ({ SpecialToken: { id, type_id: 0 } });
  const single = [
    ...(before === undefined ? [] : [token(before)]),
    { Sequence: { id: "A", type_id: 0 } },
    ...(after === undefined ? [] : [token(after)]),
  ];
  const second = { Sequence: { id: "B", type_id: 1 } };
  const ends = [before, after].filter((one) => one !== undefined);
  return {
    type: "TemplateProcessing",
    single,
    pair: [...single, second],
    special_tokens: Object.fromEntries(ends.map((id) => [id, { id, ids: [tokens.indexOf(id)], tokens: [id] }])),
  };
}

const BPE = {
  type: "BPE",
  dropout: null,
  unk_token: null,
  continuing_subword_prefix: null,
  end_of_word_suffix: null,
  fuse_unk: false,
  byte_fallback: false,
  ignore_merges: false,
};

function byteLevel(vocabulary: Vocabulary): Parts | string {
  const name = vocabulary.read("pre");
  if (name === undefined) return "it does not say how texts are cut into words (tokenizer.ggml.pre)";
  const pre = knownPreTokenizer(String(name));
  if (!pre) return `layergraft does not know how ${String(name).slice(0, 40)} cuts texts into words`;
  const merges = readMerges(vocabulary);
  if (typeof merges === "string") return merges;
  const decoder = { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true };
  return {
    // The tokenizers of Qwen compose characters; llama.cpp does not, and nearly all texts are composed.
    normalizer: name === "qwen2" || name === "qwen35" ? { type: "NFC" } : null,
    pre_tokenizer: preTokenizerPart(pre),
    post_processor: null,
    decoder,
    model: { ...BPE, ignore_merges: pre.ignoresMerges ?? false, vocab: vocabOf(vocabulary), merges },
  };
}

/** The merges of a file, which must join its tokens to others; otherwise what is wrong with them. */
function readMerges({ tokens, read }: Vocabulary): readonly string[] | string {
  const merges = stringsOf(read("merges"));
  if (!merges) return "it has no merges (tokenizer.ggml.merges)";
  const known = new Set(tokens);
  const wrong = merges.findIndex((merge) => {
    const cut = merge.indexOf(" ", 1);
    const [left, right] = [merge.slice(0, cut), merge.slice(cut + 1)];
    return cut < 0 || !known.has(left) || !known.has(right) || !known.has(left + right);
  });
  if (wrong < 0) return merges;
  return `its merge ${wrong + 1} of ${merges.length}, ${JSON.stringify(shorten(merges[wrong] ?? ""))}, does not join two of its tokens to a third`;
}

/** Puts a space before a text, and underscores for spaces. */
function bySentencePiece(vocabulary: Vocabulary): Parts | string {
  if (!vocabulary.scores) return "its tokens have no scores";
  const prefix = vocabulary.read("add_space_prefix") !== false;
  const replace = { type: "Replace", pattern: { String: " " }, content: SPACE };
  const unknown = vocabulary.types.indexOf(TYPE.unknown);
  const merges = vocabulary.read("model") === "gemma4" ? readMerges(vocabulary) : mergesOf(vocabulary);
  if (typeof merges === "string") return merges;
  return {
    normalizer: prefix ? { type: "Sequence", normalizers: [{ type: "Prepend", prepend: SPACE }, replace] } : replace,
    pre_tokenizer: null,
    post_processor: null,
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: SPACE }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        ...(prefix ? [{ type: "Strip", content: " ", start: 1, stop: 0 }] : []),
      ],
    },
    model: {
      ...BPE,
      unk_token: vocabulary.tokens[unknown] ?? null,
      fuse_unk: true,
      byte_fallback: true,
      vocab: vocabOf(vocabulary),
      merges,
    },
  };
}

/**
 * Merges from scores: every cut of a token into two tokens, those of the highest score first (transformers,
 * convert_slow_tokenizer.py, generate_merges).
 */
function mergesOf({ tokens, types, scores = [] }: Vocabulary): [string, string][] {
  const ids = new Map<string, number>();
  for (const [id, token] of tokens.entries()) if (types[id] === 1 || types[id] === 6) ids.set(token, id);
  const scoreOf = (id: number) => scores[id] ?? 0;
  // Nearly all files have their tokens in this order.
  const merged = [...ids.values()].sort((a, b) => scoreOf(b) - scoreOf(a));
  const merges: [string, string][] = [];
  for (let from = 0, to = 0; from < merged.length; from = to) {
    while (to < merged.length && scoreOf(merged[to] as number) === scoreOf(merged[from] as number)) to++;
    const pairs = merged.slice(from, to).flatMap((id) => cutsOf(tokens[id] ?? "", ids));
    if (pairs.length > 1) pairs.sort((a, b) => a.left - b.left || a.right - b.right);
    for (const { left, right } of pairs) merges.push([tokens[left] ?? "", tokens[right] ?? ""]);
  }
  return merges;
}

/** The cuts of a token, between two characters, into two tokens. */
function cutsOf(token: string, ids: ReadonlyMap<string, number>): { readonly left: number; readonly right: number }[] {
  const cuts: { left: number; right: number }[] = [];
  for (let cut = 1; cut < token.length; cut++) {
    if ((token.codePointAt(cut - 1) as number) > 0xffff) continue;
    const left = ids.get(token.slice(0, cut));
    const right = left === undefined ? undefined : ids.get(token.slice(cut));
    if (left !== undefined && right !== undefined) cuts.push({ left, right });
  }
  return cuts;
}

function unigram(vocabulary: Vocabulary): Parts | string {
  const { tokens, types, scores, read } = vocabulary;
  if (!scores) return "its tokens have no scores";
  const charsmap = numbersOf(read("precompiled_charsmap"));
  const collapses = read("remove_extra_whitespaces") === true;
  const normalizers = [
    ...(charsmap ? [{ type: "Precompiled", precompiled_charsmap: Buffer.from(charsmap).toString("base64") }] : []),
    ...(collapses ? [{ type: "Replace", pattern: { Regex: " {2,}" }, content: " " }] : []),
  ];
  const prefix = read("add_space_prefix") !== false;
  const metaspace = { type: "Metaspace", replacement: SPACE, prepend_scheme: prefix ? "always" : "never", split: true };
  const unknown = types.indexOf(TYPE.unknown);
  return {
    normalizer: normalizers.length === 0 ? null : { type: "Sequence", normalizers },
    pre_tokenizer: metaspace,
    post_processor: null,
    decoder: metaspace,
    model: {
      type: "Unigram",
      unk_id: unknown < 0 ? null : unknown,
      vocab: tokens.map((token, id) => [token, scores[id] ?? 0]),
      byte_fallback: false,
    },
  };
}
