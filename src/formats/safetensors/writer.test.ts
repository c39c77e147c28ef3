// Tensors in pieces, and a limit of array lengths that is small enough to test.
import { join } from "node:path";
import { afterEach, beforeAll, expect, test } from "vitest";
import { seededFloats, temporaryFolder } from "../../../test/support/checkpoints.js";
import { limitArrays } from "../../kit/arrays/index.js";
import { openSafetensors, readTensor, readTensorPieces, type TensorBytes, writeSafetensors } from "./index.js";

const folder = temporaryFolder();
const path = join(folder, "model.safetensors");
const values = seededFloats(300, 1);
const bytes = new Uint8Array(values.buffer);
const others = seededFloats(100, 2);

function* pieces(length: number) {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

const write = (data: TensorBytes | Promise<TensorBytes>) =>
  writeSafetensors(path, [
    { name: "a", dtype: "F32", shape: [3, 100], data },
    { name: "b", dtype: "F32", shape: [100], data: others },
  ]);

beforeAll(() => write(values));
afterEach(() => limitArrays());

test.each([
  ["numbers", values],
  ["bytes", bytes],
  ["pieces", pieces(64)],
  [
    "pieces that are computed",
    (async function* () {
      yield* pieces(1000);
    })(),
  ],
] as const)("a tensor is written from %s", async (_, data) => {
  await write(data);
  const file = await openSafetensors(path);
  const read = await Promise.all(file.tensors.map((tensor) => readTensor(file, tensor)));
  expect(read).toEqual([bytes, new Uint8Array(others.buffer)]);
});

test("pieces that are too few or too many do not reach the next tensor, and leave the file as it was", async () => {
  await expect(write([bytes.subarray(4)])).rejects.toThrow('tensor "a" needs 1200 bytes, but has 1196');
  await expect(write([bytes, bytes.subarray(0, 4)])).rejects.toThrow('tensor "a" needs 1200 bytes, but has 1204');
  const file = await openSafetensors(path);
  expect(await readTensor(file, file.tensors[0] as never)).toEqual(bytes);
});

test("a tensor longer than an array is refused as a whole, and written and read in pieces", async () => {
  limitArrays(1024);
  await write(values);
  const file = await openSafetensors(path);
  const [tensor] = file.tensors as [(typeof file.tensors)[number]];
  await expect(readTensor(file, tensor)).rejects.toThrow(
    expect.objectContaining({ code: "memory", where: expect.objectContaining({ file: path }) }),
  );
  const read: Uint8Array[] = [];
  for await (const piece of readTensorPieces(file, tensor)) read.push(piece.slice());
  expect(Buffer.concat(read)).toEqual(Buffer.from(bytes));
});
