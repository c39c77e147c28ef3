// Tokens to text, one token at a time: the decoders of a tokenizer.json as stages that hold back what may still change.
// Follows src/decoders of Hugging Face `tokenizers` (at 3ba8ad0), whose stages process all tokens at once.

import { BYTE_OF } from "../formats/vocabulary/index.js";
import { isObject } from "../kit/index.js";
import { FREE_GROWTH, MAX_GROWTH, makeReplacer } from "./guarded-expressions.js";
import { prependScheme } from "./pre-tokenizers.js";
import { CLEAN_UP, holdAll, replaceText, stripText, type TextStage } from "./text-stages.js";
import { characterField, countField, partsOf, problem, type TokenizerPart, textField } from "./tokenizer-json.js";

/** Decodes the tokens of one text, in order. */
export interface PieceDecoder {
  push(token: string): string;
  end(): string;
}

/** Changes tokens; may hold some back. */
interface TokenStage {
  push(token: string): readonly string[];
  end(): readonly string[];
}

/** The stages of a decoder, opened for every text. */
interface Plan {
  readonly tokens: (() => TokenStage)[];
  join: (() => PieceDecoder) | undefined;
  readonly texts: (() => TextStage)[];
}

/**
 * Reads the decoder of a tokenizer.json.
 * @param cleanUp whether to remove spaces before punctuation and contractions, as transformers may
 * @returns opens a decoder for one text
 * @throws CheckpointError if it is not valid or not supported
 */
export function planDecoder(part: TokenizerPart | undefined, cleanUp: boolean): () => PieceDecoder {
  const plan: Plan = { tokens: [], join: undefined, texts: [] };
  if (part) add(plan, part);
  // Without a decoder, tokens are separated by spaces.
  else plan.tokens.push(() => each((token, i) => (i === 0 ? token : ` ${token}`)));
  if (cleanUp) for (const [from, to] of CLEAN_UP) plan.texts.push(() => replaceText(from, to));
  const join = plan.join ?? concatenate;
  return () =>
    chain(
      plan.tokens.map((open) => open()),
      join(),
      plan.texts.map((open) => open()),
    );
}

function chain(stages: TokenStage[], join: PieceDecoder, texts: TextStage[]): PieceDecoder {
  let read = 0;
  let written = 0;
  // After every stage, as each may lengthen the output of the one before.
  const checkLength = (length: number) => {
    if (length > MAX_GROWTH * read + FREE_GROWTH) {
      throw problem(`its decoder makes more than ${length} characters of tokens with ${read}`, "decoder");
    }
  };
  /** Sends tokens through the stages from one on, and their text through all text stages. */
  const send = (tokens: readonly string[], from: number): string => {
    let current = tokens;
    for (const stage of stages.slice(from)) {
      current = current.flatMap((token) => stage.push(token));
      checkLength(current.reduce((sum, { length }) => sum + length, 0));
    }
    return write(current.map((token) => join.push(token)).join(""), 0);
  };
  const write = (text: string, from: number): string => {
    let current = text;
    for (const stage of texts.slice(from)) {
      current = current === "" ? "" : stage.push(current);
      checkLength(current.length);
    }
    return current;
  };
  return {
    push: (token) => {
      read += token.length;
      const text = send([token], 0);
      written += text.length;
      checkLength(written);
      return text;
    },
    end: () => {
      let text = "";
      for (const [i, stage] of stages.entries()) text += send(stage.end(), i + 1);
      text += write(join.end(), 0);
      for (const [i, stage] of texts.entries()) text += write(stage.end(), i + 1);
      return text;
    },
  };
}

function add(plan: Plan, part: TokenizerPart): void {
  if (part.type === "Sequence") {
    for (const each of partsOf(part.decoders, "decoders")) add(plan, each);
  } else if (plan.join) {
    addAfterJoin(plan, part);
  } else {
    addStage(plan, part);
  }
}

