// Prompts, texts and token ids from files and standard input.

import { readBounded } from "../../kit/files/index.js";
import { isSystemError, usageError } from "../../kit/index.js";
import { parseWritten } from "../../kit/numbers/index.js";
import { formatBytes } from "../../kit/printing/index.js";

/** The text of a file, or of standard input for -. @param advice if it has more bytes */
async function readInput(path: string, most = 100_000_000, advice = "split it into several files"): Promise<string> {
  const refusal = (why: string, cause?: unknown) => usageError(`${path} ${why}`, { file: path }, cause);
  const tooLarge = () => refusal(`has more than ${formatBytes(most)}; ${advice}`);
  const bytes = await readBounded(path === "-" ? process.stdin : path, most, tooLarge).catch((error: unknown) => {
    if (!isSystemError(error, "ENOENT")) throw error;
    throw refusal("does not exist", error);
  });
  return bytes.toString("utf8");
}

const linesOf = (text: string) => text.split(/\r?\n/).filter((line) => line.trim() !== "");

/** Texts on which models are measured, one per line. */
export async function readTexts(file: string): Promise<string[]> {
  return linesOf(await readInput(file, 16_000_000, "give --on some hundred texts"));
}

/** Prompts of a file: a JSON array of strings, JSON Lines of strings or of objects with a prompt, or one prompt per line. */
export async function readPrompts(path: string): Promise<string[]> {
  const text = await readInput(path);
  const problem = (why: string) => usageError(`${path}: ${why}`, { file: path });
  const some = (prompts: string[]) => {
    if (prompts.length === 0) throw usageError(`${path === "-" ? "stdin" : path} has no prompts.`);
    return prompts;
  };
  const promptOf = (value: unknown, where: string): string => {
    const prompt = typeof value === "object" && value !== null ? (value as { prompt?: unknown }).prompt : value;
    if (typeof prompt !== "string") throw problem(`${where} must be a string, or an object with a string "prompt"`);
    return prompt;
  };
  if (/\.json$/i.test(path)) {
    const list = parseJson(text, problem);
    if (!Array.isArray(list)) throw problem("must be a JSON array of prompts");
    return some(list.map((value, i) => promptOf(value, `entry ${i + 1}`)));
  }
  const lines = linesOf(text);
  if (!/\.jsonl$/i.test(path)) return some(lines);
  return some(
    lines.map((line, i) =>
      promptOf(
        parseJson(line, (why) => problem(`line ${i + 1} ${why}`)),
        `line ${i + 1}`,
      ),
    ),
  );
}

/** @param problem the error for text that is not JSON */
export function parseJson(text: string, problem: (why: string) => Error): unknown {
  try {
    return parseWritten(text);
  } catch (error) {
    throw problem(`is not valid JSON: ${(error as Error).message}`);
  }
}

/** Token ids from a file, or from standard input for -: a JSON array of arrays of integers. */
export async function readTokenFile(path: string): Promise<number[][]> {
  const problem = (why: string) => usageError(`${path}: ${why}`, { file: path });
  const value = parseJson(await readInput(path), problem);
  const isTokens = (list: unknown): list is number[] => Array.isArray(list) && list.every(Number.isInteger);
  if (!Array.isArray(value) || !value.every(isTokens)) {
    throw problem("must be an array of arrays of token ids, such as [[1, 15, 27], [1, 9]]");
  }
  return value;
}
