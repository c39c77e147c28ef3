// Calls of tools in an answer, in the formats that chat templates teach.

import { randomInt } from "node:crypto";
import { isObject, own } from "../kit/index.js";
import { parseWritten, stringifyWritten, WrittenNumber, withWritten } from "../kit/numbers/index.js";
import { overlap } from "../text/index.js";

export interface ToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

/** JSON Schemas of the arguments of the tools that may be called, by name; undefined: any. */
export type Tools = ReadonlyMap<string, unknown>;

/** A call as the model wrote it. */
interface WrittenCall {
  readonly name: unknown;
  readonly arguments: unknown;
}

export interface CallFormat {
  /** What calls begin with. */
  readonly mark: string;
  /** Whether an answer with calls begins with the mark. */
  readonly isFirst?: boolean;
  /** Whether the mark is a special token, which texts otherwise leave out. */
  readonly isSpecial?: boolean;
  /** The calls of a text from the first mark on, and what is not part of them. @throws SyntaxError */
  read(text: string, tools: Tools): { readonly calls: readonly WrittenCall[]; readonly rest: string };
}

/** `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` of Hermes and Qwen. */
const TAGGED: CallFormat = {
  mark: "<tool_call>",
  read: (text) => {
    const calls: WrittenCall[] = [];
    // The tag may be in a string of the arguments, too.
    const rest = text.replace(/<tool_call>((?:"(?:[^"\\]|\\.)*"|[^"])*?)(?:<\/tool_call>|$)/gs, (_, call: string) => {
      calls.push(parseWritten(call) as WrittenCall);
      return "";
    });
    return { calls, rest };
  },
};

/** `<tool_call><function=NAME><parameter=NAME>VALUE</parameter></function></tool_call>` of Qwen3-Coder, Qwen 3.5 and Nemotron 3. */
const XML: CallFormat = {
  mark: "<tool_call>",
  read: (text, tools) => {
    const calls: WrittenCall[] = [];
    const call = /<tool_call>\s*<function=([^>\n]+)>(.*?)<\/function>\s*(?:<\/tool_call>|$)/gs;
    const rest = text.replace(call, (_, name: string, body: string) => {
      const given: [string, unknown][] = [];
      // A value may have the tag in it, which another tag then does not follow.
      const parameter = /<parameter=([^>\n]+)>\n?(.*?)\n?<\/parameter>(?=\s*(?:<parameter=|$))/gs;
      const other = body.replace(parameter, (_, key: string, value: string) => {
        given.push([key, argumentOf(value, propertyOf(tools.get(name), key))]);
        return "";
      });
      if (other.trim() !== "") throw new SyntaxError("not parameters");
      calls.push({ name, arguments: Object.fromEntries(given) });
      return "";
    });
    return { calls, rest };
  },
};

/** As Python writes them, which templates print. */
const PYTHON: ReadonlyMap<string, unknown> = new Map([
  ["True", true],
  ["False", false],
  ["None", null],
]);

/** A value that is written without quotes: text where the schema allows text or says nothing, otherwise JSON if it is that. */
function argumentOf(text: string, schema: unknown): unknown {
  const types = typesIn(schema);
  if (types.includes("string") || (types.length === 0 && !(isObject(schema) && "$ref" in schema))) return text;
  if (PYTHON.has(text)) return PYTHON.get(text);
  try {
    return parseWritten(text);
  } catch {
    return text;
  }
}

function propertyOf(schema: unknown, key: string): unknown {
  return isObject(schema) && isObject(schema.properties) ? own(schema.properties, key) : undefined;
}

function typesIn(schema: unknown): unknown[] {
  if (!isObject(schema)) return [];
  const variants = [schema.anyOf, schema.oneOf].flat().filter(isObject);
  return [...[schema.type].flat(), ...variants.flatMap(({ type }) => type)].filter((type) => type !== undefined);
}

/** `[TOOL_CALLS][{"name": ..., "arguments": {...}}]` of Mistral, and `[TOOL_CALLS]name[ARGS]{...}` of its later models. */
const MISTRAL: CallFormat = {
  mark: "[TOOL_CALLS]",
  isSpecial: true,
  read: (text) => {
    const calls = text.split("[TOOL_CALLS]").flatMap((part): WrittenCall[] => {
      const call = part.trim();
      if (call === "") return [];
      if (call.startsWith("[")) return parseWritten(call) as WrittenCall[];
      const open = call.indexOf("{");
      const [name] = call.slice(0, open).split(/\[(?:ARGS|CALL_ID)\]/);
      return [{ name: name?.trim(), arguments: parseWritten(call.slice(open)) }];
    });
    return { calls, rest: "" };
  },
};

