// Which part of a rendered conversation the model is to write: spans of text, and the tokens in them, for training.
// Not the {% generation %} marks of a template, which few templates have.
import { CheckpointError } from "../../core/index.js";
import { type ChatMessage, type ChatTemplate, type RenderOptions, TemplateError } from "./chat-template.js";
import { TextStream } from "./stream.js";
import type { Tokenizer } from "./tokenizer.js";
import { isSpace } from "./unicode.js";

/** Where a reply stands; all positions are of UTF-16 units, as in JavaScript strings. */
export interface ReplySpan {
  /** Number of the message. */
  readonly message: number;
  /** Where its content starts. */
  readonly start: number;
  /** Where its content ends. */
  readonly end: number;
  /** Where the mark that ends the turn ends, such as `<|im_end|>`: `end` where there is none. Blanks after it are left out. */
  readonly turnEnd: number;
}

export interface RenderedReplies {
  readonly text: string;
  readonly replies: readonly ReplySpan[];
}

/**
 * Renders a conversation and says where the replies stand in it.
 *
 * A reply is found by rendering the conversation up to it a second time with other words in its place: what differs is
 * its content. That a model sees, when it is asked, what it was trained on, takes a template that renders the beginning
 * of a conversation as the beginning of its text; one that does not (some cut thoughts from earlier replies) is refused.
 * @param options.role whose messages are replies; default "assistant"
 * @param options.which all replies, or the last one; default "all"
 * @throws {TemplateError} if the template does not render so, changes more of a reply than the blanks around it, or
 *   refuses the messages.
 */
export function renderWithSpans(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  options: Omit<RenderOptions, "addGenerationPrompt"> & { role?: string; which?: "all" | "last" } = {},
): RenderedReplies {
  const { role = "assistant", which = "all", ...others } = options;
  // One time for all renderings, so that they differ in the reply only.
  const fixed: RenderOptions = { ...others, now: others.now ?? new Date() };
  const text = template.render(messages, fixed);
  const last = messages.findLastIndex((message) => message.role === role);
  const replies = messages.flatMap((message, index): ReplySpan[] => {
    if (message.role !== role || (which === "last" && index !== last)) return [];
    const before = index === 0 ? "" : template.render(messages.slice(0, index), fixed);
    const whole = template.render(messages.slice(0, index + 1), fixed);
    if (!text.startsWith(before) || !text.startsWith(whole)) {
      throw new TemplateError(
        `the chat template renders the first ${index + 1} messages differently when more follow, so the model would ` +
          "not be trained on what it sees when asked; use a template that does not, or the last reply only",
      );
    }
    const { start, end } = contentSpan(template, messages.slice(0, index), message, { whole, fixed });
    if (start < before.length) {
      throw new TemplateError(`the chat template puts reply ${index} before the messages that it answers`);
    }
    return [{ message: index, start, end, turnEnd: end + whole.slice(end).trimEnd().length }];
  });
  return { text, replies };
}

/** Where the content of a message stands in the text that ends with it. */
function contentSpan(
  template: ChatTemplate,
  before: readonly ChatMessage[],
  message: ChatMessage,
  { whole, fixed }: { whole: string; fixed: RenderOptions },
): { start: number; end: number } {
  const { content } = message;
  const bare = content.trim();
  // Must differ from the content in its first and its last letter, whether blanks are trimmed or not.
  const letter = (...taken: (string | undefined)[]) => ["q", "z", "x"].find((one) => !taken.includes(one)) ?? "q";
  const stand = `${letter(content[0], bare[0])}uiet ${letter(content.at(-1), bare.at(-1))}`;
  const other = template.render([...before, { ...message, content: stand }], fixed);
  let start = 0;
  while (start < whole.length && whole[start] === other[start]) start++;
  let after = 0;
  const room = Math.min(whole.length, other.length) - start;
  while (after < room && whole.at(-1 - after) === other.at(-1 - after)) after++;
  const end = whole.length - after;
  const found = whole.slice(start, end);
  if (![content, bare, content.trimStart(), content.trimEnd()].includes(found)) {
    throw new TemplateError(
      `the chat template renders the reply ${JSON.stringify(content.slice(0, 40))} as ` +
        `${JSON.stringify(found.slice(0, 40))}, so what of it is the model's is not known`,
    );
  }
  return { start, end };
}

