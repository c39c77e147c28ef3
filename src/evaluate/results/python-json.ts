import { isDeeperThan } from "../../core/index.js";

/** Values that walk through code are no deeper than this; what programs write has some ten levels. */
const MAX_LEVELS = 100;

const STRING_OR_CONSTANT = /"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b/g;

/** Parses JSON as Python writes it: `NaN` and `Infinity`, which JSON does not have, become null. @throws SyntaxError */
export function parsePythonJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!/\b(NaN|Infinity)\b/.test(text)) throw error;
    return JSON.parse(text.replace(STRING_OR_CONSTANT, (found) => (found.startsWith('"') ? found : "null")));
  }
}

/** Whether a value can be walked by code that calls itself. */
export const isShallow = (value: unknown): boolean => !isDeeperThan(value, MAX_LEVELS);
