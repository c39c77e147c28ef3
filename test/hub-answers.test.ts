// A hub that does not answer, or something else that answers in its place.
// @module-tag slow
import { mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type HubSettings, openRepository, uploadFiles } from "../src/formats/hub/index.js";
import { HubError } from "../src/kit/index.js";
import { temporaryFolder } from "./support/checkpoints.js";
import { FakeHub } from "./support/fake-hub.js";

const root = temporaryFolder();
const NAME = "org/model";
const content = Buffer.from("content");
const large = Buffer.alloc(100, "x");
let hub: FakeHub;
let settings: HubSettings;

beforeAll(async () => {
  hub = await FakeHub.start();
  mkdirSync(join(root, "model"));
  writeFileSync(join(root, "model/config.json"), content);
  writeFileSync(join(root, "model/model.safetensors"), large);
  hub.push(NAME, join(root, "model"));
  settings = { endpoint: hub.endpoint, token: hub.token, offline: false, cache: join(root, "cache") };
});
beforeEach(() => {
  hub.requests = [];
  hub.refusals = [];
  hub.trickle = undefined;
  hub.slow = undefined;
});

const open = (timeout = 5000) => openRepository(settings, { type: "model", name: NAME, retryDelay: 1, timeout });
const push = (name = NAME, timeout = 5000) =>
  uploadFiles(settings, {
    ...{ name, message: "test", retryDelay: 1, timeout },
    files: [{ path: "new.safetensors", content, bytes: content.length }],
  });
const noAnswer = () => `${hub.endpoint} does not answer. Check the connection or HF_ENDPOINT, then run again.`;
const notTheHub = () =>
  `${hub.endpoint} sent an answer that is not the hub's. A proxy or login page may be in between.`;

describe("a hub that sends a byte now and then", () => {
  it.each([/whoami/, /preupload/])("for %s stops a push", async (path) => {
    hub.trickle = { path, ms: 20 };
    await expect(push(NAME, 100)).rejects.toThrow(noAnswer());
  });

  it.each([/revision/, /tree/])("for %s is reported", async (path) => {
    hub.trickle = { path, ms: 20 };
    await expect(open(100)).rejects.toThrow(noAnswer());
  });

  it("for contents is reported after five attempts, each of which brings something", async () => {
    const repository = await open(100);
    const file = repository.files.get("model.safetensors");
    if (!file) throw new Error("no file");
    hub.requests = [];
    hub.slow = { bytes: 1, ms: 60 };
    await expect(repository.read(file, 0, 100)).rejects.toThrow(
      /^model\.safetensors of org\/model ended after \d+ of 100 bytes, 5 times in a row\. Check the connection/,
    );
    expect(hub.requests.filter(({ origin }) => origin === "storage")).toHaveLength(5);
  });

  it("but enough of them is waited for", async () => {
    const repository = await open(100);
    const file = repository.files.get("model.safetensors");
    if (!file) throw new Error("no file");
    hub.slow = { bytes: 20, ms: 60 };
    expect(Buffer.from(await repository.read(file, 0, 100))).toEqual(large);
  });
});

describe("a hub that does not answer", () => {
  it.each([
    ["nothing", /revision/],
    ["headers", /revision/],
    ["nothing", /tree/],
    ["headers", /tree/],
  ] as const)("and sends %s for %s is asked twice, then reported", async (silentAfter, path) => {
    hub.refusals = [{ status: 200, silentAfter, path }];
    expect((await open(100)).files.size).toBe(2);
    hub.requests = [];
    hub.refusals = Array(9).fill({ status: 200, silentAfter, path });
    await expect(open(100)).rejects.toThrow(noAnswer());
    expect(hub.requests.filter((request) => path.test(request.path))).toHaveLength(2);
  });

  it.each([/whoami/, /preupload/, /batch/, /revision/])("for %s stops a push", async (path) => {
    hub.refusals = Array(9).fill({ status: 200, silentAfter: "nothing", path });
    await expect(push(NAME, 100)).rejects.toThrow(noAnswer());
  });

  it("for contents is reported, and the cache named where it can be used", async () => {
    const repository = await open(100);
    await repository.remember();
    const file = repository.files.get("config.json");
    if (!file) throw new Error("no file");
    hub.refusals = Array(9).fill({ status: 200, silentAfter: "nothing" });
    await expect(repository.read(file, 0, 7)).rejects.toThrow(
      `${noAnswer()} HF_HUB_OFFLINE=1 uses what is in the cache.`,
    );
    hub.refusals = [];
    expect(Buffer.from(await repository.read(file, 0, 7))).toEqual(content);
  });
});

