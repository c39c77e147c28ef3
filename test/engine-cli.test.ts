// generate, score, chat and graph as a person runs them: what they print and where, what they refuse, and that all else
// works where models cannot be run.
// @module-tag slow
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { readPrompts, readTokenFile } from "../src/cli/shared/prompt-files.js";
import { openEngine } from "../src/engine/index.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, expectReadable, FAILED, INTERRUPTED, layergraft, MAIN, start } from "./support/command.js";
import { idOf, writeScripted } from "./support/engine.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const decoder = (name: string) => join(fileURLToPath(new URL("fixtures/decoders", import.meta.url)), name);

const ANSWER = "éSTOPx ab!";

/** Runs what must succeed with something on standard input, and returns what it printed. */
async function output(args: readonly string[], input: string): Promise<string> {
  const { status, stdout, stderr } = await piped(args, input);
  expectReadable(stderr);
  expect({ args, status, stderr }).toMatchObject({ status: DONE });
  return stdout;
}

/** Runs a command with the quiet option, and returns what it prints. */
async function run(...args: string[]): Promise<string> {
  const { status, stdout, stderr } = await layergraft([...args, "--quiet"], { cwd: root });
  expect({ status, stderr }).toEqual({ status: DONE, stderr: "" });
  return stdout;
}

/** Runs with something on standard input. */
function piped(
  args: readonly string[],
  input: string,
): Promise<{ status: number | null; stdout: string; stderr: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], { cwd: root, env: { ...process.env, NO_COLOR: "1" } });
  const text = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text.stdout += chunk;
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    text.stderr += chunk;
  });
  child.stdin.end(input);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status) => resolve({ status, ...text }));
  });
}

beforeAll(async () => {
  await writeScripted(at("model"), {
    ...{ c: "byte C3", "byte C3": "byte A9", "byte A9": "ST", ST: "OP", OP: "x", x: " ", " ": "ab", ab: "!" },
    ...{ ":": "hi", hi: "?" },
  });
  await writeScripted(at("endless"), { a: "b", b: "a" }, { config: { max_position_embeddings: 1e6 }, template: false });
  await writeTiny(at("task"), { seed: 1 });
  await writeTiny(at("language"), { seed: 2 });
  writeFileSync(at("swap.yaml"), "method: swap\ntask: task\nlanguage: language\n");
  writeFileSync(at("ids.json"), JSON.stringify([[3, 4, 5], [7], [], [3, 4, 9, 10, 11]]));
});

