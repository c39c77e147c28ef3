// Commands of layergraft in messages: whole lines that can be typed, with values quoted for a shell.
import { shellQuote } from "./terminal.js";

/**
 * A command line, such as `` commandLine`merge ${file} --out FOLDER` ``. Every line with arguments that is printed is made by it.
 * test/typed-lines.test.ts parses each.
 * @param values each is one word; a list is several, with the flag before it repeated, and an empty one leaves out the space
 */
export function commandLine(parts: TemplateStringsArray, ...values: readonly (string | readonly string[])[]): string {
  return parts.reduce((line, part, at) => {
    const value = values[at];
    const text = line + part;
    if (value === undefined) return text;
    const words = typeof value === "string" ? [value] : value;
    const [flag = ""] = / --[\w-]+ $/.exec(part) ?? [" "];
    return words.length > 0 ? text + words.map(shellQuote).join(flag) : text.replace(/ $/, "");
  }, "layergraft ");
}
