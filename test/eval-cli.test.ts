// layergraft eval and compare from end to end, against a server on this machine: tables, files, refusals, a killed run
// that goes on, a server of the user's own that is stopped whatever happens.
// @module-tag slow
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "./support/checkpoints.js";
import {
  DONE,
  expectReadable,
  expectRefused,
  FAILED,
  INTERRUPTED,
  layergraft,
  start,
  WRONG_USAGE,
} from "./support/command.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);

const TASK = `
task: lengths
title: Lengths
data: rows.jsonl
answer: generate
prompt: "Q: {question}\\nA:"
gold: "{answer}"
stop: ["\\n"]
max_new_tokens: 8
`;

/** Answers every prompt with its number of characters; knows no log-probabilities. */
const SERVER = `
const { createServer } = require("node:http");
const [port, delay = "0"] = process.argv.slice(2);
createServer((request, response) => {
  let text = "";
  request.on("data", (chunk) => (text += chunk));
  request.on("end", () => {
    const body = text === "" ? {} : JSON.parse(text);
    const json = (value) => response.end(JSON.stringify(value));
    if (request.url === "/health") return json({});
    if (request.url === "/v1/models") return json({ data: [{ id: "counter", owned_by: "me" }] });
    if (request.url !== "/v1/completions" || body.logprobs !== undefined) {
      response.statusCode = request.url === "/v1/completions" ? 400 : 404;
      return json({ error: { message: "not here" } });
    }
    setTimeout(() => json({
      choices: [{ text: " " + body.prompt.length + "\\nQ: more", finish_reason: "stop" }],
      usage: { prompt_tokens: body.prompt.length, completion_tokens: 1 },
    }), body.max_tokens === 1 ? 0 : Number(delay));
  });
}).listen(Number(port), "127.0.0.1");
`;

let slow: { url: string; asked: string[]; server: Server };

beforeAll(async () => {
  writeFileSync(at("lengths.yaml"), TASK);
  const rows = Array.from({ length: 24 }, (_, i) => ({
    question: "x".repeat(i),
    answer: String(i % 3 === 0 ? i + 6 : 0),
  }));
  writeFileSync(at("rows.jsonl"), rows.map((row) => JSON.stringify(row)).join("\n"));
  writeFileSync(at("server.cjs"), SERVER);
  slow = await countingServer();
});
afterAll(() => slow.server.close());

/** The same server in this process, slow, with what it was asked. */
async function countingServer(): Promise<typeof slow> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (chunk) => {
      text += chunk;
    });
    request.on("end", () => {
      const body = (text === "" ? {} : JSON.parse(text)) as { prompt?: string; logprobs?: number; max_tokens?: number };
      const { prompt } = body;
      if (request.url === "/v1/models") return response.end('{"data": [{"id": "counter", "owned_by": "me"}]}');
      if (request.url !== "/v1/completions" || prompt === undefined || body.logprobs !== undefined) {
        response.statusCode = 404;
        return response.end("{}");
      }
      asked.push(prompt);
      const reply = {
        choices: [{ text: ` ${prompt.length}\nQ: more`, finish_reason: "stop" }],
        usage: { prompt_tokens: prompt.length, completion_tokens: 1 },
      };
      setTimeout(() => response.end(JSON.stringify(reply)), 60);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, asked, server };
}

const evaluation = (...more: string[]) => ["eval", "counter", "--tasks", "lengths.yaml", ...more];
const bySlow = (...more: string[]) => evaluation("--backend", `openai:${slow.url}`, ...more);
const serving = (delay = 0) => `serve:'${process.execPath}' server.cjs {port} ${delay}`;

