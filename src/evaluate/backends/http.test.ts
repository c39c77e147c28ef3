// Patience with servers: what is asked again and when, what is not, bounds, and stopping.
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  type FakeReply,
  type FakeRequest,
  type FakeServer,
  fakeServer,
} from "../../../test/support/fake-chat-server.js";
import { CancelledError, LayergraftError } from "../../kit/errors.js";
import { answerAll } from "./answering.js";
import { HttpClient, type HttpOptions, ServerError } from "./http.js";

/** Pauses that were asked for, in ms, and those that a test holds until it lets them end. */
const sleeps = vi.hoisted(() => ({ asked: [] as number[], held: undefined as (() => void)[] | undefined }));
vi.mock("node:timers/promises", async (original) => {
  const timers = await original<typeof import("node:timers/promises")>();
  const setTimeout: typeof timers.setTimeout = (milliseconds = 0, value, options) => {
    sleeps.asked.push(milliseconds);
    const { held } = sleeps;
    if (!held) return timers.setTimeout(milliseconds, value, options);
    return new Promise((resolve) => void held.push(() => resolve(value as never)));
  };
  return { ...timers, setTimeout };
});

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

async function setUp(
  answer: (request: FakeRequest, count: number) => FakeReply,
  options: Partial<HttpOptions> = {},
  delay = 0,
): Promise<{ server: FakeServer; http: HttpClient }> {
  const server = await fakeServer(answer, delay);
  const http = new HttpClient({ url: server.url, backoff: 0.01, ...options });
  open.push(http, server);
  return { server, http };
}

describe("transient errors", () => {
  it.each([
    ["an overloaded server", { status: 503 }],
    ["a cut connection", "drop"],
    ["what is not JSON", { status: 200, json: "<html>" }],
    ["a rate limit", { status: 429, headers: { "retry-after": "0" } }],
  ] as const)("are retried: %s", async (_, fault) => {
    const { server, http } = await setUp((__, count) => (count < 3 ? fault : { good: true }));
    await expect(http.post("/x", { a: 1 })).resolves.toEqual({ good: true });
    expect(server.asked("/x")).toEqual([{ a: 1 }, { a: 1 }, { a: 1 }]);
  });

  it("are retried after a timeout", async () => {
    const { http } = await setUp((_, count) => (count < 2 ? "hang" : { good: true }), { timeout: 0.1 });
    await expect(http.post("/x", {})).resolves.toEqual({ good: true });
  });

  it("are not retried forever", async () => {
    const { server, http } = await setUp(() => ({ status: 502, json: { error: "bad\n gateway" } }), { retries: 2 });
    const error = await http.post("/x", {}).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ServerError);
    expect(error).toMatchObject({ status: 502, code: "server" });
    expect((error as Error).message).toBe(`${server.url}/x answered 502: bad gateway (asked 3 times)`);
    expect(server.requests).toHaveLength(3);
  });

  it("are retried after waits that double", async () => {
    const { server, http } = await setUp(() => ({ status: 500 }), { retries: 3, backoff: 0.04 });
    sleeps.asked.length = 0;
    await http.post("/x", {}).catch(() => undefined);
    expect(server.requests).toHaveLength(4);
    expect(sleeps.asked).toHaveLength(3);
    // Half of a wait is by chance, so half of it is certain.
    for (const [i, wait] of sleeps.asked.entries()) {
      expect(wait).toBeGreaterThanOrEqual(20 * 2 ** i);
      expect(wait).toBeLessThanOrEqual(40 * 2 ** i);
    }
  });
});

describe("other errors", () => {
  it.each([400, 401, 404, 422])("are reported at once: %i", async (status) => {
    const { server, http } = await setUp(() => ({ status, json: { error: { message: "no" } } }));
    await expect(http.post("/x", {})).rejects.toThrow(`answered ${status}: no`);
    expect(server.requests).toHaveLength(1);
  });

  it("include a server that does not answer at first", async () => {
    const { server } = await setUp(() => ({}));
    await server.close();
    const http = new HttpClient({ url: server.url });
    await expect(http.get("/v1/models")).rejects.toThrow(/does not answer: .*ECONNREFUSED/);
  });

  it("include a URL that is not one", () => {
    for (const url of ["localhost:80", "ftp://x", "nonsense"]) {
      expect(() => new HttpClient({ url })).toThrow(/http:\/\/host:port/);
    }
  });
});

