// The server under clients that leave, do not read, send too much or too slowly, or too often: others are unharmed.
// @module-tag slow
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/support/checkpoints.js";
import { writeScripted } from "../../test/support/engine.js";
import { openEngine } from "../engine/index.js";
import { Random } from "../kit/index.js";
import type { ServedModel } from "./served-model.js";
import { servedModel } from "./served-model.js";
import { type RequestRecord, type RunningServer, type ServeOptions, startApiServer } from "./server.js";

let model: ServedModel;
const running: RunningServer[] = [];
let records: RequestRecord[] = [];

beforeAll(async () => {
  const folder = join(temporaryFolder(), "endless");
  await writeScripted(folder, { a: "b", b: "a", x: "x" }, { config: { max_position_embeddings: 8192 } });
  model = await servedModel(await openEngine(folder, { threads: 1 }));
});
afterAll(() => model.close());
afterEach(async () => {
  for (const server of running.splice(0)) await server.close(0);
});

async function start(options: Partial<ServeOptions> = {}): Promise<RunningServer> {
  records = [];
  const server = await startApiServer({
    ...{ models: new Map([["m", model]]), port: 0, onRequest: (record) => void records.push(record) },
    ...options,
  });
  running.push(server);
  return server;
}

const clientOf = ({ url }: RunningServer, apiKey = "unused") =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const endless = { model: "m", prompt: "a", max_tokens: 8000, temperature: 0 };

