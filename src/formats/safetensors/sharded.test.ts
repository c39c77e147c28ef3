// Folders of weights: indexed, numbered, single, adapters, pickled, incomplete and hostile.
import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import { entry, fileOf, type Problem, problemOf, temporaryFolder } from "../../../test/support/safetensors-files.js";
import { INDEX_FILE, MAX_SHARDS, openShards, SINGLE_FILE, shardName } from "./sharded.js";

const [ONE, TWO, THREE] = [shardName(1, 3), shardName(2, 3), shardName(3, 3)];

/** A safetensors file with a byte for each of these tensors. */
const holding = (...names: string[]) =>
  fileOf(`{${names.map((name, i) => entry(name, "U8", [1], i, i + 1)).join()}}`, names.length);

const index = (weightMap: unknown) => JSON.stringify({ metadata: { total_size: 1 }, weight_map: weightMap });

/** A folder with these files. */
async function folderOf(files: Readonly<Record<string, string | Uint8Array>>): Promise<string> {
  const folder = await temporaryFolder();
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

/** File names and tensors that `openShards` finds. */
async function found(folder: string): Promise<[string, string[]][]> {
  const files = await openShards(folder);
  return files.map(({ path, tensors }) => [path.slice(folder.length + 1), tensors.map(({ name }) => name)]);
}

/** Expects a folder to be refused with a message that says `what` and begins with the path with the problem. */
async function refused(
  folder: string,
  name: "FormatError" | "CheckpointError",
  what: RegExp,
  where: Problem["where"] = { file: folder },
): Promise<void> {
  const problem = await problemOf(() => openShards(folder));
  expect(problem).toMatchObject({ name, where });
  expect(problem.message).toMatch(what);
  expect(problem.message).toContain(folder);
}

describe("without an index", () => {
  test("model.safetensors takes precedence", async () => {
    const folder = await folderOf({
      [SINGLE_FILE]: holding("a"),
      "consolidated.safetensors": holding("b"),
      [ONE]: holding("c"),
      "pytorch_model.bin": "",
      "adapter_config.json": "{}",
    });
    expect(await found(folder)).toEqual([[SINGLE_FILE, ["a"]]]);
  });

  test("a whole set of numbered shards is opened in order", async () => {
    const folder = await folderOf({ [THREE]: holding("a"), [ONE]: holding("c", "b"), [TWO]: holding() });
    expect(await found(folder)).toEqual([
      [ONE, ["c", "b"]],
      [TWO, []],
      [THREE, ["a"]],
    ]);
  });

  test("a part of a set is refused", async () => {
    const folder = await folderOf({ [ONE]: holding("a"), [THREE]: holding("b"), "other.safetensors": holding("c") });
    await refused(
      folder,
      "CheckpointError",
      /has 2 of 3 shards and no model\.safetensors\.index\.json; fetch the rest/,
      {
        file: folder,
        expected: "3 shards",
        actual: "2 shards",
      },
    );
  });

  test.each([
    [
      "of two saves",
      [shardName(1, 2), shardName(1, 3)],
      /has model-00001-of-00003\.safetensors and model-00001-of-00002/,
    ],
    ["with a number over the count", [shardName(1, 2), shardName(3, 2)], /has model-00003-of-00002\.safetensors and/],
    ["numbered from zero", [shardName(0, 2), shardName(1, 2)], /has model-00000-of-00002\.safetensors and/],
    ["none of none", [shardName(1, 0)], /has model-00001-of-00000\.safetensors and/],
  ])("shards %s are refused, though their count is right", async (_, names, what) => {
    const folder = await folderOf(Object.fromEntries(names.map((name, i) => [name, holding(String(i))])));
    await refused(folder, "CheckpointError", what);
  });

  test("a tensor in two shards is refused", async () => {
    const folder = await folderOf({ [shardName(1, 2)]: holding("a", "b"), [shardName(2, 2)]: holding("c", "b") });
    const file = join(folder, shardName(2, 2));
    await refused(folder, "FormatError", /tensor "b" is in both .*00001-of-00002.* and .*00002-of-00002/, {
      file,
      tensor: "b",
    });
  });

  test("a single file of another name is opened; adapter weights beside it are not", async () => {
    const folder = await folderOf({
      "consolidated.safetensors": holding("a"),
      "adapter_model.safetensors": holding("b"),
      "config.json": "{}",
    });
    expect(await found(folder)).toEqual([["consolidated.safetensors", ["a"]]]);
  });

  test.each<[string, Record<string, string>, RegExp]>([
    [
      "two others",
      { "a.safetensors": "", "b.safetensors": "" },
      /has a\.safetensors, b\.safetensors but neither .* unclear/,
    ],
    [
      "an adapter",
      { "adapter_config.json": "{}", "adapter_model.safetensors": "" },
      /is a LoRA adapter.*; write BASE\+/,
    ],
    ["an adapter of pickles", { "adapter_config.json": "{}", "adapter_model.bin": "" }, /is a LoRA adapter/],
    ["a .bin", { "pytorch_model.bin": "" }, /pickled weights \(pytorch_model\.bin\).*safe_serialization=True/],
    [
      "a .pt, a .pth and a .ckpt",
      { "a.pt": "", "b.pth": "", "c.ckpt": "" },
      /pickled weights \(a\.pt, b\.pth, c\.ckpt\)/,
    ],
    ["nothing of use", { "config.json": "{}", "README.md": "" }, /has no \.safetensors file; give the folder/],
    ["nothing", {}, /has no \.safetensors file; give the folder/],
  ])("a folder with %s is refused with what to do", async (_, files, what) => {
    await refused(await folderOf(files), "CheckpointError", what);
  });

  test("a missing folder, and a file in its place", async () => {
    const folder = await folderOf({ [SINGLE_FILE]: holding("a") });
    await refused(join(folder, "missing"), "CheckpointError", /missing does not exist$/);
    await refused(join(folder, SINGLE_FILE), "CheckpointError", /is a file; give the folder of a checkpoint$/);
  });

  test("a damaged file is named", async () => {
    const folder = await folderOf({ [SINGLE_FILE]: holding("a").subarray(0, -1) });
    await refused(folder, "FormatError", /is cut off/, { file: join(folder, SINGLE_FILE) });
  });
});

describe("with an index", () => {
  test("the files it names are opened, in the order of their names, and no others", async () => {
    const folder = await folderOf({
      [INDEX_FILE]: index({ b: "z.safetensors", __proto__x: "a/b.safetensors", constructor: "z.safetensors" }),
      "z.safetensors": holding("constructor", "b"),
      "a/b.safetensors": holding("__proto__x"),
      "other.safetensors": "not safetensors",
      [ONE]: "not safetensors",
    });
    expect(await found(folder)).toEqual([
      ["a/b.safetensors", ["__proto__x"]],
      ["z.safetensors", ["constructor", "b"]],
    ]);
  });

  test("a tensor called __proto__ is found", async () => {
    const weightMap = `{"__proto__":"z.safetensors","a":"z.safetensors"}`;
    const folder = await folderOf({
      [INDEX_FILE]: `{"weight_map":${weightMap}}`,
      "z.safetensors": fileOf(
        `{"__proto__":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},${entry("a", "U8", [1], 1, 2)}}`,
        2,
      ),
    });
    expect(await found(folder)).toEqual([["z.safetensors", ["__proto__", "a"]]]);
  });

  test.skipIf(process.platform === "win32")(
    "links into a cache are followed, as the hub's tools lay them",
    async () => {
      const folder = await folderOf({ "blobs/1": holding("a"), "blobs/2": holding("b"), "blobs/3": "" });
      const snapshot = join(folder, "snapshots", "main");
      await mkdir(snapshot, { recursive: true });
      await writeFile(join(folder, "blobs", "3"), index({ a: shardName(1, 2), b: shardName(2, 2) }));
      await symlink("../../blobs/1", join(snapshot, shardName(1, 2)));
      await symlink("../../blobs/2", join(snapshot, shardName(2, 2)));
      await symlink("../../blobs/3", join(snapshot, INDEX_FILE));
      const both = [
        [shardName(1, 2), ["a"]],
        [shardName(2, 2), ["b"]],
      ];
      expect(await found(snapshot)).toEqual(both);

      await rm(join(snapshot, INDEX_FILE));
      expect(await found(snapshot)).toEqual(both);

      await rm(join(folder, "blobs", "2"));
      await refused(snapshot, "FormatError", /00002-of-00002\.safetensors does not exist$/, {
        file: join(snapshot, shardName(2, 2)),
      });
    },
  );

  test.each<[string, unknown, RegExp]>([
    [
      "a parent",
      "../x.safetensors",
      /names "\.\.\/x\.safetensors" for tensor "t", which is outside its folder. Do not trust/,
    ],
    ["a parent further in", "a/../../x.safetensors", /is outside its folder/],
    ["an absolute path", "/etc/x.safetensors", /names "\/etc\/x\.safetensors".*is outside its folder/],
    ["a drive", "C:\\x.safetensors", /names "C:\\\\x\.safetensors".*is outside its folder/],
    ["a drive without a slash", "c:x.safetensors", /is outside its folder/],
    ["a backslash", "a\\x.safetensors", /is outside its folder/],
    ["a parent by backslash", "..\\x.safetensors", /is outside its folder/],
    ["a server", "\\\\server\\x.safetensors", /is outside its folder/],
    ["a NUL", "x\0.safetensors", /names "x\\u0000\.safetensors".*is outside its folder/],
    ["a pickle", "pytorch_model.bin", /names "pytorch_model\.bin", which is not a \.safetensors file/],
    ["the index", INDEX_FILE, /which is not a \.safetensors file/],
    [
      "a name too long for a disk",
      `${"x".repeat(300)}.safetensors`,
      /names "x{200}…", which is too long for a file name/,
    ],
    ["a name that steers a terminal", "\u009b2Jx", /names "\\u\{9b\}2Jx", which is not/],
  ])("%s instead of a file is refused", async (_, file, what) => {
    const folder = await folderOf({ [INDEX_FILE]: index({ t: file }), "x.safetensors": holding("t") });
    await refused(folder, "FormatError", what, { file: join(folder, INDEX_FILE), tensor: "t", actual: String(file) });
  });

  test.each<[unknown, string]>([
    ["", "an empty name"],
    [1, "number"],
    [null, "null"],
    [["x.safetensors"], "object"],
    // `String` of this throws a TypeError.
    [{ toString: 1 }, "object"],
  ])("%j instead of a file is refused", async (file, actual) => {
    const folder = await folderOf({ [INDEX_FILE]: index({ t: file }) });
    const where = { file: join(folder, INDEX_FILE), tensor: "t", actual };
    await refused(folder, "FormatError", /gives no file for tensor "t"; fetch or save it again/, where);
  });

  test.each<[string, string, "FormatError" | "CheckpointError", RegExp]>([
    ["is empty", "", "CheckpointError", /is not valid JSON/],
    ["is cut off", '{"weight_map":{"a":', "CheckpointError", /is not valid JSON/],
    ["is a list", "[]", "CheckpointError", /does not contain a JSON object/],
    ["has no weight_map", "{}", "FormatError", /has no weight_map; fetch or save it again/],
    ["has a list for a weight_map", index([]), "FormatError", /has no weight_map/],
    ["has null for a weight_map", index(null), "FormatError", /has no weight_map/],
    ["has a weight_map without tensors", index({}), "FormatError", /names no tensor/],
  ])("an index that %s is refused, even beside a whole set of shards", async (_, content, name, what) => {
    const folder = await folderOf({ [INDEX_FILE]: content, "model-00001-of-00001.safetensors": holding("a") });
    await refused(folder, name, what, { file: join(folder, INDEX_FILE) });
  });

  test("missing shards are listed, the first few by name", async () => {
    const folder = await folderOf({ [INDEX_FILE]: index({ a: ONE, b: TWO, c: THREE }), [TWO]: holding("b") });
    const file = join(folder, INDEX_FILE);
    await refused(
      folder,
      "CheckpointError",
      /names "model-00001-of.*", "model-00003-of.*", which are not there; fetch/,
      {
        file,
      },
    );
    const names = Object.fromEntries(["e", "d", "c", "b", "a"].map((name) => [name, `${name}.safetensors`]));
    await writeFile(file, index(names));
    await refused(folder, "CheckpointError", /names "a\.safetensors", "b\.\w+", "c\.\w+" and 2 more, which are not/, {
      file,
    });
    await writeFile(file, index({ a: `${ONE}/x.safetensors` }));
    await refused(folder, "CheckpointError", /x\.safetensors", which is not there; fetch the rest/, { file });
  });

  test("a tensor that is not in its shard, and one that the index leaves out", async () => {
    const folder = await folderOf({ [INDEX_FILE]: index({ a: ONE, "b\u009b": ONE }), [ONE]: holding("a", "c\u009b") });
    const file = join(folder, ONE);
    await refused(folder, "FormatError", /index\.json says that .*00001.* holds "b\\u\{9b\}", but it does not/, {
      file,
      tensor: "b\u009b",
    });
    await writeFile(join(folder, INDEX_FILE), index({ a: ONE }));
    await refused(folder, "FormatError", /00001.* holds "c\\u\{9b\}", which .*index\.json does not name/, {
      file,
      tensor: "c\u009b",
    });
  });

  test("a tensor in two shards cannot hide: the index names one of them", async () => {
    const folder = await folderOf({
      [INDEX_FILE]: index({ a: ONE, b: TWO }),
      [ONE]: holding("a"),
      [TWO]: holding("a", "b"),
    });
    await refused(folder, "FormatError", /holds "a", which .* does not name/, { file: join(folder, TWO), tensor: "a" });
  });

  test("one file under two names is refused", async () => {
    const folder = await folderOf({
      [INDEX_FILE]: index({ a: "x.safetensors", b: "./x.safetensors" }),
      "x.safetensors": holding("a", "b"),
    });
    await refused(folder, "FormatError", /holds "a", which .* does not name/, { tensor: "a" });
  });

  test("more files than any model has are refused before one is looked for", async () => {
    const names = Array.from({ length: MAX_SHARDS + 1 }, (_, i) => [`t${i}`, `${i}.safetensors`]);
    const folder = await folderOf({ [INDEX_FILE]: index(Object.fromEntries(names)) });
    await refused(folder, "FormatError", /names 10001 files, over the limit of 10000/, {
      file: join(folder, INDEX_FILE),
      expected: "at most 10000 files",
      actual: "10001 files",
    });
  });
});
