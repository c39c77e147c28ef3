// The metadata that llama.cpp tokenizes with. It has four kinds of tokenizers: byte-level BPE by merges ("gpt2"), BPE of
// SentencePiece by scores ("llama") or by merges ("gemma4"), and Unigram ("t5").

import { findPreTokenizer } from "../../formats/gguf/index.js";
import { CheckpointError, isObject } from "../../kit/index.js";
import { type SpecialName, type TokenizerPart, type TokenizerParts, tokensBeyond } from "../../text/index.js";
import { bool, type Metadata, type MetadataValue, text, u32 } from "./gguf-file.js";

/** `llama_token_type`. */
const TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

const SPACE = "▁";

/** Keys by the name that settings give a special token. */
const SPECIAL_KEYS: Partial<Record<SpecialName, string>> = {
  bos_token: "bos_token_id",
  eos_token: "eos_token_id",
  unk_token: "unknown_token_id",
  sep_token: "seperator_token_id", // as the format spells it
  pad_token: "padding_token_id",
  mask_token: "mask_token_id",
};

/**
 * Describes a tokenizer.
 * @param size rows of the embedding; ids without a token get a placeholder
 * @param stopIds tokens that end an answer
 * @param merged the kind of a tokenizer of SentencePiece whose merges are written. Default: scores are
 * @param where names the model in errors
 * @throws CheckpointError if llama.cpp has no such tokenizer, or it has more tokens than the embedding
 */
export function tokenizerMetadata(
  parts: TokenizerParts,
  size: number,
  where: string,
  stopIds: readonly number[] = [],
  merged?: "gemma4",
  template?: string,
): { metadata: Metadata; notes: string[] } {
  const kind = kindOf(parts, where, merged);
  const beyond = tokensBeyond(parts, size, {
    name: where,
    format: "GGUF",
    ...(template === undefined ? {} : { template }),
  });
  const tokens = tokensOf(parts, kind, size, beyond.ids);
  const notes: string[] = [...beyond.notes, ...(kind.notes ?? [])];
  const entries: [string, MetadataValue][] = [
    ["model", text(kind.model)],
    ...(kind.pre ? [["pre", text(kind.pre)] as [string, MetadataValue]] : []),
    ["tokens", { type: "array", of: "string", value: tokens.map((token) => token.text) }],
    ...(kind.score
      ? [["scores", { type: "array", of: "f32", value: tokens.map(({ score }) => score) }] as [string, MetadataValue]]
      : []),
    ["token_type", { type: "array", of: "i32", value: tokens.map(({ type }) => type) }],
    ...kind.entries,
  ];
  const special = new Map(parts.special);
  // Otherwise llama.cpp takes a fixed id.
  const unknown = kind.model === "gpt2" ? undefined : unknownId(parts);
  if (unknown !== undefined) special.set("unk_token", unknown);
  const [first, ...more] = parts.before;
  if (more.length > 0) notes.push(`llama.cpp puts one token before a text, this tokenizer ${parts.before.length}`);
  if (first !== undefined) special.set("bos_token", first);
  const last = parts.after.at(-1);
  if (last !== undefined && !special.has("eos_token")) special.set("eos_token", last);
  const addsEnd = last !== undefined && last === special.get("eos_token");
  if (parts.after.length > (addsEnd ? 1 : 0))
    notes.push("llama.cpp does not put this tokenizer's last tokens after a text");
  if (parts.model.type === "BPE" && parts.preTokenizer?.type === "Metaspace") {
    notes.push("llama.cpp also puts a space before texts that begin with one, unlike this tokenizer");
  }
  const isToken = (id: number) => Number.isInteger(id) && id >= 0 && id < size;
  for (const [name, id] of special) {
    const key = SPECIAL_KEYS[name];
    if (key !== undefined && isToken(id)) entries.push([key, u32(id)]);
  }
  // The format has places for the end of a turn and of a message beside that of a text.
  const ends = stopIds.filter((id) => isToken(id) && id !== special.get("eos_token"));
  for (const [i, key] of ["eot_token_id", "eom_token_id"].entries()) {
    const id = ends[i];
    if (id !== undefined) entries.push([key, u32(id)]);
  }
  if (ends.length > 2) notes.push(`llama.cpp ends answers at three tokens, this model at ${ends.length + 1}`);
  entries.push(["add_bos_token", bool(first !== undefined)], ["add_eos_token", bool(addsEnd)]);
  return { metadata: new Map(entries.map(([key, value]) => [`tokenizer.ggml.${key}`, value])), notes };
}

/** What a kind of tokenizer adds to the tokens. */
interface Kind {
  readonly model: "gpt2" | "llama" | "gemma4" | "t5";
  readonly pre?: string;
  readonly score?: (token: string, id: number) => number;
  readonly entries: readonly [string, MetadataValue][];
  readonly notes?: readonly string[];
}