/** Sends raw bytes. @returns what came back until the connection ended */
function raw({ port }: RunningServer, text: string): { socket: Socket; ended: Promise<string> } {
  const socket = connect(port, "127.0.0.1");
  let heard = "";
  const ended = new Promise<string>((resolve) => {
    socket.on("data", (chunk) => {
      heard += chunk.toString("latin1");
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(heard));
  });
  socket.write(text);
  return { socket, ended };
}

const post = (body: string, headers = "") =>
  `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\n${headers}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(5);
}

describe("a stream that is silent", () => {
  it("gets comments, which clients skip, until its first token", async () => {
    // Begins when three comments have come.
    let begin: () => void = () => undefined;
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const late: ServedModel = { ...model, generate: (request) => begun.then(() => model.generate(request)) };
    const server = await start({ models: new Map([["m", late]]), limits: { silentSeconds: 0.01 } });
    const body = JSON.stringify({ model: "m", prompt: "a", max_tokens: 3, temperature: 0, stream: true });
    const { socket, ended } = raw(server, post(body, "content-type: application/json\r\nconnection: close\r\n"));
    let heard = "";
    socket.on("data", (chunk) => {
      heard += chunk.toString("latin1");
    });
    await until(() => heard.split(": waiting\n\n").length > 3);
    expect(heard).not.toContain("data: ");
    begin();
    const text = await ended;
    const events = [...text.matchAll(/^data: (\{.*\})$/gm)].map(([, json = ""]) => JSON.parse(json).choices[0].text);
    expect(events.join("")).toBe("bab");
    expect(text).toContain("data: [DONE]");
    expect(text.split("data: [DONE]")[1]).not.toContain("waiting");
  });
});

describe("200 requests at once, a third of whose clients leave", () => {
  it("are answered as each alone, or noted as left", async () => {
    const server = await start();
    const client = clientOf(server);
    const random = Random.of(1, "storm");
    const requests = Array.from({ length: 200 }, (_, seed) => ({
      body: {
        ...{ model: "m", prompt: random.pick(["a", "b", "ab x", "x".repeat(40)]), seed, logprobs: random.below(3) },
        ...{ max_tokens: random.between(1, 12), temperature: random.pick([0, 1.5]), n: random.pick([1, 1, 3]) },
      },
      leaves: random.chance(1 / 3),
      isStream: random.chance(0.5),
      delay: random.between(0, 300),
    }));
    const ask = async (
      { body, isStream }: Pick<(typeof requests)[number], "body" | "isStream">,
      signal?: AbortSignal,
      onPart?: () => void,
    ) => {
      const texts: string[] = [];
      const scores: (number | undefined)[][] = [];
      const add = ({ index, text, logprobs }: OpenAI.CompletionChoice): void => {
        texts[index] = (texts[index] ?? "") + text;
        scores[index] = [...(scores[index] ?? []), ...(logprobs?.token_logprobs ?? [])];
      };
      const options = signal ? { signal } : {};
      if (!isStream) (await client.completions.create(body, options)).choices.forEach(add);
      else {
        const stream = await client.completions.create({ ...body, stream: true }, options);
        for await (const { choices } of stream) {
          choices.forEach(add);
          onPart?.();
        }
      }
      return { texts, scores };
    };
    const answers = await Promise.all(
      requests.map(async (request) => {
        await sleep(random.between(0, 100));
        if (!request.leaves) return ask(request);
        const controller = new AbortController();
        const leave = () => controller.abort();
        const long = { ...request, body: { ...request.body, prompt: "a", temperature: 0, max_tokens: 6000 } };
        const asked = ask(long, controller.signal, leave).catch((error: unknown) => error);
        // Before it is heard, while it waits, or in the middle of its answer; one that streams leaves after the first part.
        if (!request.isStream) await sleep(request.delay).then(leave);
        // A stream that is aborted ends without an error.
        await asked;
        return undefined;
      }),
    );
    expect(answers.filter((answer) => answer !== undefined).length).toBeGreaterThan(100);
    for (const [i, answer] of answers.entries()) {
      // Every fifth, to save time.
      if (answer && i % 5 === 0) expect(answer).toEqual(await ask(requests[i] as (typeof requests)[number]));
    }
    // Nothing is left to finish or to cancel.
    await server.close();
    const statuses = records.map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200, 499]));
    const streamed = requests.filter(({ leaves, isStream }) => leaves && isStream).length;
    expect(statuses.filter((status) => status === 499).length).toBeGreaterThanOrEqual(streamed);
    expect(statuses.filter((status) => status === 200)).toHaveLength(
      answers.filter(Boolean).length + answers.filter((answer, i) => answer && i % 5 === 0).length,
    );
  });
});

describe("a full queue", () => {
  it("is refused with 429 and when to try again, and has room when clients leave", async () => {
    const server = await start({ queue: 2 });
    const client = clientOf(server);
    const controller = new AbortController();
    const first = client.completions
      .create({ ...endless, n: model.parallel + 2 }, { signal: controller.signal })
      .catch((error: unknown) => error);
    let refused: unknown;
    await until(() => records.length === 0);
    while (!(refused instanceof OpenAI.RateLimitError)) {
      refused = await client.completions.create({ ...endless, max_tokens: 1 }).catch((error: unknown) => error);
    }
    expect(refused).toMatchObject({ status: 429, code: "rate_limit_exceeded", type: "rate_limit_error" });
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    controller.abort();
    expect(await first).toBeInstanceOf(OpenAI.APIUserAbortError);
    await until(() => records.some(({ status }) => status === 499));
    const again = await client.completions.create({ ...endless, max_tokens: 3, n: 10 });
    expect(again.choices.map(({ text }) => text)).toEqual(Array.from({ length: 10 }, () => "bab"));
  });
});

describe("a client", () => {
  it("that asks for a path that is no URL is told that there is none", async () => {
    const server = await start();
    for (const path of ["//", "///", "/\\", "//[", "//v1/models", "http://[", "*"]) {
      const { socket, ended } = raw(server, `GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`);
      expect([path, await ended]).toEqual([path, expect.stringMatching(/^HTTP\/1\.1 404 /)]);
      socket.destroy();
    }
  });

  it("that sends too much is told so, or cut off", async () => {
    const server = await start({ limits: { bodyBytes: 1000 } });
    const long = await raw(server, post(JSON.stringify({ prompt: "a".repeat(2000) }))).ended;
    expect(long).toMatch(/^HTTP\/1\.1 413 .*\{"error":\{"message":"The body has more than 1\.00 kB\."/s);
    const declared = await raw(
      server,
      "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999\r\n\r\na",
    ).ended;
    expect(declared).toMatch(/^HTTP\/1\.1 413 /);
    const chunked = raw(
      server,
      "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n",
    );
    const chunk = `400\r\n${"a".repeat(1024)}\r\n`;
    const sending = setInterval(() => chunked.socket.write(chunk), 1);
    expect(await chunked.ended).toMatch(/^HTTP\/1\.1 413 /);
    clearInterval(sending);
  });

  it("that is slow to send a request is cut off", async () => {
    const server = await start({ limits: { headerSeconds: 0.1, bodySeconds: 0.2 } });
    const headers = raw(server, "POST /v1/completions HTTP/1.1\r\nhost: loc");
    const body = raw(server, "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{");
    expect(await headers.ended).toMatch(/^HTTP\/1\.1 408 /);
    expect(await body.ended).toMatch(/^HTTP\/1\.1 408 /);
    expect(await raw(server, "nonsense\r\n\r\n").ended).toMatch(/^HTTP\/1\.1 400 /);
  });

  it("needs the key, in full", async () => {
    await expect(start({ host: "0.0.0.0" })).rejects.toThrow(
      "0.0.0.0 is reached from other machines, so the server needs an API key",
    );
    const server = await start({ apiKey: "correct horse" });
    for (const key of ["wrong", "correct horsee", "correct hors"]) {
      const refused = await clientOf(server, key)
        .models.list()
        .catch((error: unknown) => error);
      expect(refused).toMatchObject({ status: 401, code: "invalid_api_key" });
    }
    expect((await clientOf(server, "correct horse").models.list()).data).toHaveLength(1);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    expect((await fetch(`${server.url}/v1/models`)).status).toBe(401);
  });

  it("that is a page needs its origin allowed, and a host that is this machine", async () => {
    const status = async (server: RunningServer, headers: string) =>
      Number((await raw(server, `GET /v1/models HTTP/1.1\r\n${headers}connection: close\r\n\r\n`).ended).slice(9, 12));
    const closed = await start();
    expect(await status(closed, "host: localhost:1\r\n")).toBe(200);
    expect(await status(closed, "host: [::1]:1\r\n")).toBe(200);
    expect(await status(closed, "host: evil.example\r\n")).toBe(403);
    expect(await status(closed, "host: 127.0.0.1.evil.example\r\n")).toBe(403);
    expect(await status(closed, "host: localhost\r\norigin: https://evil.example\r\n")).toBe(403);
    expect(await status(closed, "host: localhost\r\norigin: null\r\n")).toBe(403);
    const open = await start({ origins: ["https://page.example"] });
    const headers = { origin: "https://page.example" };
    const reply = await fetch(`${open.url}/v1/models`, { headers });
    expect([reply.status, reply.headers.get("access-control-allow-origin")]).toEqual([200, "https://page.example"]);
    const preflight = await fetch(`${open.url}/v1/completions`, { method: "OPTIONS", headers });
    expect([preflight.status, preflight.headers.get("access-control-allow-methods")]).toEqual([204, "GET, POST"]);
    expect(await status(open, "host: localhost\r\norigin: https://evil.example\r\n")).toBe(403);
  });
});

describe("closing", () => {
  it("finishes answers under way, and refuses new ones", async () => {
    const server = await start();
    const client = clientOf(server);
    const stream = await client.completions.create({ ...endless, max_tokens: 60, stream: true });
    let text = "";
    let closing: Promise<void> | undefined;
    for await (const { choices } of stream) {
      text += choices[0]?.text;
      closing ??= server.close();
    }
    expect(text).toHaveLength(60);
    await closing;
    await expect(client.models.list()).rejects.toThrow(OpenAI.APIConnectionError);
  });

  it("cancels what takes longer, and tells it", async () => {
    const server = await start();
    const client = clientOf(server);
    const streamed: string[] = [];
    const stream = (async () => {
      for await (const { choices } of await client.completions.create({ ...endless, stream: true })) {
        streamed.push(choices[0]?.text ?? "");
      }
    })().catch((error: unknown) => error);
    const whole = client.completions.create(endless).catch((error: unknown) => error);
    const idle = raw(server, "");
    await until(() => streamed.length > 3);
    await server.close(0.05);
    expect(await stream).toMatchObject({ message: "The server is shutting down." });
    expect(await whole).toMatchObject({ status: 503 });
    await idle.ended;
  });

  it("does not wait for requests that a client sent ahead and left", async () => {
    const server = await start();
    const ahead = raw(server, post(JSON.stringify({ ...endless, stream: true })));
    await once(ahead.socket, "data");
    ahead.socket.write(`GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n${post(JSON.stringify(endless))}`);
    // Nothing on the connection tells when the server has read them; another one's answers do.
    for (let i = 0; i < 5; i++) await fetch(`${server.url}/health`);
    ahead.socket.destroy();
    await server.close(3600);
    const paths = records.map(({ path }) => path);
    expect(paths.filter((path) => path === "/health")).toHaveLength(6);
    expect(paths.filter((path) => path === "/v1/completions")).toHaveLength(2);
  });

  it("does not wait for a client that reads nothing", async () => {
    const names = Array.from({ length: 50_000 }, (_, i): [string, ServedModel] => [`model-${i}`, model]);
    const server = await start({ models: new Map(names) });
    const deaf = raw(server, "GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(4));
    deaf.socket.pause();
    for (let i = 0; i < 5; i++) await fetch(`${server.url}/health`);
    await server.close(0);
    expect(records.some(({ path, status }) => path === "/v1/models" && status !== 499)).toBe(true);
    deaf.socket.destroy();
  });
});
