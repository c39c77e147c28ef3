// Code of a user: one file without imports of its own, named by its SHA-256, which therefore covers all that it does.
import { digestOf } from "../../kit/files/index.js";
import { LayergraftError } from "../../kit/index.js";

/**
 * Computes a block in place of an operation.
 * @param values whole stored rows of each value; the result replaces the first
 * @param numbers the operation's numbers
 * @param columns elements in a row
 */
export type BlockFunction = (values: readonly Float32Array[], numbers: readonly number[], columns: number) => void;

interface OwnCode {
  readonly text: string;
  readonly exports: Readonly<Record<string, unknown>>;
}

const LOADED = new Map<string, OwnCode>();

/** Runs the text of a file, once in a thread. @returns its digest and what it exports */
export async function runCode(text: string): Promise<{ readonly digest: string } & OwnCode> {
  const digest = digestOf(text);
  const known = LOADED.get(digest);
  if (known) return { digest, ...known };
  const url = `data:text/javascript;base64,${Buffer.from(text).toString("base64")}`;
  const code = { text, exports: (await import(url)) as OwnCode["exports"] };
  LOADED.set(digest, code);
  return { digest, ...code };
}

/** The text that has been run with this digest. */
export function textOfCode(digest: string): string {
  return LOADED.get(digest)?.text ?? "";
}

/** Calls a function of code that has been run. @throws LayergraftError code "code" if there is none, or it throws */
export function callCode(digest: string, name: string, ...given: Parameters<BlockFunction>): void {
  const found = LOADED.get(digest)?.exports[name];
  if (typeof found !== "function")
    throw new LayergraftError("code", `the method's file exports no function ${name}. Export it beside the method.`);
  guardCode(`${name} of the method's file`, () => found(...given));
}

/** The result of a user's function. @throws LayergraftError code "code" with the line where it fails */
export function guardCode<T>(what: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    if (error instanceof LayergraftError) throw error;
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    const line = /base64,[^:]*:(\d+)/.exec(stack ?? "")?.[1];
    throw new LayergraftError("code", `${what} fails${line ? ` in line ${line}` : ""}: ${message}`, {}, error);
  }
}