function kindOf(parts: TokenizerParts, where: string, merged?: "gemma4"): Kind {
  const { model, normalizer, preTokenizer } = parts;
  if (model.type === "Unigram") return unigram(parts, where);
  if (model.type !== "BPE") throw refuse(where, `its tokenizer is a ${model.type}, which llama.cpp does not run here`);
  if (model.byte_fallback === true) return sentencePiece(parts, where, merged);
  const pre = findPreTokenizer(preTokenizer, model.ignore_merges === true);
  if (pre === undefined) {
    throw refuse(
      where,
      `llama.cpp has no known name for its pre-tokenizer (${brief(preTokenizer)}). Export it with a tokenizer.json of a ` +
        "supported model, or convert it with convert_hf_to_gguf.py of llama.cpp",
    );
  }
  // It does not compose characters; nearly all texts are composed already.
  if (normalizer && normalizer.type !== "NFC") {
    throw refuse(where, `llama.cpp does not normalize texts as its tokenizer does (${brief(normalizer)})`);
  }
  return { model: "gpt2", pre, entries: [mergesOf(parts)] };
}

function mergesOf({ model }: TokenizerParts): [string, MetadataValue] {
  const value = (model.merges as (string | [string, string])[]).map((merge) =>
    typeof merge === "string" ? merge : merge.join(" "),
  );
  return ["merges", { type: "array", of: "string", value }];
}

/** Whether a space is put before a text, by the two parts that decide it; undefined for parts of another kind. */
function spacePrefix({ normalizer, preTokenizer }: TokenizerParts): boolean | undefined {
  const isReplacement = (part: TokenizerPart | undefined) =>
    part?.type === "Replace" && isObject(part.pattern) && part.pattern.String === " " && part.content === SPACE;
  const normalizers = normalizer?.type === "Sequence" ? (normalizer.normalizers as TokenizerPart[]) : [normalizer];
  const [prepend, replace] = normalizers;
  // Words are cut at spaces that are no longer there.
  const splitsAtSpaces =
    preTokenizer?.type === "Split" && isObject(preTokenizer.pattern) && preTokenizer.pattern.String === " ";
  if (preTokenizer === undefined || splitsAtSpaces) {
    if (normalizers.length === 1 && isReplacement(prepend)) return false;
    const prepends = prepend?.type === "Prepend" && prepend.prepend === SPACE;
    return normalizers.length === 2 && prepends && isReplacement(replace) ? true : undefined;
  }
  const { type, replacement = SPACE, split } = preTokenizer;
  if (type !== "Metaspace" || replacement !== SPACE || split !== false || normalizer !== undefined) return undefined;
  const scheme = preTokenizer.add_prefix_space === false ? "never" : (preTokenizer.prepend_scheme ?? "always");
  return scheme !== "never";
}

/** SentencePiece merges the pair that makes the token with the highest score: the earlier merged, the higher. */
function sentencePiece(parts: TokenizerParts, where: string, merged?: "gemma4"): Kind {
  const prefix = spacePrefix(parts);
  if (prefix === undefined) {
    throw refuse(where, "its tokenizer changes texts before it merges characters, unlike llama.cpp");
  }
  if (merged)
    return { model: merged, score: () => -1000, entries: [mergesOf(parts), ["add_space_prefix", bool(prefix)]] };
  const rank = new Map<string, number>();
  let previous = "";
  let repeated = 0;
  for (const merge of parts.model.merges as (string | [string, string])[]) {
    const token = typeof merge === "string" ? merge.replace(" ", "") : merge.join("");
    if (token === previous) continue;
    if (rank.has(token)) repeated++;
    else rank.set(token, rank.size);
    previous = token;
  }
  if (repeated > rank.size / 100) {
    throw refuse(where, "its merges are not in the order of tokens, as those of SentencePiece are");
  }
  return {
    model: "llama",
    pre: "default",
    score: (token, id) => -(rank.get(token) ?? rank.size + id),
    entries: [["add_space_prefix", bool(prefix)]],
  };
}

