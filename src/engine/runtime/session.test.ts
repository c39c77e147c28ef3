// Graphs that ONNX Runtime reads and runs, against values computed by hand; feeds, errors, and weights left in their files.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LayergraftError } from "../../kit/errors.js";
import { bytesOf } from "../../kit/files/index.js";
import { RuntimeError, RuntimeMissingError } from "../../kit/index.js";
import { externalLocation, externalRoot } from "./external-paths.js";
import { loadRuntime } from "./load-runtime.js";
import { MICROSOFT, OnnxModel } from "./onnx.js";
import { openSession, type Session, type TensorValue } from "./session.js";

const f32 = (shape: number[], values: number[]): TensorValue => ({
  dtype: "f32",
  shape,
  data: Float32Array.from(values),
});
const i64 = (shape: number[], values: number[]): TensorValue => ({
  dtype: "i64",
  shape,
  data: BigInt64Array.from(values, BigInt),
});
const thread = { threads: 1 };

let folder = "";
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "layergraft-runtime-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

describe("a session", () => {
  let session: Session;
  beforeAll(async () => {
    const model = new OnnxModel();
    model.input("x", "f32", ["rows", 3]);
    model.input("ids", "i64", ["rows"]);
    model.input("keep", "bool", ["rows", 1]);
    model.initializer("w", "f32", [2, 3], bytesOf(Float32Array.of(1, 2, 3, -1, 0, 1)));
    model.initializer("zero", "f32", [], bytesOf(Float32Array.of(0)));
    model.initializer("one", "i64", [1], bytesOf(BigInt64Array.of(1n)));
    model.node("FusedMatMul", ["x", "w"], ["product"], { transB: 1, alpha: { float: 0.5 } }, MICROSOFT);
    model.node("Where", ["keep", "product", "zero"], ["kept"]);
    model.node("Add", ["ids", "one"], ["next"]);
    model.node("Not", ["keep"], ["dropped"]);
    model.output("kept", "f32", ["rows", 2]);
    model.output("next", "i64", ["rows"]);
    model.output("dropped", "bool", ["rows", 1]);
    session = await openSession(model.encode(), thread);
  });
  afterAll(() => session.close());

  const feeds = {
    x: f32([2, 3], [1, 1, 1, 2, 4, 6]),
    ids: i64([2], [5, -7]),
    keep: { dtype: "bool", shape: [2, 1], data: Uint8Array.of(0, 1) },
  } as const satisfies Record<string, TensorValue>;

  it("computes values of every type", async () => {
    expect(await session.run(feeds, ["kept", "next", "dropped"])).toEqual({
      kept: f32([2, 2], [0, 0, 14, 2]),
      next: i64([2], [6, -6]),
      dropped: { dtype: "bool", shape: [2, 1], data: Uint8Array.of(1, 0) },
    });
  });

  it("returns the requested outputs, in any order", async () => {
    expect(Object.keys(await session.run(feeds, ["dropped"]))).toEqual(["dropped"]);
    expect(Object.keys(await session.run(feeds, ["next", "kept"]))).toEqual(["next", "kept"]);
  });

  it("writes outputs to memory of the caller, which must have their shape", async () => {
    const memory = new Float32Array(6).fill(9);
    const into = { kept: { dtype: "f32", shape: [2, 2], data: memory.subarray(1, 5) } } as const;
    const { kept, next } = await session.run(feeds, ["next", "kept"], into);
    expect([...memory]).toEqual([9, 0, 0, 14, 2, 9]);
    expect([kept, next]).toEqual([f32([2, 2], [0, 0, 14, 2]), i64([2], [6, -6])]);
    const other = { kept: { ...into.kept, shape: [4, 1] } };
    await expect(session.run(feeds, ["kept"], other)).rejects.toThrow(RuntimeError);
  });

  it("runs on no rows, and on windows of larger arrays", async () => {
    const none = {
      x: f32([0, 3], []),
      ids: i64([0], []),
      keep: { ...feeds.keep, shape: [0, 1], data: new Uint8Array() },
    };
    expect((await session.run(none, ["kept"])).kept).toEqual(f32([0, 2], []));
    const window = Float32Array.of(9, 9, 1, 1, 1, 2, 4, 6, 9).subarray(2, 8);
    const { kept } = await session.run({ ...feeds, x: { dtype: "f32", shape: [2, 3], data: window } }, ["kept"]);
    expect(kept).toEqual(f32([2, 2], [0, 0, 14, 2]));
  });

  it("uses the feeds of its inputs, and needs all of them", async () => {
    const { x, ids } = feeds;
    expect(Object.keys(await session.run({ ...feeds, y: x }, ["next"]))).toEqual(["next"]);
    const problem = (wrong: Record<string, TensorValue>, fetches = ["kept"]) =>
      expect(session.run(wrong, fetches)).rejects.toThrow(RuntimeError);
    await problem({ x, ids });
    await problem({ ...feeds, ids: x });
    await problem({ ...feeds, x: f32([3, 2], [1, 2, 3, 4, 5, 6]) });
    await problem({ ...feeds, x: f32([2, 3], [1]) });
    await problem(feeds, ["kopt"]);
  });
});