describe("generate", () => {
  it("prints the answer to one prompt as it comes, and all else on stderr", async () => {
    const { status, stdout, stderr } = await layergraft(["generate", "model", "-p", "c"], { cwd: root });
    expect({ status, stdout }).toEqual({ status: DONE, stdout: `${ANSWER}\n` });
    expect(stderr).toMatch(
      /^model: Llama, embedded engine \(the default\), ready in .*\nnote: the model has a chat template; pass --chat to .*\n8 tokens in \d+\.\d s \(\d+\.\d tokens\/s\)\n$/,
    );
  });

  it("answers many prompts of a file, with stop texts, as one JSON document", async () => {
    writeFileSync(at("prompts.jsonl"), `"c"\n\n{"prompt": "ab x", "more": 1}\n`);
    const args = ["generate", at("model"), "--prompts", at("prompts.jsonl"), "-p", "ST", "--stop", "TO", "a", "--json"];
    const found = JSON.parse(await run(...args)) as { model: string; seconds: number; answers: unknown };
    expect(found.model).toBe("model");
    expect(found.seconds).toBeGreaterThan(0);
    const ids = (...tokens: Parameters<typeof idOf>[0][]) => tokens.map(idOf);
    expect(found.answers).toEqual([
      { prompt: "ST", promptTokens: 2, text: "OPx ", ids: ids("OP", "x", " ", "ab"), finish: "stop" },
      { prompt: "c", promptTokens: 2, text: "éS", ids: ids("byte C3", "byte A9", "ST", "OP"), finish: "stop" },
      { prompt: "ab x", promptTokens: 4, text: " ", ids: ids(" ", "ab"), finish: "stop" },
    ]);
  });

  it("answers conversations", async () => {
    const chat = ["--chat", "--system", "ab", "-p", "c", "hi hi"];
    const printed = await run("generate", at("model"), ...chat, "--max-new-tokens", "1", "--json");
    const found = JSON.parse(printed) as { answers: Record<string, unknown>[] };
    // <s>bot:ab\nuser:c\nbot: and <s>bot:ab\nuser:hi hi\nbot:
    expect(found.answers.map(({ promptTokens, text, finish }) => [promptTokens, text, finish])).toEqual([
      [11, "hi", "length"],
      [13, "hi", "length"],
    ]);
  });

  it("gives the chat template the variables that it reads", async () => {
    await writeScripted(at("thinker"), { c: "x", ":": "hi" });
    const template = "{% for m in messages %}{{ m.content }}{% endfor %}{{ 'c' if enable_thinking is true else ':' }}";
    writeFileSync(at("thinker", "chat_template.jinja"), template);
    const answer = async (...flags: string[]) => {
      const printed = await run("generate", at("thinker"), "--chat", "-p", "a", "--json", ...flags);
      return (JSON.parse(printed) as { answers: { text: string }[] }).answers[0]?.text;
    };
    const thinking = ["--chat-template-kwargs", '{"enable_thinking": true}'];
    expect([await answer(), await answer(...thinking)]).toEqual(["hi", "x"]);
    expect(await output(["chat", "thinker", "-q", ...thinking], "a\n")).toBe("x\n");
    for (const [given, message] of [
      [
        '{"enable_thinkin": false}',
        /^error: enable_thinkin is not read by .* thinker; did you mean enable_thinking\?$/m,
      ],
      ['{"deep": 1}', /^error: deep is not read by the chat template of thinker; leave it out$/m],
      ["[1]", /is invalid\. It must be a mapping, not a list\.$/m],
    ] as const) {
      const args = ["generate", at("thinker"), "--chat", "-p", "a", "-q", "--chat-template-kwargs", given];
      expect((await layergraft(args, { cwd: root })).stderr).toMatch(message);
    }
  });

  it("takes tokens where there is no tokenizer, and recipes that nothing has executed", async () => {
    const expected = {
      prompts: [
        [3, 4, 5],
        [7, 8, 9, 10],
      ],
      maxNewTokens: 6,
    };
    writeFileSync(at("prompts.json"), JSON.stringify(expected.prompts));
    const engine = await openEngine("swap.yaml", { folder: root });
    const answers = await engine.generate(expected.prompts, {
      maxNewTokens: 6,
      temperature: 0.9,
      topK: 5,
      topP: 0.9,
      seed: 7,
    });
    await engine.close();
    const drawing = ["--temperature", "0.9", "--top-k", "5", "--top-p", "0.9", "--seed", "7", "--batch", "1"];
    const args = ["generate", at("swap.yaml"), "--ids", at("prompts.json"), "--max-new-tokens", "6", "--threads", "1"];
    expect(await run(...args, ...drawing)).toBe(
      answers.map(({ ids }, i) => `${i + 1}. ${expected.prompts[i]?.join(" ")}\n${ids.join(" ")}\n\n`).join(""),
    );
  });

  it("ends with what it has where it is interrupted", async () => {
    const args = ["generate", "endless", "-p", "a", "--max-new-tokens", "500000"];
    const { child, ended } = start(args, { cwd: root });
    child.stdout?.once("data", () => child.kill("SIGINT"));
    const { status, stdout, stderr } = await ended;
    expect(status).toBe(INTERRUPTED);
    expect(stdout).toMatch(/^(ba)*b?\n$/);
    expect(stderr).toMatch(/interrupted: /);
    expectReadable(stderr);
  });

  it("reads prompts from each kind of file, and says what is wrong with one", async () => {
    const read = (name: string, text: string) => {
      writeFileSync(at(name), text);
      return readPrompts(at(name));
    };
    expect(await read("p.json", `["a", {"prompt": "b\\nc"}]`)).toEqual(["a", "b\nc"]);
    expect(await read("p.jsonl", `"a"\n  \n{"prompt":"b"}\n`)).toEqual(["a", "b"]);
    expect(await read("p.txt", "a \r\n\n b\n")).toEqual(["a ", " b"]);
    await expect(read("p.json", `{"prompt": "a"}`)).rejects.toThrow(/p\.json: must be a JSON array of prompts/);
    await expect(read("p.json", `["a", 5]`)).rejects.toThrow(/p\.json: entry 2 must be a string, or an object with/);
    await expect(read("p.json", `["a`)).rejects.toThrow(/p\.json: is not valid JSON/);
    await expect(read("p.jsonl", `"a"\n{"text":"b"}\n`)).rejects.toThrow(/p\.jsonl: line 2 must be a string/);
    await expect(read("p.jsonl", `"a"\nb\n`)).rejects.toThrow(/p\.jsonl: line 2 is not valid JSON/);
    if (existsSync("/dev/zero"))
      await expect(readPrompts("/dev/zero")).rejects.toThrow("/dev/zero has more than 100 MB");
    for (const text of ["[1, 2]", "{}", `[["1"]]`, "[[1.5]]"]) {
      writeFileSync(at("t.json"), text);
      await expect(readTokenFile(at("t.json"))).rejects.toThrow(
        /t\.json: must be an array of arrays of token ids, such as/,
      );
    }
  });
});