describe("an answer that is not the hub's", () => {
  const html = "<html><title>Welcome to our network</title></html>";

  it.each(
    [html, "", "null", "[null]", '{"a":1}', "5"].flatMap((body) => [
      [body, /revision/] as const,
      [body, /tree/] as const,
    ]),
  )("%j for %s is reported", async (body, path) => {
    hub.refusals = [{ status: 200, body, path }];
    await expect(open()).rejects.toThrow(notTheHub());
  });

  it.each([
    ...[/whoami/, /revision/, /tree/, /preupload/, /batch/, /commit/].flatMap((path) =>
      [html, "null", "[null]", '{"a":1}'].map((body) => [body, path] as const),
    ),
    ['{"auth":{},"type":"user","name":"tester","orgs":[null]}', /whoami/] as const,
    ['{"files":[null]}', /preupload/] as const,
    ['{"files":[]}', /preupload/] as const,
    ['{"objects":[]}', /batch/] as const,
  ])("%j for %s stops a push", async (body, path) => {
    hub.refusals = [{ status: 200, body, path }];
    await expect(push()).rejects.toThrow(notTheHub());
  });

  it("and a file that changes while it is pushed end a push", async () => {
    const file = join(root, "changing.safetensors");
    writeFileSync(file, content);
    const pushed = uploadFiles(settings, {
      ...{ name: NAME, message: "test", retryDelay: 1, timeout: 5000 },
      files: [{ path: "changing.safetensors", content: file, bytes: content.length }],
      onProgress: ({ phase }) => {
        if (phase === "uploading") utimesSync(file, 0, 0);
      },
    });
    await expect(pushed).rejects.toThrow("changing.safetensors changed while it was pushed. Push org/model again.");
  });

  it("to the creation of a repository stops a push", async () => {
    hub.refusals = [{ status: 200, body: html, path: /create/ }];
    await expect(push("org/other")).rejects.toThrow(notTheHub());
  });
});

describe("a status line", () => {
  it.each([
    [403, "\u0001Forbidden\u001b[2J", /The token may not write to org\/model\..*The Hub says: /s],
    [500, "\u0001\u001b]0;x\u0007", /org\/model could not be pushed to .*\. Push again/s],
    [600, "Odd", /sent an answer that is not the hub's/],
    [999, "\u0001", /sent an answer that is not the hub's/],
  ])("of %i with %j is reported in a sentence", async (status, reason, message) => {
    hub.refusals = Array(9).fill({ status, reason, path: /preupload/ });
    const error = await push().catch((one: unknown) => one);
    expect(error).toBeInstanceOf(HubError);
    expect((error as Error).message).toMatch(message);
    hub.refusals = Array(9).fill({ status, reason, path: /tree/ });
    await expect(open()).rejects.toThrow(HubError);
  });

  it("of a right answer may say anything", async () => {
    hub.refusals = [{ status: 205, reason: "\u0001", body: "[]", path: /tree/ }];
    await expect(open()).rejects.toThrow(notTheHub());
    hub.refusals = [{ status: 203, reason: "\u0001\u001b[2J", body: "[]", path: /tree/ }];
    expect((await open()).files.size).toBe(0);
  });
});

describe("a listing", () => {
  it("that repeats a page is not followed", async () => {
    const link = `${hub.endpoint}/api/models/${NAME}/tree/main?cursor=1`;
    hub.refusals = Array(9).fill({ status: 200, body: "[]", link, path: /tree/ });
    await expect(open()).rejects.toThrow(`The listing of ${NAME} repeats a page without end.`);
    expect(hub.requests.filter(({ path }) => path.includes("/tree/"))).toHaveLength(2);
  });

  it("of too many pages is not followed", async () => {
    hub.refusals = Array.from({ length: 201 }, (_, cursor) => ({
      ...{ status: 200, body: "[]", path: /tree/ },
      link: `${hub.endpoint}/api/models/${NAME}/tree/main?cursor=${cursor}`,
    }));
    await expect(push()).rejects.toThrow(`${NAME} has more than 100,000 files, or its listing has more than 200 pages`);
    expect(hub.refusals).toHaveLength(1);
  });

  it("of too many files is not read", async () => {
    const oid = "0".repeat(40);
    const entries = Array.from({ length: 100_001 }, (_, i) => ({ type: "file", path: `${i}`, size: 1, oid }));
    hub.refusals = [{ status: 200, body: JSON.stringify(entries), path: /tree/ }];
    await expect(open()).rejects.toThrow(/more than 100,000 files/);
  });
});

describe("a redirect", () => {
  it.each(["file:///etc/hostname", "ftp://example.org/file", "http://"])("to %s is refused", async (link) => {
    const repository = await open();
    const file = repository.files.get("model.safetensors");
    if (!file) throw new Error("no file");
    hub.refusals = [{ status: 302, link, path: /resolve/ }];
    await expect(repository.read(file, 0, 7)).rejects.toThrow("the hub redirects to an address that is not http");
  });
});