describe("errors of ONNX Runtime", () => {
  it("name the node that failed in a run", async () => {
    const model = new OnnxModel();
    model.input("ids", "i64", ["n"]);
    model.initializer("table", "f32", [2, 1], bytesOf(Float32Array.of(1, 2)));
    model.node("Gather", ["table", "ids"], ["embedded"]);
    model.output("embedded", "f32", ["n", 1]);
    const session = await openSession(model.encode(), thread);
    const error = await session.run({ ids: i64([1], [9]) }, ["embedded"]).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(RuntimeError);
    expect(error).toMatchObject({ code: "runtime", where: { tensor: "embedded" } });
    expect((error as Error).message).toBe(
      "the run failed: embedded (Gather): indices element out of data bounds, idx=9 must be within the inclusive range [-2,1]",
    );
    await session.close();
  });

  it("name the node of a graph that is refused", async () => {
    const model = new OnnxModel();
    model.input("x", "f32", [1]);
    model.node("NoSuchOperator", ["x"], ["y"]);
    model.output("y", "f32", [1]);
    await expect(openSession(model.encode())).rejects.toMatchObject({ code: "runtime", where: { tensor: "y" } });
    await expect(openSession(Uint8Array.of(1, 2, 3))).rejects.toThrow(/ONNX Runtime refuses the graph: .*protobuf/);
  });

  it("name an option that cannot work", async () => {
    const model = new OnnxModel();
    model.input("x", "f32", [1]);
    model.node("Neg", ["x"], ["y"]);
    model.output("y", "f32", [1]);
    await expect(openSession(model.encode(), { threads: 0 })).rejects.toThrow(
      "threads is 0; it must be a whole number from 1 to 256",
    );
    await expect(openSession(model.encode(), { providers: ["abacus"] })).rejects.toThrow(
      /^ONNX Runtime has no execution provider abacus on \S+; it has cpu\b.*; choose another, or leave it out to run on the CPU$/,
    );
  });
});

it("does not run once it is closed", async () => {
  const model = new OnnxModel();
  model.input("x", "f32", ["n"]);
  model.node("Neg", ["x"], ["minus"]);
  model.output("minus", "f32", ["n"]);
  const session = await openSession(model.encode(), thread);
  await session.close();
  await session.close();
  await expect(session.run({ x: f32([1], [1]) }, ["minus"])).rejects.toThrow("the session is closed");
});