describe("score", () => {
  it("prints the log-probabilities of tokens, and nothing else", async () => {
    const text = readFileSync(at("ids.json"), "utf8");
    const engine = await openEngine(decoder("qwen3"), { threads: 1 });
    const logprobs = await engine.score(JSON.parse(text) as number[][]);
    await engine.close();
    expect(logprobs.map(({ length }) => length)).toEqual([2, 0, 0, 4]);
    const args = ["score", decoder("qwen3"), "--json", "--threads", "1", "--ids"];
    expect(await run(...args, at("ids.json"))).toBe(`${JSON.stringify({ logprobs })}\n`);
    expect(await output([...args, "-"], text)).toBe(`${JSON.stringify({ logprobs })}\n`);
  });

  it("prints what may follow a prompt, and what most likely does", async () => {
    // Of one feature, normalised to about sqrt(24): the successor has that logit, all others 0.
    const most = 1 / Math.sqrt(1 / 24 + 1e-6);
    const [sure, other] = [most, 0].map((logit) => logit - Math.log(Math.exp(most) + 23));
    const args = ["score", at("model"), "-p", "c", "-c", "é", "x", "", "--top", "2"];
    const near = (value: number | undefined) => expect.closeTo(value as number, 4);
    expect(JSON.parse(await run(...args, "--json"))).toEqual({
      continuations: [
        { text: "é", logprob: near(2 * (sure as number)), tokens: [near(sure), near(sure)], greedy: true },
        { text: "x", logprob: near(other), tokens: [near(other)], greedy: false },
        { text: "", logprob: 0, tokens: [], greedy: true },
      ],
      next: [
        { id: 10, token: "Ã", logprob: near(sure) },
        { id: 0, token: "<unk>", logprob: near(other) },
      ],
    });
    const table = await run("score", at("model"), "-p", "c", "-c", "é", "x", "--top", "1");
    expect(table).toMatch(
      /^continuation +log-probability +tokens +most likely\n"é" +-0\.3165 +2 +yes\n"x" +-5\.0572 +1\b/,
    );
    expect(table).toMatch(/\nnext +id +log-probability +probability\n"\ufffd" +10 +-0\.1582 +85\.36%\n$/);
  });
});

describe("chat", () => {
  it("answers lines, remembers the talk until /new, and ends with it", async () => {
    const args = ["chat", "model", "--system", "ab", "-q", "--stop", "?"];
    // After the empty line there is nothing any more.
    expect(await output(args, "hi\nc c\n/new\nx\n\nhi\n")).toBe("hi\nhi\nhi\n");
  });

  it.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("ends on %s while it waits for a line", async (signal) => {
    const child = spawn(process.execPath, [MAIN, "chat", "model", "-q"], { cwd: root });
    let text = "";
    child.stderr.on("data", (data) => (text += data));
    const ended = once(child, "close");
    await vi.waitFor(() => expect(text).toContain("> "), { timeout: 60_000 });
    child.kill(signal);
    expect(await ended).toEqual([INTERRUPTED, null]);
    expect(text).toContain("interrupted: stopped before the end");
  });
});

describe("chat --json", () => {
  it("prints a line of JSON for each answer", async () => {
    const lines = (await output(["chat", "model", "--system", "ab", "-q", "--stop", "?", "--json"], "hi\nc c\n"))
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as { promptTokens: number });
    expect(lines).toEqual([
      { text: "hi", finish: "stop", promptTokens: expect.any(Number), newTokens: expect.any(Number) },
      { text: "hi", finish: "stop", promptTokens: expect.any(Number), newTokens: expect.any(Number) },
    ]);
    expect(lines[1]?.promptTokens).toBeGreaterThan(lines[0]?.promptTokens ?? 0);
  });
});

