// Questions to a thread and a process: both give the same answers, events and errors, and both are cancelled and end.
import { fork } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { afterAll, expect, it } from "vitest";
import { Answerer, errorOf, plainError } from "./ask.js";
import { CancelledError, DiskFullError, FormatError, LayergraftError, OutputError } from "./errors.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-ask-"));
afterAll(() => rmSync(root, { recursive: true }));

/** What `answerQuestions` sends, written by hand. */
const program = join(root, "program.mjs");
writeFileSync(
  program,
  `import { parentPort } from "node:worker_threads";
   const port = parentPort ?? process;
   const send = (message) => (parentPort ? parentPort.postMessage(message) : process.send(message));
   let open;
   port.on("message", (message) => {
     if (message === "cancel") return send({ id: open, error: { name: "CancelledError", message: "stopped", code: "cancelled" } });
     const { id, kind, input } = message;
     if (kind === "wait") open = id;
     else if (kind === "leave") process.exit(3);
     else if (kind === "fail") send({ id, error: { name: "SyntaxError", message: "no" } });
     else { send({ id, event: "half" }); send({ id, value: input * 2 }); }
   });`,
);

type Questions = {
  readonly double: (x: number) => number;
  readonly fail: (x: number) => never;
  readonly wait: (x: number) => never;
  readonly leave: (x: number) => never;
};
const ended = (code: number | null) => new LayergraftError("ended", `it ended with ${code}`);

it.each([
  ["a thread", () => new Answerer<Questions, string>(new Worker(program), ended)],
  ["a process", () => new Answerer<Questions, string>(fork(program, { execArgv: [] }), ended)],
])("asks %s", async (_, open) => {
  const answerer = open();
  const events: string[] = [];
  const answers = [1, 2, 3].map((x) => answerer.ask("double", x, { onEvent: (event) => events.push(event) }));
  expect(await Promise.all(answers)).toEqual([2, 4, 6]);
  expect(events).toEqual(["half", "half", "half"]);
  await expect(answerer.ask("fail", 0)).rejects.toBeInstanceOf(SyntaxError);
  expect(answerer.isIdle).toBe(true);
  const waiting = answerer.ask("wait", 0);
  expect(answerer.isIdle).toBe(false);
  await Promise.all([answerer.stop(), expect(waiting).rejects.toBeInstanceOf(CancelledError)]);
  expect(answerer.hasEnded).toBe(true);
  const other = open();
  await expect(other.ask("leave", 0)).rejects.toThrow("it ended with 3");
  expect(other.hasEnded).toBe(true);
  // Nothing would answer.
  await expect(other.ask("double", 1)).rejects.toBeInstanceOf(CancelledError);
});

it("keeps the class, code and place of an error, and words those of the system", () => {
  const where = { file: "model.safetensors", tensor: "x" };
  for (const error of [new FormatError("bad", where), new OutputError("no"), new DiskFullError("full", where)]) {
    const again = errorOf(structuredClone(plainError(error)));
    expect(again).toBeInstanceOf(error.constructor);
    expect(again).toMatchObject({ message: error.message, code: error.code, where: error.where });
  }
  const system = (code: string) => Object.assign(new Error(code), { code, syscall: "write", path: "out" });
  expect(errorOf(plainError(system("ENOSPC")))).toBeInstanceOf(DiskFullError);
  expect(errorOf(plainError(system("EACCES")))).toMatchObject({
    ...{ code: "output", where: { file: "out" }, message: "no permission for out; check its owner and mode" },
  });
  expect(errorOf(plainError(new RangeError("Array buffer allocation failed")))).toMatchObject({ code: "memory" });
  const bug = errorOf(plainError(new TypeError("x is undefined")));
  expect([bug.name, bug.message, bug instanceof LayergraftError]).toEqual(["TypeError", "x is undefined", false]);
});
