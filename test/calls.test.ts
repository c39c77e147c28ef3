// Verbs for programs in other languages: a request and events as lines of JSON.
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { extract } from "../src/verbs/index.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { writeScripted } from "./support/engine.js";

const CALLS = join(import.meta.dirname, "..", "dist/calls/main.js");

type Event = Readonly<Record<string, unknown>>;

/** What a request gives. @param ended what to do when the first event arrives */
async function call(request: unknown, onFirst?: (end: () => void) => void) {
  const child = spawn(process.execPath, [CALLS], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.write(`${JSON.stringify(request)}\n`);
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => {
    if (text === "") onFirst?.(() => child.stdin.end());
    text += part;
  });
  const status = await new Promise((done) => child.on("close", done));
  const events = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Event);
  return { status, events, last: events.at(-1) };
}

const folder = temporaryFolder();
const [base, model] = await Promise.all([1, 2].map((seed) => writeTiny(join(folder, `model-${seed}`), { seed })));

test("a verb gives what its function gives, with its progress", async () => {
  const input = { base, model, rank: 2 };
  const { status, events, last } = await call({
    ...{ verb: "extract", input: { ...input, out: join(folder, "called") }, options: { threads: 1 }, progress: true },
  });
  const wanted = await extract({ ...input, out: join(folder, "wanted") } as never, { threads: 1 });
  expect({ status, result: last?.result }).toEqual({ status: 0, result: JSON.parse(JSON.stringify(wanted)) });
  expect(events.find((event) => "progress" in event)?.progress).toMatchObject({
    unit: "bytes",
    done: expect.any(Number),
  });
  const [called, written] = ["called", "wanted"].map((out) =>
    readFileSync(join(folder, out, "adapter_model.safetensors")),
  );
  expect(called?.equals(written as Buffer)).toBe(true);
});

test("options of other types are refused by name", async () => {
  const options = { threads: "four", memory: -1, force: "no", resume: true, folder: 3 };
  const { status, last } = await call({ verb: "extract", input: {}, options, progress: false });
  expect({ status, error: last?.error }).toMatchObject({ status: 1, error: { name: "RecipeError", code: "recipe" } });
  const { message } = (last as { error: { message: string } }).error;
  expect([...message.matchAll(/- (\w+):/g)].map(([, field]) => field)).toEqual([
    "folder",
    "threads",
    "memory",
    "force",
  ]);
});

test("a verb that streams sends the parts of its answer, and others refuse to", async () => {
  const source = await writeScripted(join(folder, "scripted"), { c: "x", x: "ab", ab: "!" }, { template: false });
  const input = { source, prompts: ["c"], backend: "engine", maxNewTokens: 4, stop: ["!"] };
  const { status, events, last } = await call({ verb: "generate", input, options: {}, progress: false, parts: true });
  const parts = events.flatMap((event) => ("part" in event ? [event.part] : []));
  expect({ status, text: parts.join(""), count: parts.length }).toEqual({ status: 0, text: "xab", count: 2 });
  expect(last?.result).toMatchObject({ model: "scripted", answers: [{ prompt: "c", text: "xab", finish: "stop" }] });
  const refused = await call({ verb: "extract", input: {}, options: {}, progress: false, parts: true });
  expect(refused.last?.error).toMatchObject({ code: "usage", message: "extract has no parts to stream." });
});

test("options are checked as the library checks them", async () => {
  const { status, last } = await call({
    verb: "extract",
    input: { base, rank: -1, out: "x" },
    options: {},
    progress: false,
  });
  expect({ status, error: last?.error }).toMatchObject({ status: 1, error: { name: "RecipeError", code: "recipe" } });
});

test("an unknown verb is named beside those that there are", async () => {
  const { last } = await call({ verb: "destroy", input: {}, options: {}, progress: false });
  expect(last?.error).toMatchObject({
    code: "usage",
    message: expect.stringContaining("destroy is not a verb. Choose one of"),
  });
});

test("a caller that goes away ends the work, and nothing is left", async () => {
  const out = join(folder, "left");
  const request = { verb: "extract", input: { base, model, rank: 4, out }, options: {}, progress: true };
  const { status, last } = await call(request, (end) => end());
  // It may have been faster than the end of its input.
  if (last?.result === undefined) {
    expect({ status, error: last?.error }).toMatchObject({ status: 1, error: { code: "cancelled" } });
    expect(existsSync(out)).toBe(false);
  }
  expect(readdirSync(folder).filter((name) => name.startsWith("left.") || name.includes(".part"))).toEqual([]);
});