describe("weights left in their files", () => {
  /** A safetensors file with bf16 values, which start at a byte that is a multiple of nothing. */
  function writeExpert(name: string, bits: readonly number[]): { path: string; offset: number; length: number } {
    mkdirSync(join(folder, name));
    const path = join(folder, name, "model.safetensors");
    const values = bytesOf(Uint16Array.from(bits));
    const entry = { dtype: "BF16", shape: [bits.length], data_offsets: [0, values.length] };
    const json = JSON.stringify({ w: entry });
    const header = json.padEnd(json.length + (json.length % 2 === 0 ? 1 : 0));
    const size = new Uint8Array(8);
    new DataView(size.buffer).setBigUint64(0, BigInt(header.length), true);
    writeFileSync(path, Buffer.concat([size, Buffer.from(header), values]));
    return { path, offset: 8 + header.length, length: values.length };
  }

  async function difference(
    a: ReturnType<typeof writeExpert>,
    b: ReturnType<typeof writeExpert>,
  ): Promise<TensorValue> {
    const model = new OnnxModel();
    for (const [name, { path, offset, length }] of Object.entries({ a, b })) {
      const { location } = await externalLocation(path);
      model.external(name, "bf16", [length / 2], { location, offset, length });
      model.node("Cast", [name], [`${name}32`], { to: 1 });
    }
    model.node("Sub", ["a32", "b32"], ["difference"]);
    model.output("difference", "f32", [a.length / 2]);
    const session = await openSession(model.encode(), thread);
    const { difference } = await session.run({}, ["difference"]);
    await session.close();
    return difference as TensorValue;
  }

  it("are read from sibling folders, by several sessions, through links", async () => {
    const a = writeExpert("a", [0x3f80, 0x4040, 0xbf00]); // 1, 3, -0.5
    const b = writeExpert("b", [0x3f00, 0x4000, 0x3e80]); // 0.5, 2, 0.25
    expect(a.offset % 2).toBe(1);
    expect(await difference(a, b)).toEqual(f32([3], [0.5, 1, -0.75]));
    const link = join(folder, "linked");
    symlinkSync(join(folder, "a"), link);
    expect(await difference(b, { ...a, path: join(link, "model.safetensors") })).toEqual(f32([3], [-0.5, -1, 0.75]));
  });

  it("are refused where the file is missing or too short", async () => {
    await expect(externalLocation(join(folder, "nowhere"))).rejects.toThrow(RuntimeError);
    const short = writeExpert("short", [0x3f80]);
    const model = new OnnxModel();
    model.external("w", "bf16", [9], { ...(await externalLocation(short.path)), offset: short.offset, length: 18 });
    model.node("Cast", ["w"], ["y"], { to: 1 });
    model.output("y", "f32", [9]);
    await expect(openSession(model.encode())).rejects.toThrow(RuntimeError);
  });

  it("are named where they were deleted before a session opened, as the cache may be cleared", async () => {
    const gone = writeExpert("cleared cache", [0x3f80]);
    const { location } = await externalLocation(gone.path);
    rmSync(gone.path);
    const model = new OnnxModel();
    model.external("w", "bf16", [1], { location, offset: gone.offset, length: 2 });
    model.node("Cast", ["w"], ["y"], { to: 1 });
    model.output("y", "f32", [1]);
    const message =
      `${gone.path}, a file of weights, does not exist any more. If it was in the cache, run or resume again, and it is ` +
      "computed again; otherwise restore it.";
    await expect(openSession(model.encode(), thread)).rejects.toMatchObject({ code: "runtime", message });
    await expect(externalLocation(gone.path)).rejects.toMatchObject({ code: "runtime", message });
  });

  it("stand below the root of the drive", async () => {
    const { location } = await externalLocation(import.meta.filename);
    expect(resolve(externalRoot(), location)).toBe(import.meta.filename);
  });
});

describe("where ONNX Runtime is missing", () => {
  const refusal = (load: () => unknown) =>
    loadRuntime(async () => load() as never).catch((error: unknown) => error as RuntimeMissingError);

  it("reports what to install", async () => {
    const require = createRequire(import.meta.url);
    const absent = await refusal(() => require("onnxruntime-that-is-not-there"));
    expect(absent).toBeInstanceOf(RuntimeMissingError);
    expect(absent).toBeInstanceOf(LayergraftError);
    expect(absent).toMatchObject({ code: "runtime", name: "RuntimeMissingError" });
    expect((absent as Error).message).toBe(
      "running models needs ONNX Runtime; add it with: npm install onnxruntime-node@1.30 --ignore-scripts",
    );
  });

  it("reports the platforms that have binaries", async () => {
    const require = createRequire(import.meta.url);
    const error = await refusal(() => require("./bin/plan9-mips/onnxruntime_binding.node"));
    expect((error as Error).message).toContain(`no binary for ${process.platform}-${process.arch}`);
  });

  it("reports why a binary does not load", async () => {
    const path = join(folder, "broken.node");
    writeFileSync(path, "not a library");
    const error = await refusal(() => process.dlopen({ exports: {} }, path));
    expect((error as Error).message).toMatch(/does not load on .*broken\.node/);
  });
});