const bare = (field: "parameters" | "arguments"): CallFormat => ({
  mark: "{",
  isFirst: true,
  read: (text) => {
    const { name, [field]: given } = parseWritten(text) as WrittenCall & { readonly parameters?: unknown };
    return { calls: [{ name, arguments: given }], rest: "" };
  },
});

/** `{"name": ..., "parameters": {...}}` of Llama 3. */
const LLAMA = bare("parameters");
/** What `tool_choice` limits answers to. */
export const FORCED_CALL = bare("arguments");

/** The format that a chat template teaches; undefined if it is not one of these. */
export function callFormatOf(template: string): CallFormat | undefined {
  if (template.includes("<parameter=")) return template.includes(XML.mark) ? XML : undefined;
  if (template.includes(TAGGED.mark)) return TAGGED;
  if (template.includes(MISTRAL.mark)) return MISTRAL;
  return template.includes('"parameters": dictionary') ? LLAMA : undefined;
}

/** Separates the calls of an answer from its text as it grows. */
export class CallReader {
  readonly #format: CallFormat;
  readonly #tools: Tools;
  readonly #maxCalls: number;
  #held = "";
  #isOpen = false;
  #isBegun = false;

  /** @param maxCalls most calls */
  constructor(format: CallFormat, tools: Tools, maxCalls: number) {
    this.#format = format;
    this.#tools = tools;
    this.#maxCalls = maxCalls;
  }

  /** @returns text that is certainly not part of a call, nor white space before one */
  push(text: string): string {
    this.#held += text;
    if (this.#isOpen) return "";
    const { mark, isFirst = false } = this.#format;
    const begin = this.#held.length - this.#held.trimStart().length;
    const at = isFirst ? (!this.#isBegun && this.#held.startsWith(mark, begin) ? begin : -1) : this.#held.indexOf(mark);
    this.#isOpen = at >= 0;
    const end = at >= 0 ? at : this.#held.length - (isFirst ? 0 : overlap(this.#held, mark));
    const certain = this.#held.slice(0, end).trimEnd();
    if (certain !== "") this.#isBegun = true;
    this.#held = this.#held.slice(certain.length);
    return certain;
  }

  /** The rest of the answer: its calls, or all of its text if they are not calls of the tools. */
  end(): { readonly text: string; readonly calls: readonly ToolCall[] } {
    const asText = { text: this.#held, calls: [] };
    if (!this.#isOpen) return asText;
    try {
      const { calls, rest } = this.#format.read(this.#held.trim(), this.#tools);
      if (calls.length === 0 || !calls.every((call) => this.#isCall(call))) return asText;
      return {
        text: rest.trimEnd(),
        calls: calls.slice(0, this.#maxCalls).map((call) => toolCallOf(call, this.#tools)),
      };
    } catch (error) {
      if (error instanceof SyntaxError) return asText;
      throw error;
    }
  }

  #isCall(call: unknown): boolean {
    return isObject(call) && this.#tools.has(String(call.name)) && isObject(call.arguments);
  }
}

const ID_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Arguments as the model wrote them, but 2.0 as 2 where a whole number is asked for: clients in typed languages refuse it. */
function argumentsOf({ name, arguments: given }: WrittenCall, tools: Tools): string {
  const written = withWritten(Object(given));
  for (const [key, value] of Object.entries(written)) {
    const types = typesIn(propertyOf(tools.get(String(name)), key));
    const isWhole = types.includes("integer") && !types.includes("number") && Number.isSafeInteger(Number(value));
    if (value instanceof WrittenNumber && isWhole) written[key] = Number(value);
  }
  return stringifyWritten(written);
}

function toolCallOf(call: WrittenCall, tools: Tools): ToolCall {
  // Mistral's templates refuse ids of another length.
  const id = Array.from({ length: 9 }, () => ID_CHARACTERS[randomInt(ID_CHARACTERS.length)]).join("");
  return { id, type: "function", function: { name: String(call.name), arguments: argumentsOf(call, tools) } };
}