function unigram(parts: TokenizerParts, where: string): Kind {
  const { model, normalizer, preTokenizer } = parts;
  if (model.byte_fallback === true) throw refuse(where, "llama.cpp has no Unigram tokenizer with byte tokens");
  const normalizers = normalizer?.type === "Sequence" ? (normalizer.normalizers as TokenizerPart[]) : [normalizer];
  const charsmap = normalizers.find((part) => part?.type === "Precompiled")?.precompiled_charsmap;
  const isSpaces = (part: TokenizerPart | undefined) =>
    part?.type === "Replace" && isObject(part.pattern) && part.pattern.Regex === " {2,}";
  const others = normalizers.filter((part) => part && part.type !== "Precompiled");
  const strips = others.some((part) => part?.type === "Strip");
  if (others.some((part) => !isSpaces(part) && part?.type !== "Strip") || (strips && !others.some(isSpaces))) {
    throw refuse(where, `llama.cpp does not normalize texts as its tokenizer does (${brief(normalizer)})`);
  }
  const splitters =
    preTokenizer?.type === "Sequence" ? (preTokenizer.pretokenizers as TokenizerPart[]) : [preTokenizer];
  const isInWords = splitters.length === 2 && splitters[0]?.type === "WhitespaceSplit";
  const metaspace = splitters.at(-1);
  // SentencePiece's tables make line breaks and tabs spaces.
  const isTable = typeof charsmap === "string";
  if (metaspace?.type !== "Metaspace" || splitters.length !== (isInWords ? 2 : 1) || (isInWords && !isTable)) {
    throw refuse(where, `llama.cpp does not split texts as its tokenizer does (${brief(preTokenizer)})`);
  }
  const scores = (model.vocab as [string, number][]).map(([, score]) => score);
  const prefix = metaspace.add_prefix_space !== false && metaspace.prepend_scheme !== "never";
  return {
    model: "t5",
    pre: "default",
    notes: [
      ...(strips && !isTable ? ["llama.cpp keeps line breaks at the end of a text, unlike this tokenizer"] : []),
      ...(!strips && others.some(isSpaces)
        ? ["llama.cpp drops spaces at the end of a text, unlike this tokenizer"]
        : []),
    ],
    score: (_, id) => scores[id] ?? 0,
    entries: [
      ["add_space_prefix", bool(prefix)],
      ["remove_extra_whitespaces", bool(isInWords || others.some(isSpaces))],
      ...(isTable
        ? [
            [
              "precompiled_charsmap",
              { type: "array", of: "u8", value: Uint8Array.from(Buffer.from(charsmap, "base64")) },
            ] as [string, MetadataValue],
          ]
        : []),
    ],
  };
}

function unknownId({ model, vocabulary }: TokenizerParts): number | undefined {
  if (model.type !== "Unigram") return vocabulary.get(String(model.unk_token));
  return typeof model.unk_id === "number" ? model.unk_id : undefined;
}

interface Token {
  readonly text: string;
  readonly type: number;
  readonly score: number;
}

function tokensOf(parts: TokenizerParts, kind: Kind, size: number, beyond: ReadonlySet<number>): Token[] {
  const { vocabulary, added } = parts;
  const tokens = Array.from(
    { length: size },
    (_, id): Token => ({ text: `[PAD${id}]`, type: TYPE.unused, score: -1e4 }),
  );
  const unknown = unknownId(parts);
  for (const [token, id] of vocabulary) {
    if (beyond.has(id)) continue;
    const isByte = kind.model !== "gpt2" && /^<0x[0-9A-F]{2}>$/.test(token);
    const isUnknown = id === unknown && kind.model !== "gpt2" && kind.model !== "gemma4";
    const type = isByte ? TYPE.byte : isUnknown ? TYPE.unknown : TYPE.normal;
    tokens[id] = { text: token, type, score: kind.score?.(token, id) ?? 0 };
  }
  for (const { id, content, special } of added) {
    if (tokens[id]?.type === TYPE.unknown || beyond.has(id)) continue;
    const isControl = (special || looksSpecial(content)) && !(kind.model === "gemma4" && VISIBLE.has(content));
    // llama.cpp matches these in the text before it replaces spaces.
    const shown = isControl || kind.model === "gpt2" ? content : content.replaceAll(SPACE, " ");
    tokens[id] = { text: shown, type: isControl ? TYPE.control : TYPE.userDefined, score: -1000 };
  }
  return tokens;
}

/**
 * `general.name`. llama.cpp strips the space after Phi-3's special tokens in models of that name, and cannot load one that
 * lacks these tokens.
 */
export function modelName(name: string, { added, vocabulary }: TokenizerParts): string {
  const has = (token: string) => vocabulary.has(token) || added.some(({ content }) => content === token);
  const isPhi3 = ["</s>", "<unk>", "<s>", "<|endoftext|>"].every(has);
  const isNamed = /phi-?3/i.test(name);
  if (isNamed) return isPhi3 ? name : name.replace(/phi-?3/gi, "phi 3");
  return isPhi3 && added.some(({ rstrip }) => rstrip) ? `${name} (phi-3)` : name;
}

/** Gemma 4's marks of thoughts and of calls, which llama.cpp's parser of answers reads. */
const VISIBLE = new Set([
  ...["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>'],
]);

/** Tokens that some models do not mark as special, by llama.cpp's converter (does_token_look_special). */
function looksSpecial(token: string): boolean {
  return (
    ["<pad>", "<mask>", "<2mass>", "[@BOS@]"].includes(token) ||
    /^<\|.*\|>$/s.test(token) ||
    /^<｜.*｜>$/s.test(token) ||
    /^<unused.*>$/s.test(token)
  );
}

function refuse(where: string, reason: string): CheckpointError {
  return new CheckpointError(`${where} cannot be exported as GGUF: ${reason}.`, { file: where });
}

function brief(part: TokenizerPart | undefined): string {
  const json = JSON.stringify(part ?? null);
  return json.length > 120 ? `${json.slice(0, 117)}...` : json;
}