function addStage(plan: Plan, part: TokenizerPart): void {
  switch (part.type) {
    case "ByteLevel":
      plan.join = byteLevel;
      return;
    case "Fuse":
      plan.join = concatenate;
      return;
    case "ByteFallback":
      plan.tokens.push(byteFallback);
      return;
    case "Replace": {
      const replace = makeReplacer(part);
      plan.tokens.push(() => each(replace));
      return;
    }
    case "Metaspace": {
      const sign = characterField(part, "replacement", "▁");
      const drops = prependScheme(part) !== "never";
      plan.tokens.push(() => each((token, i) => token.replaceAll(sign, i === 0 && drops ? "" : " ")));
      return;
    }
    case "Strip": {
      const open = stripOf(part);
      plan.tokens.push(() =>
        each((token) => {
          const stage = open();
          return stage.push(token) + stage.end();
        }),
      );
      return;
    }
    default:
      throw problem(`its decoder ${part.type} is not supported`, "decoder");
  }
}

/** A decoder after the tokens are joined, which sees the whole text as one token. */
function addAfterJoin(plan: Plan, part: TokenizerPart): void {
  switch (part.type) {
    case "Fuse":
      return;
    case "Strip":
      plan.texts.push(stripOf(part));
      return;
    case "Replace": {
      const { pattern } = part;
      if (isObject(pattern) && typeof pattern.String === "string" && pattern.String !== "") {
        const from = pattern.String;
        const to = textField(part, "content");
        plan.texts.push(() => replaceText(from, to));
      } else {
        // Later text may extend or change the match of a regular expression.
        const replace = makeReplacer(part);
        plan.texts.push(() => holdAll(replace));
      }
      return;
    }
    default:
      throw problem(`its decoder ${part.type} after the tokens are joined is not supported`, "decoder");
  }
}

function stripOf(part: TokenizerPart): () => TextStage {
  const content = characterField(part, "content");
  const [start, stop] = [countField(part, "start"), countField(part, "stop")];
  return () => stripText(content, start, stop);
}

/** A stage that changes each token separately. */
function each(change: (token: string, index: number) => string): TokenStage {
  let index = 0;
  return { push: (token) => [change(token, index++)], end: () => [] };
}

/**
 * Tokens such as `<0xE0>` are bytes. A run of them is text if it is valid UTF-8, else one U+FFFD per byte, so a run is held
 * back until it ends.
 */
function byteFallback(): TokenStage {
  let run: number[] = [];
  const flush = (): string[] => {
    if (run.length === 0) return [];
    const bytes = Uint8Array.from(run);
    run = [];
    try {
      return [new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)];
    } catch {
      return Array.from(bytes, () => "\ufffd");
    }
  };
  return {
    push: (token) => {
      const byte = fallbackByte(token);
      if (byte === undefined) return [...flush(), token];
      run.push(byte);
      return [];
    },
    end: flush,
  };
}

function fallbackByte(token: string): number | undefined {
  const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(token)?.[1];
  return byte === undefined ? undefined : Number.parseInt(byte, 16);
}

/** The bytes of a token that is not whole characters, as the vocabulary writes it: `<0xE0>` or byte-level. */
export function bytesOfPart(token: string): Uint8Array {
  const byte = fallbackByte(token);
  return byte === undefined ? bytesOf(token) : Uint8Array.of(byte);
}

function concatenate(): PieceDecoder {
  return { push: (token) => token, end: () => "" };
}

/** The characters of tokens stand for bytes of UTF-8; a token with other characters is plain text. */
function byteLevel(): PieceDecoder {
  // ignoreBOM keeps U+FEFF, which is text here.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  return {
    push: (token) => decoder.decode(bytesOf(token), { stream: true }),
    end: () => decoder.decode(),
  };
}

function bytesOf(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  let length = 0;
  for (const character of token) {
    const byte = BYTE_OF.get(character);
    if (byte === undefined) return new TextEncoder().encode(token);
    bytes[length++] = byte;
  }
  return bytes;
}
