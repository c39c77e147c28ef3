// One literal out of a Python source file: dictionaries and lists of strings and numbers, read as data and never
// executed. For data sets that are published as Python (MGSM's exemplars.py); not a Python parser.
import { dataError } from "./task-data.js";

const TOKEN =
  /\s+|#[^\n]*|(?<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?<number>-?\d+(?:\.\d+)?)|(?<sign>[{}[\]():,])/y;

/**
 * The value that a name is assigned to at the beginning of a line: an object, list, string or number.
 * @throws {LayergraftError} code "data" where the name is missing, or its value is something else
 */
export function parsePythonDictionary(source: string, name: string, file: string): unknown {
  const assignment = new RegExp(`^${name}\\s*=\\s*`, "m").exec(source);
  if (!assignment) throw dataError(`${file} does not assign ${name}`, { file });
  const tokens = tokenize(source, assignment.index + assignment[0].length);
  let ahead = tokens.next();
  const fail = (expected: string) =>
    dataError(`${file}: ${name} holds more than strings, numbers, lists and dictionaries (${expected} was expected)`, {
      file,
    });
  const take = (sign: string): boolean => {
    if (ahead.done || ahead.value.kind !== "sign" || ahead.value.text !== sign) return false;
    ahead = tokens.next();
    return true;
  };
  const list = <T>(end: string, item: () => T): T[] => {
    const items: T[] = [];
    while (!take(end)) {
      items.push(item());
      if (!take(",") && !(ahead.value && ahead.value.text === end)) throw fail(`, or ${end}`);
    }
    return items;
  };
  // Nesting of the published file is 3; a bound keeps a hostile one from filling the stack.
  const value = (depth: number): unknown => {
    if (depth > 20) throw fail("less nesting");
    if (take("{")) {
      const pairs = list("}", (): [string, unknown] => {
        const key = value(depth + 1);
        if (!take(":")) throw fail(":");
        return [String(key), value(depth + 1)];
      });
      return Object.fromEntries(pairs);
    }
    if (take("[")) return list("]", () => value(depth + 1));
    if (take("(")) {
      const inner = value(depth + 1);
      if (!take(")")) throw fail(")");
      return inner;
    }
    const token = ahead.value;
    if (!token || token.kind === "sign") throw fail("a value");
    ahead = tokens.next();
    if (token.kind === "number") return Number(token.text);
    let text = unquote(token.text);
    // Strings beside one another are one string.
    for (; ahead.value && ahead.value.kind === "string"; ahead = tokens.next()) text += unquote(ahead.value.text);
    return text;
  };
  return value(0);
}

interface Token {
  readonly kind: "string" | "number" | "sign";
  readonly text: string;
}

function* tokenize(source: string, from: number): Generator<Token, undefined> {
  const pattern = new RegExp(TOKEN);
  pattern.lastIndex = from;
  for (let match = pattern.exec(source); match; match = pattern.exec(source)) {
    const { string, number, sign } = match.groups ?? {};
    if (string !== undefined) yield { kind: "string", text: string };
    else if (number !== undefined) yield { kind: "number", text: number };
    else if (sign !== undefined) yield { kind: "sign", text: sign };
  }
  return undefined;
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", "\\": "\\", "'": "'", '"': '"' };

function unquote(literal: string): string {
  return literal
    .slice(1, -1)
    .replace(/\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{2})|(.))/g, (whole, u, long, x, other) => {
      const code = u ?? long ?? x;
      if (code === undefined) return ESCAPES[other] ?? whole;
      const point = Number.parseInt(code, 16);
      return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
    });
}
