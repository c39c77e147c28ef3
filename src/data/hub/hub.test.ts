// The Hub, faked by a local server.
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { hubSettings } from "../../hub/index.js";
import { findSource } from "../source.js";
import { chooseFiles, missingShards } from "./choose.js";
import { type HubDatasetOptions, hubDataset } from "./index.js";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";
const NAME = "org/data.set";
const CARD = `---
configs:
- config_name: sw
  default: true
  data_files:
  - split: train
    path: sw/train-*
  - split: test
    path: [sw/test.jsonl]
- config_name: te
  data_files: te/*.jsonl
---
# A card
`;

interface FakeFile {
  content: Buffer;
  large?: boolean;
}

const root = mkdtempSync(join(tmpdir(), "layergraft-hub-"));
let server: Server;
let endpoint: string;
let cache: string;
let tests = 0;
let files: Record<string, FakeFile>;
let requests: { path: string; range: string | undefined; authorization: string | undefined }[];
/** Bytes after which the connection of each content request breaks. */
let breakAfter: number[];
let status: number;

const sha256 = (content: Buffer) => createHash("sha256").update(content).digest("hex");
const gitHash = (content: Buffer) =>
  createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");
const hashOf = ({ content, large }: FakeFile) => (large ? sha256(content) : gitHash(content));

