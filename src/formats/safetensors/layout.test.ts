// Layouts of checkpoints to be written: limits, order, alignment, names, index; and that they open again once written.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { metadatas, problemOf, temporaryFolder, tensorLists } from "../../../test/support/safetensors-files.js";
import { DTYPE_BITS, type DType } from "../../kit/dtype.js";
import { parseHeader, type TensorDeclaration } from "./header.js";
import { type FolderLayout, layoutFolder, type ShardLayout } from "./layout.js";
import { INDEX_FILE, openShards, SINGLE_FILE, shardName } from "./sharded.js";
import { DEFAULT_SHARD_BYTES } from "./split-shards.js";

const t = (name: string, bytes: number, dtype: DType = "U8"): TensorDeclaration => ({
  name,
  dtype,
  shape: [(bytes * 8) / DTYPE_BITS[dtype]],
});

const dataBytes = ({ tensors }: ShardLayout) => tensors.reduce((sum, { bytes }) => sum + bytes, 0);
const names = (layout: FolderLayout) => layout.shards.map(({ tensors }) => tensors.map(({ name }) => name));
const metadataOf = ({ header, bytes, name }: ShardLayout) => parseHeader(header.subarray(8), bytes, name).metadata;

describe("shards", () => {
  test("one file without an index, if all fits", () => {
    const layout = layoutFolder([t("a", 6), t("b", 4)], { shardBytes: 10 });
    expect(layout.shards.map(({ name }) => name)).toEqual([SINGLE_FILE]);
    expect(layout.totalSize).toBe(10);
    expect(layout.index).toBeUndefined();
    expect(layout.shards[0]?.bytes).toBe((layout.shards[0]?.header.byteLength ?? 0) + 10);
  });

  test("no tensors make one file without data", () => {
    const layout = layoutFolder([]);
    expect(names(layout)).toEqual([[]]);
    expect(layout).toMatchObject({ totalSize: 0, shards: [{ name: SINGLE_FILE, tensors: [] }] });
    expect(layout.shards[0]?.bytes).toBe(layout.shards[0]?.header.byteLength);
  });

  test("a shard is filled exactly to the limit; a tensor over the limit has its own shard", () => {
    const sizes = { a: 6, b: 4, c: 1, big: 11, none: 0, d: 10, e: 9, f: 2 };
    const tensors = Object.entries(sizes).map(([name, bytes]) => t(name, bytes));
    const layout = layoutFolder(tensors, { shardBytes: 10 });
    expect(names(layout)).toEqual([["a", "b"], ["c"], ["big"], ["none", "d"], ["e"], ["f"]]);
    expect(layout.shards.map(({ name }) => name)).toEqual(
      [1, 2, 3, 4, 5, 6].map((i) => `model-0000${i}-of-00006.safetensors`),
    );
    expect(layout.totalSize).toBe(43);
  });

  test("the default limit is 5 GB", () => {
    const half = DEFAULT_SHARD_BYTES / 2;
    expect(DEFAULT_SHARD_BYTES).toBe(5e9);
    expect(names(layoutFolder([t("a", half), t("b", half)]))).toEqual([["a", "b"]]);
    expect(names(layoutFolder([t("a", half), t("b", half), t("c", 1)]))).toEqual([["a", "b"], ["c"]]);
    expect(layoutFolder([t("a", half), t("b", half + 8)]).shards).toHaveLength(2);
  });

  test("wider dtypes come first within a shard, in the order given otherwise, and never move to another shard", () => {
    const tensors = [
      t("u8", 3),
      t("f4", 1, "F4"),
      t("f6", 3, "F6_E2M3"),
      t("bf16", 2, "BF16"),
      t("f64", 8, "F64"),
      t("f16", 2, "F16"),
      t("f32", 4, "F32"),
      t("next-u8", 1),
      t("next-i64", 8, "I64"),
    ];
    const layout = layoutFolder(tensors, { shardBytes: 23 });
    expect(names(layout)).toEqual([
      ["f64", "f32", "bf16", "f16", "u8", "f6", "f4"],
      ["next-i64", "next-u8"],
    ]);
  });

  test("the files carry `format: pt` beside the metadata given, which stays as it was", () => {
    const metadata = Object.freeze({ source: "layergraft", format: "mlx" });
    const layout = layoutFolder([t("a", 1), t("b", 1)], { shardBytes: 1, metadata });
    expect(layout.shards.map(metadataOf)).toEqual(Array(2).fill({ source: "layergraft", format: "pt" }));
    expect(metadata.format).toBe("mlx");
    expect(layoutFolder([t("a", 1)]).shards.map(metadataOf)).toEqual([{ format: "pt" }]);
  });
});

