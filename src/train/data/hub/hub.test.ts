// Data sets of the fake hub.
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
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { type FakeFile, FakeHub, fakeFile } from "../../../../test/support/fake-hub.js";
import { hubSettings } from "../../../formats/hub/index.js";
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

const root = mkdtempSync(join(tmpdir(), "layergraft-hub-"));
let hub: FakeHub;
let cache: string;
let tests = 0;
let files: Map<string, FakeFile>;

const LARGE = Buffer.from('{"a":1}\n'.repeat(2000));
const sha256 = (content: Buffer) => createHash("sha256").update(content).digest("hex");
const gitHash = (content: Buffer) =>
  createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");

beforeAll(async () => {
  hub = await FakeHub.start();
});
afterAll(() => rmSync(root, { recursive: true }));
beforeEach(() => {
  cache = join(root, String(tests++));
  hub.requests = [];
  hub.cuts = [];
  hub.refusals = [];
  const small = {
    "README.md": CARD,
    "sw/train-00001-of-00002.jsonl": '{"a":2}\n',
    "sw/test.jsonl": '{"a":3}\n',
    "te/b.jsonl": '{"a":4}\n',
    "te/a b#1.jsonl": '{"a":5}\n',
  };
  const hash = sha256(LARGE);
  files = new Map(Object.entries(small).map(([path, text]) => [path, fakeFile(path, Buffer.from(text))]));
  files.set("sw/train-00000-of-00002.jsonl", { ...fakeFile("large", LARGE), sha256: hash });
  hub.objects.set(hash, LARGE);
  const refs = new Map(["main", "v1", "refs/convert/parquet"].map((ref) => [ref, COMMIT]));
  const commits = new Map([[COMMIT, files]]);
  hub.repositories.set(`datasets/${NAME}`, { commits, refs, gated: false, private: false });
});

function fetchSet(options: Partial<HubDatasetOptions> = {}, environment: Record<string, string> = {}) {
  const own = { HF_ENDPOINT: hub.endpoint, HF_HOME: cache, HF_HUB_DISABLE_IMPLICIT_TOKEN: "1" };
  return hubDataset({ name: NAME, environment: { ...own, ...environment }, retryDelay: 1, ...options });
}

const folderOf = () => join(cache, "hub/datasets--org--data.set");
/** Requests that were answered with content, not with a redirect to it. */
const contents = () =>
  hub.requests.filter(
    ({ path, origin, bytes }) => origin === "storage" || (path.startsWith("/datasets/") && bytes > 0),
  );
const authorizations = () => hub.requests.map(({ headers }) => JSON.parse(headers).authorization);