/** Tokens of a text, and which of them stand in a span of it. */
export interface MaskedTokens {
  readonly ids: number[];
  /** For each id, whether any of its text is in a span. */
  readonly inside: boolean[];
}

/**
 * Encodes a rendered conversation, and says which tokens belong to the replies: to their content and to the mark that
 * ends the turn, so that a model learns to stop.
 *
 * Tokens are placed by decoding them one at a time beside the text. Blanks may differ, as tokenizers add and drop some.
 * @param options.ends whether the marks that end turns count; default true
 * @throws {CheckpointError} if the tokenizer changes the text otherwise, such as its letters' case or normal form.
 */
export function encodeReplies(
  tokenizer: Tokenizer,
  { text, replies }: RenderedReplies,
  options: { ends?: boolean } = {},
): MaskedTokens {
  const ids = tokenizer.encode(text);
  const spans = replies.map(({ start, end, turnEnd }) => [start, options.ends === false ? end : turnEnd] as const);
  let next = 0;
  const inside = placesOf(tokenizer, ids, text).map(([from, to]) => {
    while (next < spans.length && (spans[next]?.[1] ?? 0) <= from) next++;
    const [start, end] = spans[next] ?? [0, 0];
    return from < end && to > start;
  });
  return { ids, inside };
}

/** The stretch of a text that each of its tokens is of, at least one unit long. */
function placesOf(tokenizer: Tokenizer, ids: readonly number[], text: string): [from: number, to: number][] {
  const places: [number, number][] = [];
  const stream = new TextStream(tokenizer);
  let at = 0;
  // A token whose text is held back is a byte of what comes next, or part of its first character.
  let held: number[] = [];
  const place = (tokens: readonly number[], piece: string) => {
    const positions = follow(text, at, piece);
    const bytes = bytesOf(piece);
    let byte = 0;
    for (const [i, id] of tokens.entries()) {
      const isByte = BYTE_TOKEN.test(tokenizer.tokenOf(id) ?? "");
      const [first, last] = isByte
        ? (bytes[byte++] ?? [0, 0])
        : [bytes[byte]?.[0] ?? 0, i === tokens.length - 1 ? piece.length : 0];
      const from = positions[first] ?? at;
      // A token may end with the first bytes of a character that is not complete, and so not given yet.
      const isCut = !isByte && last > 0 && !piece.endsWith(CUT) && tokenizer.decode([id]).endsWith(CUT);
      places.push([from, Math.max((positions[last] ?? at) + (isCut ? 1 : 0), from + 1)]);
    }
    at = positions.at(-1) ?? at;
  };
  for (const id of ids) {
    held.push(id);
    const piece = stream.push(id);
    if (piece === "") continue;
    place(held, piece);
    held = [];
  }
  place(held, stream.end());
  if (text.slice(at).trim() !== "") throw changed(text, at);
  return places;
}

// What the bytes of half a character decode to.
const CUT = "\ufffd";

// How vocabularies write the bytes that stand for characters they lack.
const BYTE_TOKEN = /^<0x[0-9A-F]{2}>$/;

/** For each byte of a text in UTF-8, where its character starts and ends, in UTF-16 units. */
function bytesOf(text: string): [start: number, end: number][] {
  const bytes: [number, number][] = [];
  let start = 0;
  for (const character of text) {
    const end = start + character.length;
    for (let i = 0; i < Buffer.byteLength(character); i++) bytes.push([start, end]);
    start = end;
  }
  return bytes;
}

/** The place in a text of each unit of what its tokens decode to, and of the end; blanks may be added and dropped. */
function follow(text: string, from: number, piece: string): number[] {
  const positions: number[] = [];
  let at = from;
  for (const unit of piece.split("")) {
    const isAdded = unit === " " && text[at] !== " ";
    if (!isAdded) while (at < text.length && text[at] !== unit && isSpace(text[at])) at++;
    if (!isAdded && text[at] !== unit) throw changed(text, at);
    positions.push(at);
    if (!isAdded) at++;
  }
  return [...positions, at];
}

function changed(text: string, at: number): CheckpointError {
  return new CheckpointError(
    `the tokenizer changes the text at ${JSON.stringify(text.slice(at, at + 20))}, so its tokens cannot be placed; ` +
      "normalize the text as the tokenizer does (often NFC) before it is rendered",
  );
}