describe("Retry-After", () => {
  it("holds back all requests, not only the one that was answered with it", async () => {
    const reply = (count: number) =>
      count === 1 ? { status: 429, headers: { "retry-after": "0.3" } } : { good: true };
    let now = 1000;
    const { server, http } = await setUp((_, count) => reply(count), { clock: () => now });
    sleeps.held = [];
    const { held } = sleeps;
    const first = http.post("/x", {});
    await vi.waitFor(() => expect(held).toHaveLength(1));
    const others = [http.post("/x", {}), http.post("/x", {})];
    await vi.waitFor(() => expect(held).toHaveLength(3));
    expect(server.requests).toHaveLength(1);
    expect(sleeps.asked.slice(-2)).toEqual([300, 300]);
    now += 300;
    sleeps.held = undefined;
    for (const release of held) release();
    expect(await Promise.all([first, ...others])).toEqual(Array(3).fill({ good: true }));
  });

  it("may be a date; too long a pause is an error that says so", async () => {
    const later = new Date(Date.now() + 3_600_000).toUTCString();
    const { http } = await setUp(() => ({ status: 503, headers: { "retry-after": later } }));
    await expect(http.post("/x", {})).rejects.toThrow(/asks to retry after (59 min \d\d s|1 h 00 min)$/);
  });
});

describe("a pause without sense", () => {
  it.each(["9".repeat(300), "9".repeat(400), "Infinity", "1e300", "31536000", "soon"])(
    "is taken for none: %s",
    async (retryAfter) => {
      const { server, http } = await setUp(() => ({ status: 429, headers: { "retry-after": retryAfter } }), {
        retries: 1,
      });
      await expect(http.post("/x", {})).rejects.toThrow(/answered 429: .* \(asked 2 times\)$/);
      expect(server.requests).toHaveLength(2);
    },
  );
});

describe("the server's URL", () => {
  it.each(["", "/", "//", "///", "/v1", "/v1//"])("ending in %j is where requests go", async (end) => {
    const { server, http } = await setUp(() => ({ good: true }));
    const other = new HttpClient({ url: `${server.url}${end}?key=1` });
    open.push(other);
    expect(await other.get("/models")).toEqual({ good: true });
    expect(server.requests.map(({ path }) => path)).toEqual([end.startsWith("/v1") ? "/v1/models" : "/models"]);
    expect(http.url).toBe(server.url);
  });

  it("with a login that cannot be decoded is refused", () => {
    expect(() => new HttpClient({ url: "http://me:%zz@localhost" })).toThrow('"http://localhost" is not a server URL');
  });
});

describe("bounds", () => {
  it("holds to the number of requests at once, over as many kept connections", async () => {
    const { server, http } = await setUp(() => ({ good: true }), { concurrency: 4 }, 5);
    const numbers = Array.from({ length: 40 }, (_, i) => i);
    await answerAll(numbers, http.concurrency, async (i, signal) => ({ x: await http.post("/x", { i }, signal) }));
    expect(server.requests).toHaveLength(40);
    expect(server.most).toEqual({ atOnce: 4, connections: 4 });
  });

  it("stops at once, those that wait as well, and warns of nothing with many listeners", async () => {
    const warnings: unknown[] = [];
    const onWarning = (warning: unknown): void => void warnings.push(warning);
    process.on("warning", onWarning);
    const { http } = await setUp(() => "hang", { concurrency: 16 });
    const controller = new AbortController();
    const all = answerAll(
      Array.from({ length: 32 }),
      32,
      async (_, signal) => ({ x: await http.post("/x", {}, signal) }),
      { signal: controller.signal },
    );
    setTimeout(() => controller.abort(), 50);
    // The server never answers, so an end at all is one that was not waited for.
    await expect(all).rejects.toThrow(CancelledError);
    await new Promise((resolve) => setTimeout(resolve, 10));
    process.off("warning", onWarning);
    expect(warnings).toEqual([]);
  });
});

describe("many requests", () => {
  it("come back in their order, refusals as problems of their own", async () => {
    const { http } = await setUp(({ body }) =>
      body.i === 3 ? { status: 400, json: { detail: "too long" } } : { twice: Number(body.i) * 2 },
    );
    const seen: number[] = [];
    const answers = await answerAll(
      [0, 1, 2, 3, 4],
      2,
      async (i, signal) => (await http.post("/x", { i }, signal)) as { twice: number },
      { onResult: (index) => seen.push(index) },
    );
    expect(answers.map((answer) => ("error" in answer ? answer.error.replace(/.*400/, "400") : answer.twice))).toEqual([
      0,
      2,
      4,
      "400: too long",
      8,
    ]);
    expect(seen.sort()).toEqual([0, 1, 2, 3, 4]);
  });

  it("end with what concerns all of them", async () => {
    const { server, http } = await setUp(() => ({ status: 401, json: { error: "who are you?" } }), {}, 5);
    const asking = answerAll(Array.from({ length: 50 }), 4, async (_, signal) => ({
      x: await http.post("/x", {}, signal),
    }));
    await expect(asking).rejects.toThrow(LayergraftError);
    expect(server.requests.length).toBeLessThanOrEqual(8);
  });
});

it("sends the key, and keeps secrets of the address out of messages", async () => {
  const { server, http } = await setUp(() => ({ status: 403 }), { apiKey: "k" });
  await http.post("/x", {}).catch(() => undefined);
  expect(server.requests[0]?.headers.authorization).toBe("Bearer k");
  const secret = new HttpClient({ url: server.url.replace("http://", "http://user:word@") });
  expect(secret.url).toBe(server.url);
});
