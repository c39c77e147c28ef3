// serve as a person runs it: what it prints, what it refuses, how it ends; and an evaluation over it equals the engine's.
// @module-tag slow
import type { ChildProcess } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import OpenAI from "openai";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { writeExample } from "../src/demo/index.js";
import { temporaryFolder } from "./support/checkpoints.js";
import {
  DONE,
  expectReadable,
  expectRefused,
  layergraft,
  type Outcome,
  start,
  WRONG_USAGE,
} from "./support/command.js";

const world = join(temporaryFolder(), "world");
beforeAll(() => writeExample(world));
const running = new Set<ChildProcess>();
// A test that times out does not stop its server.
afterEach(() => {
  for (const child of running) child.kill("SIGKILL");
});

interface Serving {
  readonly url: string;
  readonly models: readonly string[];
  readonly client: OpenAI;
  /** Sends a signal and waits for the end. */
  stop(signal: NodeJS.Signals): Promise<Outcome>;
}

async function serve(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Serving> {
  const { child, ended } = start(["serve", ...args, "--threads", "1", "--port", "0", "--json"], { cwd: world, env });
  running.add(child);
  void ended.finally(() => running.delete(child));
  const line = await new Promise<string>((resolve, reject) => {
    let text = "";
    child.stdout?.on("data", (chunk: string) => {
      text += chunk;
      if (text.includes("\n")) resolve(text);
    });
    void ended.then(({ stderr }) => reject(new Error(stderr)));
  });
  const { url, models } = JSON.parse(line) as Pick<Serving, "url" | "models">;
  return {
    ...{ url, models },
    client: new OpenAI({ baseURL: `${url}/v1`, apiKey: env.SERVE_KEY ?? "unused", maxRetries: 0 }),
    stop: (signal) => {
      child.kill(signal);
      return ended;
    },
  };
}

interface Sample {
  readonly output: unknown;
  readonly verdict: unknown;
}

/** The samples of an evaluation: what the model gave, and its verdict. */
async function evaluate(out: string, ...args: string[]): Promise<Sample[]> {
  const tasks = ["quiz.yaml", "translate.yaml"];
  const { status, stderr } = await layergraft(
    ["eval", ...args, "--tasks", tasks.join(), "--out", out, "--limit", "4", "--quiet"],
    {
      cwd: world,
    },
  );
  expect({ status, stderr }).toEqual({ status: DONE, stderr: "" });
  return ["quiz", "translate"].flatMap((name) =>
    readFileSync(join(world, out, `samples-${name}.jsonl`), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Sample),
  );
}

describe("a served model and a served recipe", () => {
  it("have the engine's scores in an evaluation over the server", async () => {
    const serving = await serve(["math-expert", "--model", "mixed=recipe.yaml"]);
    expect(serving.models).toEqual(["math-expert", "mixed"]);
    const own = await evaluate("own", "recipe.yaml");
    const served = await evaluate("served", "mixed", "--backend", `openai:${serving.url}`, "--model", "mixed");
    expect(served.map(({ verdict }) => verdict)).toEqual(own.map(({ verdict }) => verdict));
    for (const [i, { output }] of served.entries()) {
      const expected = own[i]?.output;
      if (typeof output === "string") expect(output).toBe(expected);
      else
        for (const [j, value] of (output as number[]).entries())
          expect(value).toBeCloseTo((expected as number[])[j] as number, 4);
    }
    const { status, stderr } = await serving.stop("SIGTERM");
    expect(status).toBe(DONE);
    expectReadable(stderr);
    expect(stderr).toMatch(/^mixed: Llama, recipe\.yaml, embedded engine \(the default\)(, .* merged)?, ready in .*$/m);
    expect(stderr).toMatch(/^POST \/v1\/completions 200 mixed, \d+ \+ \d tokens?, \d+\.\d\d s$/m);
  });
});

describe("serve", () => {
  it("finishes the answers under way after Ctrl-C, and exits with 0", async () => {
    const serving = await serve(["math-expert", "--api-key-env", "SERVE_KEY"], { SERVE_KEY: "secret-words" });
    const { client } = serving;
    expect((await fetch(`${serving.url}/v1/models`)).status).toBe(401);
    const stream = await client.completions.create({
      model: "math-expert",
      // A story, which is longer than the answer to a problem.
      prompt: "Story:",
      max_tokens: 90,
      seed: 1,
      stream: true,
    });
    let stopped: Promise<Outcome> | undefined;
    let finish: string | null | undefined;
    for await (const { choices } of stream) {
      stopped ??= serving.stop("SIGINT");
      finish = choices[0]?.finish_reason ?? finish;
    }
    expect(finish).toMatch(/^(?:length|stop)$/);
    const { status, stderr } = (await stopped) as Outcome;
    expect(status).toBe(DONE);
    expect(stderr).toMatch(/^Finishing the answers under way\. Press Ctrl-C again to stop at once\.$/m);
    expect(stderr).not.toContain("secret-words");
  });

  it("ends at SIGTERM in its own time beside signal-exit, a part of node-llama-cpp", async () => {
    // As signal-exit, which ends the process at a signal where its listener is the only one.
    const library = join(world, "signal-exit.mjs");
    writeFileSync(
      library,
      `const end = () => {
        if (process.listenerCount("SIGTERM") > 1) return;
        process.removeListener("SIGTERM", end);
        process.kill(process.pid, "SIGTERM");
      };
      process.on("newListener", function listen(name) {
        if (name !== "SIGTERM") return;
        process.removeListener("newListener", listen);
        setImmediate(() => process.on("SIGTERM", end));
      });`,
    );
    const serving = await serve(["math-expert"], { NODE_OPTIONS: `--import ${pathToFileURL(library)}` });
    const { status, signal, stderr } = await serving.stop("SIGTERM");
    expect({ status, signal }).toEqual({ status: DONE, signal: null });
    expect(stderr).toMatch(/^Finishing the answers under way/m);
  });

  it.each<[string[], RegExp]>([
    [[], /Missing a model\. Pass SOURCE, or --model NAME=SOURCE\./],
    [["math-expert", "--model", "other"], /It must be NAME=SOURCE/],
    [["math-expert", "--model", "math-expert=base"], /Two models are called math-expert/],
    [["math-expert", "--api-key-env", "NOT_SET"], /--api-key-env NOT_SET: the environment variable is not set/],
    [["math-expert", "--port", "70000"], /It must be at most 65535/],
    [["math-expert", "--host", "0.0.0.0", "--port", "0"], /reached from other machines.*Pass --api-key-env NAME\./],
    [["math-expert", "--host", "203.0.113.1", "--api-key-env", "HOME"], /is not an address of this machine/],
  ])("refuses %j", async (args, message) => {
    await expectRefused(["serve", ...args, "--quiet"], world, WRONG_USAGE, message);
  });

  it("names a model by its folder, whose path may look like a name on the hub", async () => {
    const path = `${basename(world)}/math-expert`;
    const message = /Two models are called math-expert\./;
    await expectRefused(["serve", path, "--model", "math-expert=x"], dirname(world), WRONG_USAGE, message);
  });

  it("refuses a port in use", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => taken.once("listening", resolve));
    const { port } = taken.address() as { port: number };
    const message = new RegExp(`Port ${port} is in use\\. Choose another --port\\.`);
    // Before models are opened.
    await expectRefused(["serve", "no-such-model", "--quiet", "--port", String(port)], world, WRONG_USAGE, message);
    taken.close();
  });
});
