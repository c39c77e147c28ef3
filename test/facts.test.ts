// Facts are fields: no code searches or takes apart the text of a message, a label or a title.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const SOURCES = join(import.meta.dirname, "..", "src");

/** Names of values that are written for people. */
const TEXT = String.raw`\b(?:message|label|title)\b`;
const METHODS = "match|matchAll|replace|replaceAll|search|split|startsWith|endsWith|includes|indexOf|lastIndexOf";
const SEARCHES = [
  // error.message.split("\n"), (title ?? "").replace(...)
  new RegExp(String.raw`${TEXT}(?:\s*\?\?\s*"")?[)!]*\s*\??\.(?:${METHODS})\(.*`, "g"),
  // /none of/.test(error.message), text.includes(label)
  new RegExp(String.raw`\.(?:test|exec|${METHODS})\([^()\n]*?${TEXT}(?=\s*[),]).*`, "g"),
];

/** Code that may do so: its file, what is found there, and the reason. */
const EXCEPTIONS: readonly (readonly [file: string, search: string, reason: string])[] = [
  ["cli/command-line.ts", "/^error: /", "commander's errors begin with it"],
  ["cli/command-line.ts", "required option", "commander names what is missing only in the text"],
  ["cli/command-line.ts", "too many arguments", "commander counts arguments only in the text"],
  ["cli/command-line.ts", ".exec(message) ?? []", "commander names an unknown option only in the text"],
  ["cli/shared/advice.ts", 'includes("\\n")', "advice goes on a line of its own where the message is a list"],
  ["kit/errors.ts", ".test(error.message)", "V8 reports a failed allocation only in the text"],
  ["engine/runtime/load-runtime.ts", 'split("\\n")[0]', "an error of Node.js lists the importing files in more lines"],
  ["engine/runtime/load-runtime.ts", "onnxruntime_binding.node", "Node.js names a missing library only in the text"],
  ["engine/runtime/session.ts", 'split("\\n")[0]', "an error of ONNX Runtime has a stack trace in more lines"],
  ["engine/runtime/session.ts", ".exec(message)?.[1]", "ONNX Runtime names the failed node only in the text"],
  ["text/patterns.ts", "lastIndexOf", "an error of V8 quotes the whole expression before the reason"],
  ["experiment/run/store.ts", "/\\s+/g", "a label is one line of steps/index.txt"],
  ["formats/hub/requests.ts", ".test(error.message)", "fetch reports a broken connection only in the text"],
  [
    "export/llama/open-llama.ts",
    'split("\\n")[0]',
    "an error of llama.cpp has details for its developers in more lines",
  ],
];

function searchesIn(code: string): string[] {
  const lines = code.split("\n").map((line) => (/^\s*(?:\/\/|\/?\*)/.test(line) ? "" : line));
  return SEARCHES.flatMap((pattern) => lines.join("\n").match(pattern) ?? []);
}

const found = readdirSync(SOURCES, { recursive: true, encoding: "utf8" })
  .filter((name) => /(?<!\.(?:test|d))\.tsx?$/.test(name))
  .flatMap((file) => searchesIn(readFileSync(join(SOURCES, file), "utf8")).map((search) => ({ file, search })));

test.each([
  'const [summary] = error.message.split("\\n");',
  "const [, line] = /^line (\\d+)/.exec(message) ?? [];",
  "if (/is missing/.test(error.message)) return;",
  'const plain = overview.title\n  .replace(/, chosen on .*$/, "");',
  'return step?.label?.startsWith("train ");',
  "return verdict.includes(bar.label);",
])("a search is found: %s", (code) => expect(searchesIn(code)).toHaveLength(1));

test.each([
  "const found = labels.includes(name);",
  "const [first] = messages.map(({ message }) => message);",
  "const line = text.split(`, `).map((label) => label);",
  '// title.split(" ")',
])("no search: %s", (code) => expect(searchesIn(code)).toEqual([]));

const allows = ([path, text]: (typeof EXCEPTIONS)[number], { file, search }: (typeof found)[number]) =>
  path === file && search.includes(text);

test("messages, labels and titles are not searched or taken apart", () => {
  expect(found.filter((one) => !EXCEPTIONS.some((exception) => allows(exception, one)))).toEqual([]);
});

test("every exception is still needed", () => {
  expect(EXCEPTIONS.filter((exception) => !found.some((one) => allows(exception, one)))).toEqual([]);
});