beforeAll(async () => {
  server = createServer((request, response) => answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.close();
  rmSync(root, { recursive: true });
});
beforeEach(() => {
  cache = join(root, String(tests++));
  requests = [];
  breakAfter = [];
  status = 200;
  files = {
    "README.md": { content: Buffer.from(CARD) },
    "sw/train-00000-of-00002.jsonl": { content: Buffer.from('{"a":1}\n'.repeat(2000)), large: true },
    "sw/train-00001-of-00002.jsonl": { content: Buffer.from('{"a":2}\n') },
    "sw/test.jsonl": { content: Buffer.from('{"a":3}\n') },
    "te/b.jsonl": { content: Buffer.from('{"a":4}\n') },
    "te/a b#1.jsonl": { content: Buffer.from('{"a":5}\n') },
  };
});

function answer(request: IncomingMessage, response: ServerResponse) {
  const url = new URL(request.url ?? "", endpoint);
  const { range, authorization } = request.headers;
  requests.push({ path: decodeURIComponent(url.pathname), range, authorization });
  const json = (value: unknown) => response.setHeader("content-type", "application/json").end(JSON.stringify(value));
  if (status !== 200) {
    response.statusCode = status;
    return json({ error: `refused to ${authorization}. ${"x".repeat(1000)}` });
  }
  const [, revision] = /^\/api\/datasets\/org\/data\.set\/revision\/(.+)$/.exec(decodeURIComponent(url.pathname)) ?? [];
  if (revision !== undefined) {
    if (!["main", "v1", "refs/convert/parquet"].includes(revision)) {
      response.statusCode = 404;
      return json({ error: "Revision not found" });
    }
    return json({ _id: "1", id: NAME, sha: COMMIT, lastModified: "2024-01-01T00:00:00.000Z", siblings: [] });
  }
  if (url.pathname === `/api/datasets/${NAME}/tree/${COMMIT}`) {
    const all = Object.entries(files).map(([path, file]) => ({
      ...{ type: "file", path, size: file.content.length, oid: gitHash(file.content) },
      ...(file.large ? { lfs: { oid: sha256(file.content), size: file.content.length, pointerSize: 130 } } : {}),
    }));
    // Two pages, as large data sets have.
    const second = url.searchParams.get("cursor") !== null;
    if (!second) response.setHeader("link", `<${endpoint}${url.pathname}?recursive=true&cursor=x>; rel="next"`);
    return json(second ? all.slice(2) : [{ type: "directory", path: "sw", size: 0, oid: "0" }, ...all.slice(0, 2)]);
  }
  const prefix = `/datasets/${NAME}/resolve/${COMMIT}/`;
  const file = files[decodeURIComponent(url.pathname).slice(prefix.length)];
  if (!file || !url.pathname.startsWith(prefix)) {
    response.statusCode = 404;
    return response.setHeader("x-error-code", "EntryNotFound").end();
  }
  const [, from = "0", to] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? [];
  const last = to ? Number(to) : file.content.length - 1;
  const part = file.content.subarray(Number(from), last + 1);
  response.setHeader("etag", `"${hashOf(file)}"`);
  if (range !== undefined) {
    response.statusCode = 206;
    response.setHeader("content-range", `bytes ${from}-${last}/${file.content.length}`);
  }
  response.setHeader("content-length", part.length);
  const most = range === "bytes=0-0" ? undefined : breakAfter.shift();
  // A whole answer must not break: its connection may carry the next request by then.
  if (most === undefined || most >= part.length) return response.end(part);
  // Late enough that the other side has read what came: an error discards what it has not.
  response.write(part.subarray(0, most), () => setTimeout(() => response.destroy(), most === 0 ? 5 : 100));
}

function fetchSet(options: Partial<HubDatasetOptions> = {}, environment: Record<string, string> = {}) {
  const own = { HF_ENDPOINT: endpoint, HF_HOME: cache, HF_HUB_DISABLE_IMPLICIT_TOKEN: "1" };
  return hubDataset({ name: NAME, environment: { ...own, ...environment }, retryDelay: 1, ...options });
}

const folderOf = () => join(cache, "hub/datasets--org--data.set");
const contents = () => requests.filter(({ path, range }) => path.startsWith("/datasets/") && range !== "bytes=0-0");

describe("the cache", () => {
  it("has the layout of huggingface_hub", async () => {
    const { commit, files: found } = await fetchSet();
    expect(commit).toBe(COMMIT);
    const snapshot = join(folderOf(), "snapshots", COMMIT);
    expect(found).toEqual([0, 1].map((i) => join(snapshot, `sw/train-0000${i}-of-00002.jsonl`)));
    expect(found.map((file) => readFileSync(file))).toEqual(
      [0, 1].map((i) => files[`sw/train-0000${i}-of-00002.jsonl`]?.content),
    );
    const large = files["sw/train-00000-of-00002.jsonl"] as FakeFile;
    expect(readlinkSync(found[0] ?? "")).toBe(`../../../blobs/${sha256(large.content)}`);
    expect(readlinkSync(join(snapshot, "README.md"))).toBe(`../../blobs/${gitHash(Buffer.from(CARD))}`);
    expect(readFileSync(join(folderOf(), "refs/main"), "utf8")).toBe(COMMIT);
    expect(readdirSync(join(folderOf(), "blobs")).filter((name) => name.includes("incomplete"))).toEqual([]);
  });

  it("is used the second time, and alone when offline", async () => {
    const first = await fetchSet();
    requests = [];
    expect(await fetchSet()).toEqual(first);
    expect(contents()).toEqual([]);
    requests = [];
    expect(await fetchSet({}, { HF_HUB_OFFLINE: "1" })).toEqual(first);
    expect(await fetchSet({ revision: COMMIT }, { HF_HUB_OFFLINE: "yes" })).toEqual(first);
    expect(requests).toEqual([]);
    await expect(fetchSet({ split: "test" }, { HF_HUB_OFFLINE: "1" })).rejects.toThrow(/has no data files|no file/);
    await expect(fetchSet({ revision: "v1" }, { HF_HUB_OFFLINE: "1" })).rejects.toThrow(/v1\) is not in the cache/);
    rmSync(join(folderOf(), "snapshots", COMMIT, "sw/train-00001-of-00002.jsonl"));
    await expect(fetchSet({}, { HF_HUB_OFFLINE: "1" })).rejects.toThrow(
      /only 1 of 2 parts of sw\/train are in the cache/,
    );
  });

  it("keeps refs with slashes in folders, and reads caches that others made", async () => {
    await fetchSet({ revision: "refs/convert/parquet" });
    expect(readFileSync(join(folderOf(), "refs/refs/convert/parquet"), "utf8")).toBe(COMMIT);
    const other = join(root, "other");
    const snapshot = join(other, "datasets--org--data.set/snapshots", COMMIT);
    mkdirSync(join(other, "datasets--org--data.set/refs"), { recursive: true });
    mkdirSync(snapshot, { recursive: true });
    writeFileSync(join(other, "datasets--org--data.set/refs/main"), COMMIT);
    writeFileSync(join(snapshot, "train.json"), "[]");
    const environment = { HF_HUB_CACHE: other, HF_HUB_OFFLINE: "TRUE" };
    expect((await fetchSet({}, environment)).files).toEqual([join(snapshot, "train.json")]);
  });
});

