// A literal in a Python source file, read as data and never executed: MGSM's exemplars are published as exemplars.py.
import { dataError } from "./task-data.js";

const TOKEN =
  /\s+|#[^\n]*|(?<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?<number>-?\d+(?:\.\d+)?)|(?<sign>[{}[\]():,])/y;

/**
 * The dictionary or list that a name is assigned to at the beginning of a line, read by way of JSON.
 * @throws LayergraftError code "data" where the name is missing, or its value is something else
 */
export function parsePythonDictionary(source: string, name: string, file: string): unknown {
  const assignment = new RegExp(`^${name}\\s*=\\s*`, "m").exec(source);
  if (!assignment) throw dataError(`${file} does not assign ${name}`, { file });
  try {
    return JSON.parse(asJson(source, assignment.index + assignment[0].length));
  } catch (error) {
    const message = `${file}: ${name} is more than a dictionary or list of strings and numbers`;
    throw dataError(message, { file }, error);
  }
}

/**
 * The strings of a list that a text is.
 * @throws LayergraftError code "data" where it is something else
 */
export function parsePythonList(text: string, where: string): string[] {
  try {
    const list: unknown = JSON.parse(asJson(text.trim(), 0));
    if (Array.isArray(list)) return list.map(String);
  } catch {
    // Reported below.
  }
  throw dataError(`${where}: ${JSON.stringify(text.slice(0, 80))} is not a list as Python writes it`);
}

/** A Python literal as JSON, up to the bracket that ends it. */
function asJson(source: string, from: number): string {
  const parts: string[] = [];
  const token = new RegExp(TOKEN);
  token.lastIndex = from;
  let depth = 0;
  do {
    const groups = token.exec(source)?.groups;
    if (!groups) throw new SyntaxError("not a literal");
    const { string, number, sign } = groups;
    const last = parts.at(-1);
    if (string !== undefined) {
      // Strings beside one another are one string.
      const before = last?.startsWith('"') ? (JSON.parse(parts.pop() ?? "") as string) : "";
      parts.push(JSON.stringify(before + unquote(string)));
    } else if (number !== undefined) parts.push(number);
    else if (sign === ":" && !last?.startsWith('"')) parts.push(JSON.stringify(parts.pop()), ":");
    else if (sign === "," || sign === ":") parts.push(sign);
    else if (sign === "{" || sign === "[") {
      depth++;
      parts.push(sign);
    } else if (sign === "}" || sign === "]") {
      depth--;
      if (last === ",") parts.pop();
      parts.push(sign);
    }
  } while (depth > 0);
  return parts.join(" ");
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