describe("the index", () => {
  test("names the total size and the shard of every tensor", () => {
    const { index } = layoutFolder([t("b", 2), t("a", 1), t("c", 2, "BF16"), t("__proto__", 3)], { shardBytes: 3 });
    expect(index?.name).toBe("model.safetensors.index.json");
    expect(index?.content).toBe(`{
  "metadata": {
    "total_size": 8
  },
  "weight_map": {
    "b": "model-00001-of-00003.safetensors",
    "a": "model-00001-of-00003.safetensors",
    "c": "model-00002-of-00003.safetensors",
    "__proto__": "model-00003-of-00003.safetensors"
  }
}
`);
  });
});

describe("what cannot be laid out", () => {
  test("a name twice, in one shard or in two", async () => {
    for (const shardBytes of [1, 100]) {
      expect(await problemOf(() => layoutFolder([t("a", 1), t("a", 1)], { shardBytes }))).toMatchObject({
        name: "FormatError",
        message: expect.stringMatching(/cannot hold the tensor "a"( twice|: it is repeated)$/),
        where: { tensor: "a" },
      });
    }
  });

  test("elements that do not fill whole bytes", async () => {
    const f4: TensorDeclaration = { name: "a", dtype: "F4", shape: [3] };
    expect((await problemOf(() => layoutFolder([f4]))).message).toMatch(/"a": F4 \[3\] does not fill whole bytes/);
  });

  test.each([0, -1, Number.NaN])("a limit of %d bytes", async (shardBytes) => {
    expect(await problemOf(() => layoutFolder([t("a", 1)], { shardBytes }))).toMatchObject({
      name: "RecipeError",
      message: `the shard size is ${shardBytes} bytes; it must be positive`,
    });
  });

  test("more shards than can be opened again", async () => {
    const tensors = Array.from({ length: 10_001 }, (_, i) => t(`t${i}`, 1));
    expect((await problemOf(() => layoutFolder(tensors, { shardBytes: 1 }))).message).toBe(
      "shards of at most 1 B would be 10001 files, over the limit of 10000; allow larger shards",
    );
    expect(layoutFolder(tensors.slice(1), { shardBytes: 1 }).shards.at(-1)?.name).toBe(
      "model-10000-of-10000.safetensors",
    );
  });
});

const limits = fc.integer({ min: 1, max: 600 });

test("any layout keeps the limit, the order, the alignment and the bytes", () => {
  fc.assert(
    fc.property(tensorLists, limits, metadatas, (declared, shardBytes, metadata) => {
      const layout = layoutFolder(declared, { shardBytes, metadata });
      const count = layout.shards.length;
      expect(layout.totalSize).toBe(layout.shards.reduce((sum, shard) => sum + dataBytes(shard), 0));
      expect(layout.index === undefined).toBe(count === 1);

      let at = 0;
      for (const [i, shard] of layout.shards.entries()) {
        expect(shard.name).toBe(count === 1 ? SINGLE_FILE : shardName(i + 1, count));
        expect(shard.bytes).toBe(shard.header.byteLength + dataBytes(shard));
        const full = shard.tensors.filter(({ bytes }) => bytes > 0);
        if (dataBytes(shard) > shardBytes) expect(full).toHaveLength(1);

        // Each shard holds the next of the tensors given, sorted by the width of their dtypes and stable in that.
        const group = declared.slice(at, at + shard.tensors.length);
        at += group.length;
        group.sort((a, b) => DTYPE_BITS[b.dtype] - DTYPE_BITS[a.dtype]);
        expect(shard.tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape }))).toEqual(group);
        for (const { dtype, offset } of shard.tensors)
          expect((offset % Math.max(1, DTYPE_BITS[dtype] / 8)) | 0).toBe(0);
      }
      expect(at).toBe(declared.length);

      if (layout.index) {
        const { metadata, weight_map } = JSON.parse(layout.index.content);
        expect(metadata).toEqual({ total_size: layout.totalSize });
        expect(new Map(Object.entries(weight_map))).toEqual(
          new Map(layout.shards.flatMap((shard) => shard.tensors.map(({ name }) => [name, shard.name]))),
        );
      }
    }),
  );
});

test("any layout, once written, opens as it was laid out", async () => {
  await fc.assert(
    fc.asyncProperty(tensorLists, limits, metadatas, async (declared, shardBytes, metadata) => {
      const folder = await temporaryFolder();
      const { shards, index } = layoutFolder(declared, { shardBytes, metadata });
      for (const shard of shards) {
        await writeFile(join(folder, shard.name), Buffer.concat([shard.header, Buffer.alloc(dataBytes(shard), 1)]));
      }
      if (index) await writeFile(join(folder, INDEX_FILE), index.content);
      const files = await openShards(folder);
      expect(files.map(({ path, bytes }) => [path, bytes])).toEqual(
        shards.map(({ name, bytes }) => [join(folder, name), bytes]),
      );
      for (const [i, { tensors, metadata: read }] of files.entries()) {
        expect(new Set(tensors)).toEqual(new Set(shards[i]?.tensors));
        expect(new Map(Object.entries(read))).toEqual(new Map(Object.entries({ ...metadata, format: "pt" })));
      }
    }),
    { numRuns: 60 },
  );
});
