// Patterns of file names: * and ? within a name, ** across folders, [abc] and {a,b}. Patterns of data cards come from
// strangers, so none may take long to match.
import { DataError } from "./data-error.js";

/** More than any sensible pattern has; each one multiplies what a match can cost. */
const MAX_WILDCARDS = 8;
const MAX_LENGTH = 500;

/** Whether a text is a pattern rather than a plain path. */
export function isPattern(text: string): boolean {
  return /[*?[{]/.test(text);
}

/**
 * A test for paths with forward slashes. `**` followed by a slash also matches nothing, so that a pattern of it and a
 * name matches that name at the top too.
 * @throws {DataError} for a pattern that is too complicated
 */
export function matcherOf(pattern: string): (path: string) => boolean {
  if (pattern.length > MAX_LENGTH || (pattern.match(/\*+|\?/g)?.length ?? 0) > MAX_WILDCARDS) {
    throw new DataError(`the pattern ${JSON.stringify(pattern.slice(0, 80))} has too many wildcards`);
  }
  let expression: RegExp;
  try {
    expression = new RegExp(`^${translate(pattern)}$`, "su");
  } catch (error) {
    throw new DataError(`${JSON.stringify(pattern)} is not a pattern that can be read`, {}, error);
  }
  return (path) => expression.test(path);
}

function translate(pattern: string): string {
  let result = "";
  let depth = 0;
  for (let i = 0; i < pattern.length; i++) {
    const rest = pattern.slice(i);
    const char = pattern[i] ?? "";
    const set = /^\[(!?)([^\]/]+)\]/.exec(rest);
    if (rest.startsWith("**/")) {
      result += "(?:.*/)?";
      i += 2;
    } else if (rest.startsWith("**")) {
      result += ".*";
      i += 1;
    } else if (char === "*") result += "[^/]*";
    else if (char === "?") result += "[^/]";
    else if (set) {
      result += `[${set[1] === "!" ? "^/" : ""}${(set[2] ?? "").replace(/[\\^[\]]/g, "\\$&").replace(/&&|--/g, "")}]`;
      i += set[0].length - 1;
    } else if (char === "{" && rest.includes("}")) {
      depth++;
      result += "(?:";
    } else if (char === "}" && depth > 0) {
      depth--;
      result += ")";
    } else if (char === "," && depth > 0) result += "|";
    else result += char.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  }
  return result + ")".repeat(depth);
}