describe("what cannot be", () => {
  const refused = async (args: readonly string[], code: string, message: RegExp) => {
    const { status, stdout } = await layergraft([...args, "--json"], { cwd: root });
    expect(status).not.toBe(DONE);
    expect(JSON.parse(stdout)).toMatchObject({ code, message: expect.stringMatching(message) });
  };
  const ids = ["--ids", at("ids.json")];

  it("is a family that is not supported: lists those that are, and says that merging works", async () => {
    await writeTiny(at("strange"), { modelType: "starling" });
    const { status, stdout, stderr } = await layergraft(["generate", "strange", ...ids], { cwd: root });
    expect({ status, stdout }).toEqual({ status: FAILED, stdout: "" });
    expect(stderr).toMatch(
      /^error: \S*strange.config\.json has the model_type "starling".* supported are .*llama.* Merging and analysis work for it/,
    );
    expectReadable(stderr);
  });

  it("is text without a tokenizer, or talk without a template", async () => {
    await writeScripted(at("mute"), {}, { template: false });
    await refused(
      ["generate", at("mute"), "-p", "a", "--chat"],
      "usage",
      /mute has no chat template.*Leave out --chat/,
    );
    rmSync(at("mute", "tokenizer.json"));
    await refused(
      ["generate", at("mute"), "-p", "a"],
      "checkpoint",
      /mute has no tokenizer\.json; copy tokenizer\.json/,
    );
  });

  it("is a text longer than the context", async () => {
    const message = /^prompt 1 has 81 tokens, and the context of model is 64 \(max_position_embeddings\); shorten it$/;
    await refused(["generate", at("model"), "-p", "c ".repeat(40)], "usage", message);
  });

  it("is a weight of the wrong shape, or a token that the model does not know", async () => {
    await writeTiny(at("narrow"), { config: { intermediate_size: 10 } });
    const message = /^the weights of narrow do not match .*gate_proj\.weight is \[12, 8\]; .* describes \[10, 8\]/s;
    await refused(["score", at("narrow"), ...ids], "mismatch", message);
    writeFileSync(at("far.json"), "[[3, 99]]");
    const far = ["score", at("model"), "--ids", at("far.json")];
    await refused(far, "usage", /^text 1 has the token 99; the tokens of model are 0 to 23$/);
  });

  it("is a command that asks for nothing, or for what contradicts itself", async () => {
    const model = at("model");
    await refused(
      ["generate", model],
      "usage",
      /^Missing a prompt\. Pass --prompt TEXT, --prompts FILE or --ids FILE\.$/,
    );
    writeFileSync(at("empty.txt"), "");
    await refused(["generate", model, "--prompts", at("empty.txt")], "usage", /empty\.txt has no prompts\.$/);
    await refused(["generate", model, "-p", "c", "--system", "x"], "usage", /^system needs chat, which applies/);
    await refused(["generate", model, "-p", "", "--no-bos"], "usage", /^prompt 1 is empty; give at least one token/);
    await refused(["score", model], "usage", /^Missing a text to score\. Pass --ids FILE or --prompt TEXT\.$/);
    await refused(["score", model, "-p", "c"], "usage", /^--prompt needs --continuation TEXT or --top N\.$/);
  });

  // As where the package is not installed.
  const hooks = `export async function resolve(name, context, next) {
    if (name !== "onnxruntime-node") return next(name, context);
    throw Object.assign(new Error("Cannot find package 'onnxruntime-node'"), { code: "ERR_MODULE_NOT_FOUND" });
  }`;
  const script = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;
  const register = `import { register } from "node:module"; register(${JSON.stringify(script(hooks))});`;
  const missing = { cwd: root, node: ["--import", script(register)] };

  it("is an answer without a native runtime: merging and analysis work all the same", async () => {
    const answer = await layergraft(["generate", "model", "-p", "c"], missing);
    expect(answer).toMatchObject({ status: FAILED, stdout: "" });
    expect(answer.stderr).toMatch(
      /^error: running models needs ONNX Runtime; add it with: npm install .*onnxruntime-node@\S+\n$/,
    );
    const merge = await layergraft(["swap", "--task", "task", "--language", "language", "--out", "merged"], missing);
    expect(merge).toMatchObject({ status: DONE });
    expect((await layergraft(["inspect", "merged"], missing)).status).toBe(DONE);
    expectReadable(answer.stderr);
  });
});

// Its uploader keeps an identifier and a log among temporary files, even without a network.
it.runIf(process.platform !== "win32")("ONNX Runtime reports nothing", async () => {
  await writeScripted(at("silent"), {}, { template: false });
  mkdirSync(at("temporary"));
  // It reports nothing in tests and on servers that build, so they are not to look like such.
  const env = { TMPDIR: at("temporary"), CI: undefined, ORT_DISABLE_TELEMETRY: undefined };
  const { status } = await start(["generate", "silent", "--prompt", "a", "--max-new-tokens", "1", "--quiet"], {
    cwd: root,
    env,
  }).ended;
  expect(status).toBe(DONE);
  expect(readdirSync(at("temporary"))).toEqual([]);
});