describe("the cache", () => {
  it("has the layout of huggingface_hub", async () => {
    const { commit, files: found } = await fetchSet();
    expect(commit).toBe(COMMIT);
    const snapshot = join(folderOf(), "snapshots", COMMIT);
    expect(found).toEqual([0, 1].map((i) => join(snapshot, `sw/train-0000${i}-of-00002.jsonl`)));
    expect(found.map((file) => readFileSync(file))).toEqual(
      [0, 1].map((i) => files.get(`sw/train-0000${i}-of-00002.jsonl`)?.content),
    );
    expect(readlinkSync(found[0] ?? "")).toBe(`../../../blobs/${sha256(LARGE)}`);
    expect(readlinkSync(join(snapshot, "README.md"))).toBe(`../../blobs/${gitHash(Buffer.from(CARD))}`);
    expect(readFileSync(join(folderOf(), "refs/main"), "utf8")).toBe(COMMIT);
    expect(readdirSync(join(folderOf(), "blobs")).filter((name) => name.includes("incomplete"))).toEqual([]);
  });

  it("is used the second time, and alone when offline", async () => {
    const first = await fetchSet();
    hub.requests = [];
    expect(await fetchSet()).toEqual(first);
    expect(contents()).toEqual([]);
    hub.requests = [];
    expect(await fetchSet({}, { HF_HUB_OFFLINE: "1" })).toEqual(first);
    expect(await fetchSet({ revision: COMMIT }, { HF_HUB_OFFLINE: "yes" })).toEqual(first);
    expect(hub.requests).toEqual([]);
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
    hub.cuts = [1e6, 5000, 7000];
    const states: { done: number; total: number }[] = [];
    const { files: found } = await fetchSet({ onProgress: (state) => states.push(state) });
    expect(readFileSync(found[0] ?? "")).toEqual(LARGE);
    expect(contents().map(({ range }) => range)).toEqual([
      undefined,
      undefined,
      "bytes=5000-15999",
      "bytes=12000-15999",
      undefined,
    ]);
    expect(states.at(-1)).toEqual({ phase: "downloading", done: 16008, total: 16008, unit: "bytes" });
    expect(states.every((state, i) => state.done >= (states[i - 1]?.done ?? 0))).toBe(true);
  });

  it("resume in a later run", async () => {
    hub.cuts = [1e6, 6000, 0, 0, 0, 0, 0];
    await expect(fetchSet()).rejects.toThrow(/could not be downloaded|ended after 6000 of 16000/);
    const large = sha256(LARGE);
    expect(readdirSync(join(folderOf(), "blobs")).sort()).toEqual(
      [`${large}.layergraft.incomplete`, gitHash(Buffer.from(CARD))].sort(),
    );
    expect(existsSync(join(folderOf(), "refs"))).toBe(false);
    hub.cuts = [];
    hub.requests = [];
    const { files: found } = await fetchSet();
    expect(readFileSync(found[0] ?? "")).toEqual(LARGE);
    expect(contents()[0]?.range).toBe("bytes=6000-15999");
  });

  it("never keep content with another hash", async () => {
    const announced = sha256(LARGE);
    mkdirSync(join(folderOf(), "blobs"), { recursive: true });
    writeFileSync(join(folderOf(), "blobs", `${announced}.layergraft.incomplete`), "something else that was there");
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
    expect(new Set(authorizations())).toEqual(new Set(["Bearer a-token-of-a-mirror"]));
    await fetchSet();
    expect(authorizations().at(-1)).toBeUndefined();
  });

  it.each(["../../../evil.json", "/etc/evil.json", "a//b.json", "C:\\evil.json", "a/../../b.json"])(
    "refuse the path %s",
    async (path) => {
      files.set(path, fakeFile(path, Buffer.from("[]")));
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
    hub.refusals = Array(9).fill({ status: code });
    await expect(fetchSet()).rejects.toThrow(message);
  });

  it("have no token, and few lines of the Hub's answer", async () => {
    hub.refusals = Array(9).fill({ status: 500 });
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
    expect(hub.requests).toEqual([]);
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

  it("that no request can take are refused without printing them", async () => {
    const home = join(root, "other-home");
    mkdirSync(home, { recursive: true });
    writeFileSync(join(home, "token"), "hf_one\nhf_two\n");
    const token =
      /^The Hugging Face token has a space, a line break or another character that no token has\. Set HF_TOKEN/;
    await expect(hubSettings({ HF_HOME: home })).rejects.toThrow(token);
    await expect(hubSettings({ HF_TOKEN: "hf_é" })).rejects.toThrow(token);
    const address = /^HF_ENDPOINT is not an address such as https:/;
    await expect(hubSettings({ HF_ENDPOINT: "nonsense" })).rejects.toThrow(address);
    await expect(hubSettings({ HF_ENDPOINT: "file:///etc" })).rejects.toThrow(address);
    await expect(hubSettings({ HF_ENDPOINT: "https://user:secret@mirror.example" })).rejects.toThrow(
      /^HF_ENDPOINT has a user or password in it\. Remove it, and pass a token in HF_TOKEN\.$/,
    );
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
  const environment = () => ({ HF_ENDPOINT: hub.endpoint, HF_HOME: cache, HF_HUB_DISABLE_IMPLICIT_TOKEN: "1" });

  it("is what exists here, otherwise on the Hub", async () => {
    const folder = join(root, "source");
    mkdirSync(join(folder, "org/data.set/sub"), { recursive: true });
    for (const name of ["a.json", "sub/b.json"]) writeFileSync(join(folder, "org/data.set", name), "[]");
    const here = (names: string[]) => names.map((name) => join(folder, "org/data.set", name));
    const options = { folder, environment: environment() };
    expect(await findSource({ source: NAME }, options)).toEqual(here(["a.json", "sub/b.json"]));
    expect(await findSource({ source: NAME, files: ["sub/*"] }, options)).toEqual(here(["sub/b.json"]));
    expect(await findSource({ source: NAME, exclude: ["sub/*"] }, options)).toEqual(here(["a.json"]));
    await expect(findSource({ source: NAME, split: "train" }, options)).rejects.toThrow(
      /has no split\. .* hub:org\/data\.set/,
    );
    expect((await findSource({ source: `hub:${NAME}`, split: "train" }, options))[0]).toContain(COMMIT);
    expect((await findSource({ source: NAME }, { folder: root, environment: environment() }))[0]).toContain(COMMIT);
    await expect(findSource({ source: "./absent.json" }, options)).rejects.toThrow(/absent\.json does not exist/);
    await expect(findSource({ source: "folder/absent.jsonl" }, options)).rejects.toThrow(/does not exist/);
    mkdirSync(join(folder, "data"));
    writeFileSync(join(folder, "data/c.jsonl"), "{}");
    expect(await findSource({ source: "data" }, options)).toEqual([join(folder, "data/c.jsonl")]);
    await expect(findSource({ source: "orca-maths" }, options)).rejects.toThrow(/did you mean orca-math\?/);
  });
});