describe("downloads", () => {
  it("resume where the connection broke", async () => {
    // The card arrives whole; then the large file breaks twice.
    breakAfter = [1e6, 5000, 7000];
    const states: { done: number; total: number }[] = [];
    const { files: found } = await fetchSet({ onProgress: (state) => states.push(state) });
    expect(readFileSync(found[0] ?? "")).toEqual(files["sw/train-00000-of-00002.jsonl"]?.content);
    expect(contents().map(({ range }) => range)).toEqual([
      undefined,
      undefined,
      "bytes=5000-15999",
      "bytes=12000-15999",
      undefined,
    ]);
    expect(states.at(-1)).toEqual({ done: 16008, total: 16008 });
    expect(states.every((state, i) => state.done >= (states[i - 1]?.done ?? 0))).toBe(true);
  });

  it("resume in a later run", async () => {
    breakAfter = [1e6, 6000, 0, 0, 0, 0, 0];
    await expect(fetchSet()).rejects.toThrow(/could not be downloaded|ended after 6000 of 16000/);
    const large = sha256((files["sw/train-00000-of-00002.jsonl"] as FakeFile).content);
    expect(readdirSync(join(folderOf(), "blobs")).sort()).toEqual(
      [`${large}.incomplete`, gitHash(Buffer.from(CARD))].sort(),
    );
    expect(existsSync(join(folderOf(), "refs"))).toBe(false);
    breakAfter = [];
    requests = [];
    const { files: found } = await fetchSet();
    expect(readFileSync(found[0] ?? "")).toEqual(files["sw/train-00000-of-00002.jsonl"]?.content);
    expect(contents()[0]?.range).toBe("bytes=6000-15999");
  });

  it("never keep content with another hash", async () => {
    const file = files["sw/train-00000-of-00002.jsonl"] as FakeFile;
    const announced = sha256(file.content);
    mkdirSync(join(folderOf(), "blobs"), { recursive: true });
    writeFileSync(join(folderOf(), "blobs", `${announced}.incomplete`), "something else that was there");
    await expect(fetchSet()).rejects.toThrow(/has the hash [0-9a-f]{64} where [0-9a-f]{64} was announced/);
    expect(readdirSync(join(folderOf(), "blobs"))).not.toContain(announced);
    expect((await fetchSet()).files).toHaveLength(2);
  });

  it("stop when the signal fires, and keep what is here", async () => {
    const controller = new AbortController();
    const onProgress = () => controller.abort();
    await expect(fetchSet({ onProgress, signal: controller.signal })).rejects.toMatchObject({ name: "CancelledError" });
    expect((await fetchSet()).files).toHaveLength(2);
  });

  it("name files with any characters, and send the token to the hub", async () => {
    const { files: found } = await fetchSet({ config: "te" }, { HF_TOKEN: "a-token-of-a-mirror" });
    expect(found.map((file) => readFileSync(file, "utf8"))).toEqual(['{"a":5}\n', '{"a":4}\n']);
    expect(new Set(requests.map(({ authorization }) => authorization))).toEqual(
      new Set(["Bearer a-token-of-a-mirror"]),
    );
    await fetchSet();
    expect(requests.at(-1)?.authorization).toBeUndefined();
  });

  it.each(["../../../evil.json", "/etc/evil.json", "a//b.json", "C:\\evil.json", "a/../../b.json"])(
    "refuse the path %s",
    async (path) => {
      files[path] = { content: Buffer.from("[]") };
      await expect(fetchSet()).rejects.toThrow(/is not a path in a repository/);
    },
  );
});

