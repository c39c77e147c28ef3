// Tokens of a Jinja template with trim_blocks and lstrip_blocks, as lexer.py of Jinja 3.1 makes them.

/** An error in the source. */
export class SyntaxProblem extends Error {}

export type TokenType =
  | "data"
  | "name"
  | "string"
  | "integer"
  | "float"
  | "operator"
  | "blockStart"
  | "blockEnd"
  | "printStart"
  | "printEnd"
  | "end";

export interface Token {
  readonly type: TokenType;
  /** The text of data and strings without escapes; of others as written. */
  readonly text: string;
  readonly line: number;
}

const SPACE = "[\\p{White_Space}\\x1c-\\x1f]";
const OPENING = /\{[%{#]/g;
const RAW_START = new RegExp(`\\{%[-+]?${SPACE}*raw${SPACE}*(-?)%\\}`, "uy");
const RAW_END = new RegExp(`\\{%([-+]?)${SPACE}*endraw${SPACE}*([-+]?)%\\}`, "gu");
const COMMENT_END = /([-+]?)#\}/g;
const BLANK = new RegExp(`${SPACE}+`, "uy");
const FLOAT = /(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy;
const INTEGER = /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy;
const NAME = /[\p{ID_Start}_][\p{ID_Continue}]*/uy;
const STRING = /'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*"/sy;
const OPERATOR = /\/\/|\*\*|[=!<>]=|[-+/*%~[\](){}<>=.:|,;]/y;
const PAIRS: Readonly<Record<string, string>> = { "{": "}", "(": ")", "[": "]" };

function matchAt(pattern: RegExp, source: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(source);
}

/** @throws SyntaxProblem */
export function tokenize(template: string): Token[] {
  // Jinja drops one line end at the end of a template.
  const source = template.replace(/\r\n?/g, "\n").replace(/\n$/, "");
  const tokens: Token[] = [];
  let at = 0;
  let line = 1;
  let startsLine = true;

  const push = (type: TokenType, text: string): void => void tokens.push({ type, text, line });
  const advance = (to: number): void => {
    for (let i = at; i < to; i++) if (source[i] === "\n") line++;
    startsLine = source[to - 1] === "\n";
    at = to;
  };
  /** Skips what a tag's end removes: all white space after a minus, the line end after a block unless it has a plus. */
  const advanceAfter = (to: number, sign: string, trims: boolean): void => {
    if (sign === "-") advance(to + (matchAt(BLANK, source, to)?.[0].length ?? 0));
    else advance(trims && sign === "" && source[to] === "\n" ? to + 1 : to);
  };
  const pushText = (end: number, sign: string, strips: boolean): void => {
    let text = source.slice(at, end);
    if (sign === "-") text = text.slice(0, text.length - trailingSpace(text));
    else if (sign === "" && strips) {
      const lineStart = text.lastIndexOf("\n") + 1;
      const isBlank = trailingSpace(text.slice(lineStart)) === text.length - lineStart;
      if ((lineStart > 0 || startsLine) && isBlank) text = text.slice(0, lineStart);
    }
    if (text !== "") push("data", text);
    advance(end);
  };

  while (at < source.length) {
    const opening = matchAt(OPENING, source, at)?.index ?? -1;
    if (opening === -1) {
      push("data", source.slice(at));
      break;
    }
    const mark = source[opening + 1];
    const signAt = source[opening + 2] ?? "";
    const sign = signAt === "-" || signAt === "+" ? signAt : "";
    pushText(opening, sign, mark !== "{");
    const raw = mark === "%" ? matchAt(RAW_START, source, at) : null;
    if (raw) {
      advanceAfter(at + raw[0].length, raw[1] ?? "", false);
      const end = matchAt(RAW_END, source, at);
      if (!end) throw new SyntaxProblem(`line ${line}: raw has no endraw`);
      pushText(end.index, end[1] ?? "", true);
      advanceAfter(end.index + end[0].length, end[2] ?? "", true);
      continue;
    }
    if (mark === "#") {
      const end = matchAt(COMMENT_END, source, opening + 2);
      if (!end) throw new SyntaxProblem(`line ${line}: a comment has no end`);
      advanceAfter(end.index + end[0].length, end[1] ?? "", true);
      continue;
    }
    advance(opening + 2 + sign.length);
    push(mark === "{" ? "printStart" : "blockStart", "");
    lexTag(mark === "{" ? "}}" : "%}");
  }
  push("end", "");
  return tokens;

  /** Reads the tokens of a tag and its end. */
  function lexTag(closing: string): void {
    const open: string[] = [];
    const isBlock = closing === "%}";
    for (;;) {
      const sign = /[-+]/.test(source[at] ?? "") ? (source[at] ?? "") : "";
      const signed = sign === "+" && !isBlock ? "" : sign;
      if (open.length === 0 && source.startsWith(closing, at + signed.length)) {
        push(isBlock ? "blockEnd" : "printEnd", "");
        advanceAfter(at + signed.length + 2, signed, isBlock);
        return;
      }
      const blank = matchAt(BLANK, source, at);
      if (blank) {
        advance(at + blank[0].length);
        continue;
      }
      const [type, text] = nextToken();
      if (type === "operator") {
        if (PAIRS[text] !== undefined) open.push(PAIRS[text]);
        else if (/[})\]]/.test(text) && open.pop() !== text)
          throw new SyntaxProblem(`line ${line}: unexpected '${text}'`);
      }
      push(type, type === "string" ? unescapeText(text.slice(1, -1), line) : text);
      advance(at + text.length);
    }
  }

  function nextToken(): [TokenType, string] {
    const number = source[at - 1] === "." ? null : matchAt(FLOAT, source, at);
    if (number) return ["float", number[0]];
    for (const [type, pattern] of [
      ["integer", INTEGER],
      ["name", NAME],
      ["string", STRING],
      ["operator", OPERATOR],
    ] as const) {
      const found = matchAt(pattern, source, at);
      if (found) return [type, found[0]];
    }
    const found = at < source.length ? `unexpected character ${JSON.stringify(source[at])}` : "a tag has no end";
    throw new SyntaxProblem(`line ${line}: ${found}`);
  }
}

const LAST_SPACE = new RegExp(SPACE, "u");

/** Number of units of white space at the end. */
function trailingSpace(text: string): number {
  let end = text.length;
  while (end > 0 && LAST_SPACE.test(text[end - 1] ?? "")) end--;
  return text.length - end;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "\n": "",
  a: "\x07",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
  "\\": "\\",
  "'": "'",
  '"': '"',
};

/** The text of a Python string literal. */
function unescapeText(text: string, line: number): string {
  const pattern = /\\(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3})|(.))/gs;
  return text.replace(pattern, (whole, x?: string, u?: string, long?: string, octal?: string, other?: string) => {
    const hex = x ?? u ?? long;
    const code = hex !== undefined ? Number.parseInt(hex, 16) : Number.parseInt(octal ?? "", 8);
    if (!Number.isNaN(code)) {
      if (code <= 0x10ffff) return String.fromCodePoint(code);
    } else if (other !== undefined && !/[xuUN]/.test(other)) return ESCAPES[other] ?? whole;
    throw new SyntaxProblem(`line ${line}: ${whole} is not a character`);
  });
}
