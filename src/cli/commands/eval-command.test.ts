// Invalid options of eval and compare: rejected with a clear message before anything is opened.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { completions, fakeServer } from "../../../test/support/fake-chat-server.js";
import { LayergraftError } from "../../kit/errors.js";
import { withAdvice } from "../shared/advice.js";
import { add as addCompareCommand } from "./compare-command.js";
import { add as addEvalCommand } from "./eval-command.js";

afterEach(() => void vi.restoreAllMocks());

/** Stderr of the last command. */
let errors = "";

/** Runs a command line in this process. @returns what it printed */
async function run(...args: string[]): Promise<string> {
  errors = "";
  const program = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  addEvalCommand(program as never);
  addCompareCommand(program as never);
  for (const command of program.commands) command.exitOverride().configureOutput({ writeErr: () => undefined });
  let text = "";
  vi.spyOn(process.stdout, "write").mockImplementation((chunk) => {
    text += String(chunk);
    return true;
  });
  vi.spyOn(process.stderr, "write").mockImplementation((chunk) => {
    errors += String(chunk);
    return true;
  });
  try {
    await program.parseAsync(args, { from: "user" });
  } finally {
    vi.restoreAllMocks();
  }
  return text;
}

const SERVER = ["--backend", "openai:http://127.0.0.1:9"];

describe("eval", () => {
  it.each([
    [["eval"], /Missing the model to evaluate/],
    [["eval", "x"], /Missing --tasks/],
    [["eval", "x", "-t", "mmlu", "--resume"], /--resume needs --out/],
    [
      ["eval", "x", "-t", "mmlu", "--backend", "vllm"],
      /unknown backend "vllm"; use engine, llama \(llama\.cpp\), openai:URL/,
    ],
    [["eval", "x", "-t", "mmlu", "--backend", "openai:"], /unknown backend "openai:"/],
    [["eval", "x", "-t", "mmlu", "--backend", "openai:localhost"], /http:\/\/host:port/],
    [["eval", "x", "-t", "mmlu", "--backend", "serve:vllm serve x"], /\{port\}/],
    [["eval", "x", "-t", "mmlu", ...SERVER, "--tokenizer", "nowhere"], /no tokenizer\.json/],
    [["eval", "x", "-t", "mmlu", ...SERVER, "--api-key-env", "NO_SUCH_KEY"], /environment variable is not set/],
  ] as const)("%j is wrong usage", async (args, message) => {
    const error = await run(...args).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(LayergraftError);
    expect(error).toMatchObject({ code: "usage" });
    expect((error as Error).message).toMatch(message);
  });

  it.each([
    [["--limit", "0"], /at least 1/],
    [["--shots", "many"], /must be a number, not text/],
    [["--shots", "1.5"], /whole number/],
    [["--tokenize", "flores200"], /needs a SentencePiece model that only sacreBLEU has/],
    [["--timeout", "-3"], /number of seconds/],
    [["--format", "html"], /Allowed choices are table, markdown, csv/],
    [["--tasks", "a,,b"], /comma-separated words/],
  ] as const)("%j is refused while it is read", async (args, message) => {
    await expect(run("eval", "x", "-t", "mmlu", ...args)).rejects.toThrow(message);
  });

  it("requires existing tasks, protocols and permission", async () => {
    await expect(run("eval", "x", "-t", "mgsm_sv")).rejects.toThrow(/mgsm_sv/);
    await expect(run("eval", "x", "-t", "mmlu", "--protocol", "layergraft/mmlo")).rejects.toThrow(
      /did you mean layergraft\/mmlu/,
    );
    await expect(run("eval", "x", "-t", "mbpp")).rejects.toMatchObject({ where: { option: "allowCode" } });
    await expect(run("eval", "x", "-t", "mmlu", ...SERVER)).rejects.toThrow(/does not answer/);
  });

  it("names all missing data sets and --data, before it opens the model", async () => {
    for (const [key, value] of [
      ["HF_HUB_OFFLINE", "1"],
      ["HF_HUB_CACHE", join(tmpdir(), "no-such-cache")],
    ] as const)
      vi.stubEnv(key, value);
    const error = await run("eval", "no-such-model", "-t", "mgsm_sw,mmlu").catch((caught: unknown) => caught);
    vi.unstubAllEnvs();
    expect(error).toMatchObject({ where: { option: "data" } });
    expect((error as Error).message).toMatch(
      /^The data of 2 of 2 tasks cannot be read:\n {2}- juletxara\/mgsm .*\n {2}- cais\/mmlu .*$/,
    );
    expect(withAdvice(error as LayergraftError, new Set(["--data"]))).toMatch(
      /\nPass a folder that has it with --data FOLDER\.$/,
    );
    expect(errors).not.toContain("engine");
  });

  it("lists tasks, suites and protocols", async () => {
    const text = await run("eval", "--list");
    for (const name of ["mgsm_LANGUAGE", "layergraft/mgsm-native-cot@5", "paper_sw", "mbpp"])
      expect(text).toContain(name);
    const json = JSON.parse(await run("eval", "--list", "--json")) as { families: { name: string }[] };
    expect(json.families.map(({ name }) => name)).toEqual([
      ...["mgsm", "gsm8k", "afrimgsm", "belebele", "flores", "mbpp", "mmlu", "global_mmlu", "afrimmlu"],
    ]);
  });
});

