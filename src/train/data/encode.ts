import { z } from "zod";
import { RecipeError } from "../../kit/index.js";
import type { Tokenizer } from "../../text/index.js";
import type { Example } from "./example.js";
import { compileTemplate, type LossOn, type PromptTemplate, type Span } from "./row-template.js";

/** Variables of chat templates, wherever a file may give them. */
export const templateVariables = z
  .record(z.string(), z.json())
  .optional()
  .describe("variables of the model's chat template, such as { enable_thinking: false }");

export const encodingFields = {
  template: z
    .string()
    .min(1)
    .default("auto")
    .describe(
      "auto: the model's chat template if it has one and the set has prompts, otherwise plain; plain; chat, which needs a chat template; or the text of a turn with {prompt} and {response}",
    ),
  chat_template_kwargs: templateVariables,
  too_long: z
    .enum(["cut", "drop"])
    .default("cut")
    .describe("an example longer than a sequence: cut its end, or leave it out"),
  bos: z.boolean().optional().describe("begin examples with BOS; default: if the tokenizer has one, and not with chat"),
  eos: z.boolean().optional().describe("end responses with EOS; default: yes, and not with chat"),
};

type EncodingFields = z.output<z.ZodObject<typeof encodingFields>>;

export interface EncodingOptions extends Partial<Omit<EncodingFields, "template" | "chat_template_kwargs">> {
  readonly tokenizer: Tokenizer;
  /** Default `"plain"`. */
  readonly template?: PromptTemplate | undefined;
  /** Most tokens of an example. */
  readonly sequenceLength: number;
  /** Which tokens are learned. Default: those of responses, with the tokens that end them. */
  readonly loss?: LossOn | undefined;
  /** The model's end tokens. Default: not known. */
  readonly endIds?: readonly number[] | undefined;
}

/** An example as the model sees it. */
export interface Encoded {
  /** [T] token ids. */
  readonly ids: Int32Array;
  /** [T] 1 where the token is predicted from those before it; never the first. */
  readonly loss: Uint8Array;
}

export interface EncodingResult {
  /** Undefined if the example is left out. */
  readonly encoded: Encoded | undefined;
  /** Tokens before the cut. */
  readonly length: number;
  readonly fate: "whole" | "cut" | "too long" | "prompt too long" | "nothing to learn";
  /** Whether what is learned ends in an end token, or these are not known. */
  readonly hasEnd: boolean;
}

/** A template may write a line break after the end token. */
const LAST_TOKENS = 3;

/**
 * How examples become tokens. A token across the border of a prompt and a response is learned.
 * @throws RecipeError if the tokenizer lacks BOS or EOS, or the template is not valid
 */
export function encoderOf(options: EncodingOptions): (example: Example) => EncodingResult {
  const { tokenizer, template = "plain", sequenceLength, loss, too_long: tooLong = "cut" } = options;
  const { write, hasOwnMarks } = compileTemplate(template, loss);
  const hasBos = options.bos ?? (!hasOwnMarks && tokenizer.bos !== undefined);
  const bos = hasBos ? required(tokenizer.bos, "bos", "begins a text") : undefined;
  const endIds = options.eos === false ? undefined : options.endIds;
  const hasEos = options.eos ?? !hasOwnMarks;
  const eos = hasEos ? required(tokenizer.eos, "eos", "ends a text, so the model cannot learn to stop") : undefined;
  return (example) => {
    const ids: number[] = [];
    const learned: number[] = [];
    const push = (id: number, isLearned: boolean) => {
      learned.push(ids.length > 0 && isLearned ? 1 : 0);
      ids.push(id);
    };
    if (bos !== undefined) push(bos, false);
    for (const { spans, end } of write(example)) {
      const part = encodeSpans(spans, tokenizer);
      const from = part.ids[0] === bos && ids.length === 1 ? 1 : 0;
      for (let i = from; i < part.ids.length; i++) push(part.ids[i] ?? 0, part.learned[i] ?? false);
      if (end !== undefined && eos !== undefined && part.ids.at(-1) !== eos) push(eos, end);
    }
    const { length } = ids;
    const isCut = length > sequenceLength;
    if (isCut && tooLong === "drop") return { encoded: undefined, length, fate: "too long", hasEnd: true };
    const mask = Uint8Array.from(learned.slice(0, sequenceLength));
    if (!mask.includes(1)) {
      const fate = isCut && learned.includes(1) ? "prompt too long" : "nothing to learn";
      return { encoded: undefined, length, fate, hasEnd: true };
    }
    const encoded = { ids: Int32Array.from(ids.slice(0, sequenceLength)), loss: mask };
    const hasEnd =
      isCut ||
      !endIds ||
      ids
        .filter((_, i) => learned[i])
        .slice(-LAST_TOKENS)
        .some((id) => endIds.includes(id));
    return { encoded, length, fate: isCut ? "cut" : "whole", hasEnd };
  };
}

function encodeSpans(spans: readonly Span[], tokenizer: Tokenizer): { ids: number[]; learned: boolean[] } {
  const text = spans.map((span) => span.text).join("");
  const ids = tokenizer.encode(text);
  const learned = new Array<boolean>(ids.length).fill(false);
  let end = 0;
  let from = 0; // token that the span begins in
  for (const span of spans) {
    end += span.text.length;
    const to = end === text.length ? ids.length : commonPrefix(ids, tokenizer.encode(text.slice(0, end)));
    if (span.isLearned) learned.fill(true, from, to);
    from = to;
  }
  return { ids, learned };
}

function required(id: number | undefined, field: string, what: string): number {
  if (id !== undefined) return id;
  throw RecipeError.at({ field }, `the tokenizer has no token that ${what}. Set ${field}: false to train without it.`);
}

function commonPrefix(a: readonly number[], b: readonly number[]): number {
  const most = Math.min(a.length, b.length);
  let length = 0;
  while (length < most && a[length] === b[length]) length++;
  return length;
}

export interface PreviewPiece {
  /** As the tokenizer decodes it, special tokens included. */
  readonly text: string;
  readonly loss: boolean;
  readonly tokens: number;
}

/**
 * The text of an encoded example in pieces that are learned or not. A character across two pieces is in the second.
 */
export function previewOf(encoded: Encoded, tokenizer: Tokenizer): PreviewPiece[] {
  const ids = [...encoded.ids];
  const pieces: PreviewPiece[] = [];
  let shown = "";
  for (let start = 0; start < ids.length; ) {
    const loss = encoded.loss[start] === 1;
    let end = start + 1;
    while (end < ids.length && (encoded.loss[end] === 1) === loss) end++;
    // Decoded from the beginning: tokenizers treat the first token of a text differently.
    const decoded = tokenizer.decode(ids.slice(0, end));
    const soFar = end < ids.length ? decoded.replace(/\uFFFD+$/, "") : decoded;
    const text = soFar.startsWith(shown) ? soFar.slice(shown.length) : tokenizer.decode(ids.slice(start, end));
    pieces.push({ text, loss, tokens: end - start });
    shown = soFar;
    start = end;
  }
  return pieces;
}
