// Calls that return, fail, or never end. engine/text/hostile.test.ts has calls that exhaust memory.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { expect, it, vi } from "vitest";
import { GuardError, guarded } from "./guarded.js";

const call = guarded<typeof import("./patterns.js")>("#guarded-patterns");

it("returns results and errors of functions", () => {
  expect(call("test", ["^a+$", "", "aaa"])).toBe(true);
  expect(call("lastMatch", ["a(b)?", "gu", "ab a"])).toEqual(["a", undefined]);
  expect(() => call("test", ["(", "", ""])).toThrow(SyntaxError);
});

it("ends a call that takes too long, and runs the next", () => {
  expect(() => call("test", ["^(a+)+$", "", `${"a".repeat(60)}!`], 0.2)).toThrow(
    new GuardError("took longer than 0.2 s"),
  );
  expect(call("test", ["a", "", "a"])).toBe(true);
});

/** Whether a process runs; a zombie does not. */
const isAlive = (pid: number): boolean =>
  /^[^Z]/.test(spawnSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" }).stdout.trim());

it("ends with its caller, even during a call", async () => {
  const script = `
    import { fork } from "node:child_process";
    const options = { execArgv: [], serialization: "advanced", stdio: ["ignore", "ignore", "ignore", "ipc"] };
    const child = fork(${JSON.stringify(createRequire(import.meta.url).resolve("#guard-process"))}, options);
    child.on("message", () => console.log(child.pid));
    const input = { module: "data:text/javascript,export const hang=()=>{for(;;);}", name: "hang", args: [] };
    child.send({ id: 1, kind: "call", input });`;
  const caller = spawn(process.execPath, ["--input-type=module", "--eval", script]);
  const [line] = (await Promise.race([once(caller.stdout, "data"), once(caller, "exit")])) as [unknown];
  const pid = Number(String(line));
  expect(isAlive(pid)).toBe(true);
  caller.kill("SIGKILL");
  try {
    await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 20_000, interval: 100 });
  } finally {
    if (isAlive(pid)) process.kill(pid, "SIGKILL");
  }
});