describe("errors", () => {
  it.each([
    [401, /cannot be read: .* Set HF_TOKEN/],
    [403, /cannot be read/],
    [404, /org\/data\.set \(main\) is not a data set on the Hub/],
    [500, /could not be downloaded from http/],
  ])("of status %i say what to do", async (code, message) => {
    status = code;
    await expect(fetchSet()).rejects.toThrow(message);
  });

  it("have no token, and few lines of the Hub's answer", async () => {
    status = 500;
    const error: unknown = await fetchSet({}, { HF_TOKEN: "hf_a-token" }).catch((caught: unknown) => caught);
    expect((error as Error).message).toMatch(/: refused to Bearer \[redacted\]\. x{200,300}/);
    expect((error as Error).message.length).toBeLessThan(400);
  });

  it("of the network name the server, and the cache if there is one", async () => {
    const nowhere = { HF_ENDPOINT: "http://127.0.0.1:9" };
    await expect(fetchSet({}, nowhere)).rejects.toThrow(/could not be downloaded from http:\/\/127\.0\.0\.1:9: /);
    await fetchSet();
    await expect(fetchSet({}, nowhere)).rejects.toThrow(/HF_HUB_OFFLINE=1 uses what is in the cache/);
  });

  it("of names come before any request", async () => {
    for (const name of ["one", "../x/y", "a/b/c", "a/.b"])
      await expect(fetchSet({ name })).rejects.toThrow(/not the name/);
    await expect(fetchSet({ revision: "../../x" })).rejects.toThrow(/not a path/);
    expect(requests).toEqual([]);
  });
});

describe("settings", () => {
  it("are those of huggingface_hub", async () => {
    const home = join(root, "home");
    mkdirSync(home, { recursive: true });
    writeFileSync(join(home, "token"), "stored\n");
    expect(await hubSettings({ HF_HOME: home, HF_ENDPOINT: "https://mirror.example/" })).toEqual({
      ...{ endpoint: "https://mirror.example", token: "stored", offline: false, cache: join(home, "hub") },
    });
    const own = { HF_HOME: home, HF_TOKEN: " own ", HUGGINGFACE_HUB_CACHE: "/c", HF_HUB_OFFLINE: "on" };
    expect(await hubSettings(own)).toMatchObject({ token: "own", cache: "/c", offline: true });
    expect((await hubSettings({ XDG_CACHE_HOME: "/x", HF_HUB_OFFLINE: "0" })).cache).toBe("/x/huggingface/hub");
    expect((await hubSettings({ HF_HOME: home, HF_HUB_DISABLE_IMPLICIT_TOKEN: "1" })).token).toBeUndefined();
  });
});

