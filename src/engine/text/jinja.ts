// Parses Jinja templates with @huggingface/jinja 0.5, and fixes where it differs from Python's Jinja.
import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import { isSpace } from "./unicode.js";

/** A part of a parsed template; the package's own types do not resolve under NodeNext. */
interface Node {
  type: string;
  [field: string]: unknown;
}

export interface Program {
  render(scope: Readonly<Record<string, unknown>>): string;
}

/**
 * Parses a template with trim_blocks and lstrip_blocks, as transformers does.
 * @throws Error if it is not valid
 */
export function parseTemplate(source: string): Program {
  const program = fixNode(parse(tokenize(fixText(source), { trim_blocks: true, lstrip_blocks: true })) as Node);
  return {
    render: (scope) => {
      const environment = new Environment();
      environment.set(STRIP, strip);
      for (const [name, value] of Object.entries(scope)) environment.set(name, value);
      return new Interpreter(environment).run(program).value as string;
    },
  };
}

/** Unifies line ends, and writes white space that `{%+` and `+%}` keep as text, as the package does not support them. */
function fixText(source: string): string {
  return source
    .replace(/\r\n?/g, "\n")
    .replace(/\+%\}(\n?)/g, (_, line: string) => (line === "" ? "%}" : "%}{{ '\\n' }}"))
    .replace(/^([ \t]*)\{%\+/gm, (_, blanks: string) => (blanks === "" ? "{%" : `{{ '${blanks}' }}{%`));
}

// Templates cannot call it: a name with a dollar does not parse.
const STRIP = "strip$";

const SIDES: readonly unknown[] = ["strip", "lstrip", "rstrip"];

/**
 * Replaces `text.strip(characters)` and `text | trim(characters)` with our strip: the package ignores the characters, and
 * treats U+FEFF as white space.
 */
function fixNode(value: Node): Node;
function fixNode(value: unknown): unknown;
function fixNode(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item: unknown) => fixNode(item));
  if (value instanceof Map) return new Map([...value].map(([key, item]) => [fixNode(key), fixNode(item)]));
  if (!isNode(value)) return value;
  for (const [field, inner] of Object.entries(value)) value[field] = fixNode(inner);
  const { type, callee, filter } = value;
  if (type === "CallExpression" && isNode(callee) && callee.type === "MemberExpression" && callee.computed === false) {
    const { property, object } = callee;
    if (isNode(property) && SIDES.includes(property.value)) {
      return callStrip(object, String(property.value), value.args);
    }
  }
  if (type === "FilterExpression" && isNode(filter)) {
    const name = filter.type === "CallExpression" ? filter.callee : filter;
    if (isNode(name) && name.value === "trim") return callStrip(value.operand, "trim", filter.args ?? []);
  }
  return value;
}

function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof (value as Partial<Node>).type === "string";
}

function callStrip(text: unknown, side: string, args: unknown): Node {
  const [call] = (parse(tokenize(`{{ strip("${side}") }}`)) as { body: [Node] }).body;
  (call.callee as Node).value = STRIP;
  call.args = [...(call.args as Node[]), text, ...(args as Node[])];
  return call;
}

/** White space in Python (str.isspace): Unicode's, and the separators U+001C to U+001F. */
function isPythonSpace(unit: string): boolean {
  return isSpace(unit) || (unit >= "\u001c" && unit <= "\u001f");
}

/** Python's str.strip, lstrip and rstrip, and Jinja's filter trim. */
function strip(side: string, value: unknown, characters: unknown): string {
  if (typeof value !== "string") {
    if (side === "trim" && value === undefined) return "";
    throw new Error(`${side} takes a text`);
  }
  const units = [...value];
  const isStripped = (unit: string | undefined) =>
    unit !== undefined && (typeof characters === "string" ? characters.includes(unit) : isPythonSpace(unit));
  let start = 0;
  let end = units.length;
  if (side !== "rstrip") while (start < end && isStripped(units[start])) start++;
  if (side !== "lstrip") while (end > start && isStripped(units[end - 1])) end--;
  return units.slice(start, end).join("");
}