describe("a server that gives the key back", () => {
  const KEY = "sk-very/secret+key=42";
  const [base64, percent] = [Buffer.from(`Bearer ${KEY}`).toString("base64"), encodeURIComponent(KEY)];
  const root = mkdtempSync(join(tmpdir(), "layergraft-key-"));
  const closed: { close(): Promise<void> }[] = [];
  afterAll(async () => {
    rmSync(root, { recursive: true, force: true });
    for (const one of closed) await one.close();
  });

  /** Answers with the headers that it was sent, in every way, or refuses with them. */
  async function echo(refuses: boolean): Promise<string> {
    const answer = completions();
    const server = await fakeServer((request) => {
      expect(request.headers.authorization).toBe(`Bearer ${KEY}`);
      const said = `${request.headers.authorization} ${base64} ${percent}`;
      if (request.path === "/version") return { version: said };
      if (request.path !== "/v1/completions") return answer(request);
      // Long, so an error could be cut inside the key.
      if (refuses && request.body.max_tokens === 128) return { status: 400, json: `${"x".repeat(285)}${said}` };
      const reply = answer(request) as { choices: { text: string }[] };
      return { ...reply, choices: [{ ...reply.choices[0], text: said }] } as never;
    });
    closed.push(server);
    return server.url.replace("http://", "http://user:p%40ssword-of-user@");
  }

  it.each([
    ["as its answer", false],
    ["as its error", true],
  ])("%s: the key is in no file and in no output", async (_, refuses) => {
    writeFileSync(join(root, "rows.jsonl"), '{"q": "the capital of", "a": "x"}\n{"q": "the capital", "a": "y"}\n');
    const task = 'task: t\ndata: rows.jsonl\nanswer: generate\nprompt: "{q}"\ngold: "{a}"\n';
    writeFileSync(join(root, "t.yaml"), task);
    vi.stubEnv("TEST_SERVER_KEY", KEY);
    const out = join(root, refuses ? "refused" : "answered");
    const options = ["-t", join(root, "t.yaml"), "--out", out, "--show", "2", "--retries", "0"];
    const args = ["eval", "toy", ...options, "--api-key-env", "TEST_SERVER_KEY", "--backend"];
    const text = await run(...args, `openai:${await echo(refuses)}`).catch((error: Error) => error.message);
    const files = readdirSync(out).map((name) => readFileSync(join(out, name), "utf8"));
    const all = [text, errors, ...files].join("\n");
    expect(all).toContain(refuses ? "[redacted" : "Bearer [redacted]");
    for (const secret of [KEY, "very/secret", percent, base64.slice(12, -4), "p%40ssword", "p@ssword"]) {
      expect(all).not.toContain(secret);
    }
    vi.unstubAllEnvs();
  });
});

describe("compare", () => {
  it("requires two folders of results", async () => {
    await expect(run("compare", "nowhere", "there")).rejects.toThrow(/nowhere has no results of an evaluation/);
    await expect(run("compare", "one")).rejects.toThrow(/results: must list two or more/);
  });
});