describe("the choice of files", () => {
  const paths = [
    "README.md",
    "data/train-00000-of-00001.parquet",
    "data/test-00000-of-00001.parquet",
    "dataset_infos.json",
  ];

  it("follows the card", () => {
    const all = ["sw/train-0.jsonl", "sw/test.jsonl", "te/a.jsonl", "te/a.md"];
    expect(chooseFiles("d", all, CARD, {})).toEqual(["sw/train-0.jsonl"]);
    expect(chooseFiles("d", all, CARD, { split: "test" })).toEqual(["sw/test.jsonl"]);
    expect(chooseFiles("d", all, CARD, { config: "te" })).toEqual(["te/a.jsonl"]);
    expect(() => chooseFiles("d", all, CARD, { config: "fr" })).toThrow('d has no configuration "fr"; it has sw, te');
    expect(() => chooseFiles("d", all, CARD, { split: "dev" })).toThrow(
      'd, sw, has no split "dev"; it has train, test',
    );
    expect(() => chooseFiles("d", all, CARD.replace("  default: true\n", ""), {})).toThrow(
      /several configurations\. Choose one \(config: sw, te\)/,
    );
  });

  it("follows names if the card has no configurations", () => {
    expect(chooseFiles("d", paths, "no head", {})).toEqual(["data/train-00000-of-00001.parquet"]);
    expect(chooseFiles("d", paths, undefined, { split: "test" })).toEqual(["data/test-00000-of-00001.parquet"]);
    expect(chooseFiles("d", ["a.json", "b.json", "x.csv"], undefined, {})).toEqual(["a.json", "b.json"]);
    expect(
      chooseFiles(
        "d",
        ["data/swahili_train-00000-of-00001.parquet", "data/swahili_dev-00000-of-00001.parquet"],
        undefined,
        { split: "swahili_dev" },
      ),
    ).toEqual(["data/swahili_dev-00000-of-00001.parquet"]);
    expect(() => chooseFiles("d", ["a/validation.json", "a/test.json"], undefined, {})).toThrow(
      /several splits.*test, validation/,
    );
    expect(chooseFiles("d", ["sw/x.json", "te/x.json"], undefined, { config: "te" })).toEqual(["te/x.json"]);
    expect(() => chooseFiles("d", ["sw/x.json"], undefined, { config: "te" })).toThrow(/its folders are sw/);
    expect(() => chooseFiles("d", ["nllb.py", "README.md"], undefined, {})).toThrow(
      /has no data files .* refs\/convert\/parquet/,
    );
  });

  it("takes patterns instead", () => {
    const all = ["sw/a.jsonl", "sw/flores.jsonl", "te/a.jsonl"];
    expect(chooseFiles("d", all, CARD, { files: ["sw/*"], exclude: ["**/*flores*"] })).toEqual(["sw/a.jsonl"]);
    expect(() => chooseFiles("d", all, CARD, { files: ["fr/*"] })).toThrow(/no file like fr\/\*; it has sw\/a\.jsonl/);
  });

  it("ignores cards that are not YAML, or have too much of it", () => {
    const head = (text: string) => `---\n${text}\n---\n`;
    for (const text of ["configs: [", "configs: 7", "configs: [{config_name: x}]", "a: &a [*a]\nconfigs: *a", "- x"]) {
      expect(chooseFiles("d", paths, head(text), {})).toEqual(["data/train-00000-of-00001.parquet"]);
    }
  });

  it("finds missing parts", () => {
    expect(missingShards(["a-00000-of-00002.parquet", "b-00000-of-00001.parquet", "c.json"])).toEqual([
      "1 of 2 parts of a",
    ]);
    expect(
      missingShards(["x/a-00000-of-00002-0123456789abcdef.parquet", "x/a-00001-of-00002-0123456789abcdef.parquet"]),
    ).toEqual([]);
  });
});

describe("a source", () => {
  const environment = () => ({ HF_ENDPOINT: endpoint, HF_HOME: cache, HF_HUB_DISABLE_IMPLICIT_TOKEN: "1" });

  it("is what exists here, otherwise on the Hub", async () => {
    const folder = join(root, "source");
    mkdirSync(join(folder, "org/data.set/sub"), { recursive: true });
    for (const name of ["a.json", "sub/b.json"]) writeFileSync(join(folder, "org/data.set", name), "[]");
    const here = (names: string[]) => names.map((name) => join(folder, "org/data.set", name));
    const options = { folder, environment: environment() };
    expect(await findSource({ source: NAME }, options)).toEqual({
      files: here(["a.json", "sub/b.json"]),
      commit: undefined,
    });
    expect((await findSource({ source: NAME, files: ["sub/*"] }, options)).files).toEqual(here(["sub/b.json"]));
    expect((await findSource({ source: NAME, exclude: ["sub/*"] }, options)).files).toEqual(here(["a.json"]));
    await expect(findSource({ source: NAME, split: "train" }, options)).rejects.toThrow(
      /has no split\. .* hub:org\/data\.set/,
    );
    expect((await findSource({ source: `hub:${NAME}`, split: "train" }, options)).commit).toBe(COMMIT);
    expect((await findSource({ source: NAME }, { folder: root, environment: environment() })).commit).toBe(COMMIT);
    await expect(findSource({ source: "./absent.json" }, options)).rejects.toThrow(/absent\.json does not exist/);
    await expect(findSource({ source: "folder/absent.jsonl" }, options)).rejects.toThrow(/does not exist/);
    mkdirSync(join(folder, "data"));
    writeFileSync(join(folder, "data/c.jsonl"), "{}");
    expect((await findSource({ source: "data" }, options)).files).toEqual([join(folder, "data/c.jsonl")]);
    await expect(findSource({ source: "orca-maths" }, options)).rejects.toThrow(/did you mean orca-math\?/);
  });
});
