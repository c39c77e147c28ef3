// Foreign text on a terminal: it must not move the cursor, hide text or change the window's title.
import { stripVTControlCharacters } from "node:util";

/** The rest of the escape sequences that layergraft prints, with picocolors and in heatmaps. */
const STYLE = /\[(?:[0-4]|2[1-4]|3\d|9[0-7]|48;2(?:;\d{1,3}){4})m/y;

/** Streams whose last text did not end its line. */
const midLine = new WeakSet<NodeJS.WritableStream>();

/**
 * Prints text. Everything that a process of layergraft prints passes here, as names, answers and messages may have control
 * characters.
 */
export function write(stream: NodeJS.WritableStream, text: string): void {
  stream.write(visible(text, { styles: true }));
  if (text === "") return;
  if (text.endsWith("\n")) midLine.delete(stream);
  else midLine.add(stream);
}

/** Ends the line of a stream, such as of an answer that was interrupted; does nothing where it has ended. */
export function endLine(stream: NodeJS.WritableStream): void {
  if (midLine.has(stream)) write(stream, "\n");
}

/** Columns of a terminal; Infinity for a file or a pipe, whose lines stay whole. */
export const widthOf = (stream: NodeJS.WriteStream = process.stdout): number =>
  stream.isTTY === true && stream.columns > 0 ? stream.columns : Number.POSITIVE_INFINITY;

/** Lines of a text that are broken between words; a longer word has a line of its own. @param width in columns */
export function wrapped(text: string, width = widthOf()): string[] {
  const lines: string[] = [];
  for (const paragraph of text.split("\n")) {
    const indent = /^ */.exec(paragraph)?.[0] ?? "";
    let line = "";
    for (const word of paragraph.slice(indent.length).split(" ")) {
      const longer = line === "" ? indent + word : `${line} ${word}`;
      if (line !== "" && stripVTControlCharacters(longer).length > width) {
        lines.push(line);
        line = indent + word;
      } else line = longer;
    }
    lines.push(line);
  }
  return lines;
}

export function shellQuote(word: string): string {
  return /^[\p{L}\p{N}_@%+=:,./-]+$/u.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/**
 * Text with control and text-direction characters as symbols; line breaks and tabs stay.
 * @param options.styles keep the styles that layergraft prints; default false
 */
export function visible(text: string, options: { readonly styles?: boolean } = {}): string {
  return text.replace(/\r\n|(?![\n\t])[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, (char, at: number) => {
    STYLE.lastIndex = at + 1;
    if (char === "\r\n" || (options.styles && char === "\u001b" && STYLE.test(text))) return char;
    const code = char.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? "\u2421" : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}