describe("eval", () => {
  it("prints scores with their protocol, and keeps everything", async () => {
    const outcome = await layergraft(bySlow("--out", "first", "--show", "1"), { cwd: root });
    expectReadable(outcome.stderr);
    expect(outcome).toMatchObject({ status: DONE });
    expect(outcome.stderr).toMatch(/^Lengths 100% {2}24 of 24 {2}exact 33\.3 {2}[\d.]+ items\/s {2}in /m);
    expect(outcome.stdout).toMatch(
      /^--- lengths, item 1: prompt \(custom\/lengths@1, 0-shot\)\nQ: \nA:\n--- answer\n 6\n/,
    );
    expect(outcome.stdout).toMatch(/counter, me \(openai\)\n/);
    expect(outcome.stdout).toMatch(/Lengths +custom\/lengths@1, 0-shot +exact match +33\.3 +9\.8 +\d/);
    const results = JSON.parse(readFileSync(at("first/results.json"), "utf8")) as {
      tasks: { scores: { value: number }[] }[];
    };
    expect(results.tasks[0]?.scores[0]?.value).toBeCloseTo(1 / 3, 12);
    await expectRefused(bySlow("--out", "first"), root, FAILED, /first already has an evaluation. Pass --resume/);
    const sample = readFileSync(at("first/samples-lengths.jsonl"), "utf8").split("\n")[3] ?? "";
    expect(JSON.parse(sample)).toMatchObject({
      id: "4",
      output: " 9",
      gold: "9",
      reading: { answer: "9" },
      verdict: { exact: 1 },
    });
  });

  it("resumes after kill -9 to the same files, and asks nothing twice", async () => {
    slow.asked.splice(0);
    const { child, ended } = start(bySlow("--out", "killed", "--concurrency", "2"), { cwd: root });
    for (let i = 0; i < 500 && slow.asked.length < 9; i++) await sleep(20);
    child.kill("SIGKILL");
    expect(await ended).toMatchObject({ signal: "SIGKILL" });
    expect(existsSync(at("killed/results.json"))).toBe(false);
    const outcome = await layergraft(bySlow("--out", "killed", "--resume", "--json"), { cwd: root });
    expect(outcome).toMatchObject({ status: DONE });
    for (const name of ["results.json", "samples-lengths.jsonl", "settings.json", "shared-prompts.json"]) {
      expect(readFileSync(at("killed", name), "utf8")).toBe(readFileSync(at("first", name), "utf8"));
    }
    expect(JSON.parse(outcome.stdout)).toEqual(JSON.parse(readFileSync(at("first/results.json"), "utf8")));
    // Two were under way when it was killed, and the answers of two more perhaps not yet on the disk.
    expect(slow.asked.filter((prompt) => prompt.startsWith("Q: ")).length).toBeLessThanOrEqual(24 + 4);
  });

  it("starts the user's own server and stops it; other formats on request", async () => {
    const env = { TMPDIR: temporaryFolder() };
    const outcome = await layergraft(evaluation("--backend", serving(), "--limit", "6", "--format", "csv", "-q"), {
      cwd: root,
      env,
    });
    expectReadable(outcome.stderr);
    expect(outcome).toMatchObject({ status: DONE });
    expect(outcome.stdout.split("\n")[1]).toMatch(
      /^counter,openai,me,counter,lengths,custom\/lengths@1,0,exact,share,0\.333/,
    );
    expect(serversLeft()).toEqual([]);
    expect(readdirSync(env.TMPDIR)).toEqual([]);
  });

  it("removes the server's log after Ctrl-C while the server starts, if there is no --out", async () => {
    const env = { TMPDIR: temporaryFolder() };
    const sleeping = `serve:'${process.execPath}' -e 'setTimeout(() => {}, 60000)' {port}`;
    const { child, ended } = start(evaluation("--backend", sleeping), { cwd: root, env });
    for (let i = 0; i < 500 && readdirSync(env.TMPDIR).length === 0; i++) await sleep(20);
    await sleep(100);
    child.kill("SIGINT");
    expect(await ended).toMatchObject({ status: INTERRUPTED });
    expect(readdirSync(env.TMPDIR)).toEqual([]);
  });

  it.each([
    ["SIGINT", INTERRUPTED, null],
    ["SIGKILL", null, "SIGKILL"],
  ] as const)("leaves no server behind after %s", async (name, status, signal) => {
    const { child, ended } = start(evaluation("--backend", serving(400), "--out", name, "--concurrency", "1"), {
      cwd: root,
    });
    for (let i = 0; i < 500 && !hasAnswers(at(name)); i++) await sleep(20);
    child.kill(name);
    const outcome = await ended;
    expect(outcome).toMatchObject({ status, signal });
    expectReadable(outcome.stderr);
    if (name === "SIGINT") expect(outcome.stderr).toMatch(/interrupted: .*--resume/);
    for (let i = 0; i < 250 && serversLeft().length > 0; i++) await sleep(20);
    expect(serversLeft()).toEqual([]);
  });
});

function hasAnswers(folder: string): boolean {
  const file = join(folder, "answers.jsonl");
  return existsSync(file) && readFileSync(file, "utf8").includes("\n");
}

/** Processes of the servers started here that still run. */
function serversLeft(): string[] {
  const { stdout } = spawnSync("ps", ["-A", "-o", "pid=,stat=,args="], { encoding: "utf8" });
  return stdout
    .split("\n")
    .filter((line) => line.includes("server.cjs") && line.includes(process.execPath) && !/^\s*\d+ Z/.test(line));
}

it("refuses a task file that is a pipe, even while another program holds it open", async () => {
  execFileSync("mkfifo", [at("pipe.yaml")]);
  // For reading and writing, which waits for nobody.
  const holder = await open(at("pipe.yaml"), "r+");
  await expectRefused(["eval", "model", "--tasks", "pipe.yaml"], root, WRONG_USAGE, /pipe\.yaml is not a regular file/);
  await holder.close();
});
