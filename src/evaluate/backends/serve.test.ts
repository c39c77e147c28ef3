// The user's own server: started, waited for, stopped with all that belongs to it, and its last words kept.
// @module-tag slow
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { CancelledError } from "../../kit/errors.js";
import { startServer } from "./serve.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-serve-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const log = join(folder, "server log.txt");

// Healthy at the second question. Starts a child that ignores SIGTERM, as workers of some servers do, and says its id.
const SERVER = `
const { createServer } = require("node:http");
const { spawn } = require("node:child_process");
const [model, port, ...how] = process.argv.slice(2);
if (how.includes("fail")) { console.error("no memory for " + model); process.exit(3); }
if (how.includes("child")) {
  const child = spawn("/bin/sh", ["-c", "trap '' TERM; sleep 60 & wait; sleep 60"], { stdio: "ignore" });
  console.log("child " + child.pid);
}
let asked = 0;
createServer((request, response) => {
  if (how.includes("sick")) { response.statusCode = 503; return response.end(); }
  if (request.url === "/health") response.statusCode = asked++ === 0 ? 503 : 200;
  response.end(JSON.stringify({ data: [{ id: model }] }));
}).listen(Number(port), "127.0.0.1", () => console.log("listening with " + model));
`;
const script = join(folder, "server.cjs");
writeFileSync(script, SERVER);
const command = (how = "") => `'${process.execPath}' '${script}' {model} {port} ${how}`;
/** Whether a process runs; what nobody has waited for yet does not. */
const isAlive = (pid: number): boolean =>
  /^[^Z]/.test(spawnSync("ps", ["-o", "stat=", "-p", String(pid)], { encoding: "utf8" }).stdout.trim());

describe("a server", () => {
  it("is ready when it is healthy, and gone with its children when it is stopped", async () => {
    const waits: number[] = [];
    const model = "it's $HOME; a model";
    const server = await startServer({
      command: command("child"),
      model,
      log,
      grace: 0.2,
      onProgress: ({ seconds }) => waits.push(seconds),
    });
    const reply = (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string }[] };
    expect(reply.data[0]?.id).toBe(model);
    expect(waits.length).toBeGreaterThan(0);
    const child = Number(/child (\d+)/.exec(readFileSync(log, "utf8"))?.[1]);
    expect(isAlive(child)).toBe(true);
    await server.stop();
    await server.stop();
    expect(isAlive(server.pid)).toBe(false);
    expect(isAlive(child)).toBe(false);
  });

  it("that ends too early is reported with the end of its log", async () => {
    await expect(startServer({ command: command("fail"), model: "m", log })).rejects.toThrow(
      /ended with status 3; the end of .*server log\.txt:\n.*no memory for m/s,
    );
  });

  it("that does not become healthy is stopped", async () => {
    const loading = "echo loading {model}; sleep 60 # {port}";
    const starting = startServer({ command: loading, model: "m", log, timeout: 0.7, grace: 1 });
    await expect(starting).rejects.toThrow(/was not healthy after 700 ms.*loading m/s);
  });

  it("is stopped when the evaluation is, while it starts", async () => {
    const controller = new AbortController();
    let pid = 0;
    const starting = startServer({
      command: `echo $$ > '${join(folder, "pid")}'; ${command("sick")}`,
      model: "m",
      log,
      grace: 1,
      signal: controller.signal,
      onProgress: () => {
        if (!existsSync(join(folder, "pid"))) return; // the shell has not begun
        pid = Number(readFileSync(join(folder, "pid"), "utf8"));
        if (pid > 0) controller.abort();
      },
    });
    await expect(starting).rejects.toThrow(CancelledError);
    expect(pid).toBeGreaterThan(0);
    expect(isAlive(pid)).toBe(false);
  });

  it("needs a place for its port", async () => {
    await expect(startServer({ command: "vllm serve {model}", model: "m", log })).rejects.toThrow(/\{port\}/);
  });
});
