// The file's fields. session.test.ts has ONNX Runtime read it.

import { describe, expect, it } from "vitest";
import { bytesAt, fieldOf, fieldsOf } from "../../../test/support/protobuf-reader.js";
import { bytesOf } from "../../kit/files/index.js";
import { type OnnxAttribute, OnnxModel } from "./onnx.js";

const text = (bytes: bigint | Uint8Array | undefined) => Buffer.from(bytes as Uint8Array).toString();
const GRAPH = 7;

function product(): OnnxModel {
  const model = new OnnxModel();
  model.input("x", "f32", ["rows", 2]);
  model.initializer("w", "f32", [2, 1], bytesOf(Float32Array.of(3, 4)));
  model.node("MatMul", ["x", "w"], ["y"]);
  model.output("y", "f32", ["rows", 1]);
  return model;
}

describe("a model", () => {
  const bytes = product().encode();

  it("carries the versions", () => {
    expect(fieldOf(bytes, 1)).toEqual([10n]);
    const operators = fieldOf(bytes, 8).map((one) => fieldsOf(one as Uint8Array));
    expect(operators.map(([domain, version]) => [text(domain?.[1]), version?.[1]])).toEqual([
      ["", 21n],
      ["com.microsoft", 1n],
    ]);
  });

  it("carries nodes, initializers, inputs and outputs", () => {
    expect(text(bytesAt(bytes, GRAPH, 2))).toBe("layergraft");
    const node = fieldsOf(bytesAt(bytes, GRAPH, 1)).map(([field, value]) => [field, text(value)]);
    expect(node).toEqual([
      [1, "x"],
      [1, "w"],
      [2, "y"],
      [3, "y"],
      [4, "MatMul"],
    ]);
    const tensor = bytesAt(bytes, GRAPH, 5);
    expect([...bytesAt(tensor, 1)]).toEqual([2, 1]);
    expect(fieldOf(tensor, 2)).toEqual([1n]);
    expect(text(bytesAt(tensor, 8))).toBe("w");
    expect(new Float32Array(Uint8Array.from(bytesAt(tensor, 9)).buffer)).toEqual(Float32Array.of(3, 4));
    const input = bytesAt(bytes, GRAPH, 11);
    expect(text(bytesAt(input, 1))).toBe("x");
    expect(fieldOf(bytesAt(input, 2, 1), 1)).toEqual([1n]);
    const [rows, two] = fieldOf(bytesAt(input, 2, 1, 2), 1) as Uint8Array[];
    expect(text(bytesAt(rows as Uint8Array, 2))).toBe("rows");
    expect(fieldsOf(two as Uint8Array)).toEqual([[1, 2n]]);
    expect(text(bytesAt(bytes, GRAPH, 12, 1))).toBe("y");
  });
});

describe("attributes", () => {
  /** Fields of an attribute, after its name. */
  function encoded(value: OnnxAttribute) {
    const model = new OnnxModel();
    model.node("Op", [], ["y"], { value });
    const [name, ...rest] = fieldsOf(bytesAt(model.encode(), GRAPH, 1, 5));
    expect(text(name?.[1])).toBe("value");
    return rest.map(([field, content]) => [field, typeof content === "bigint" ? content : [...content]]);
  }
  const one = [0, 0, 128, 63]; // 1 as a float32

  it("are integers, floats, lists of integers and texts", () => {
    expect(encoded(1)).toEqual([
      [3, 1n],
      [20, 2n],
    ]);
    expect(encoded({ float: 1 })).toEqual([
      [2, one],
      [20, 1n],
    ]);
    expect(encoded([1, 300])).toEqual([
      [8, [1, 172, 2]],
      [20, 7n],
    ]);
    expect(encoded("ab")).toEqual([
      [4, [97, 98]],
      [20, 3n],
    ]);
  });

  it("refuse a plain number that is not an integer", () => {
    expect(() => encoded(0.5)).toThrow(
      "attribute value of node y (Op) is 0.5, not an integer; write floats as { float }",
    );
    expect(() => encoded([1, Number.NaN])).toThrow("is NaN, not an integer");
  });
});

it("writes the place of an external initializer", () => {
  const model = new OnnxModel();
  model.external("w", "bf16", [3, 2], { location: "models/a/model.safetensors", offset: 123, length: 12 });
  const tensor = bytesAt(model.encode(), GRAPH, 5);
  expect(fieldOf(tensor, 2)).toEqual([16n]);
  const entries = fieldOf(tensor, 13).map((entry) => fieldsOf(entry as Uint8Array).map(([, value]) => text(value)));
  expect(entries).toEqual([
    ["location", "models/a/model.safetensors"],
    ["offset", "123"],
    ["length", "12"],
  ]);
  expect(fieldOf(tensor, 14)).toEqual([1n]);
  expect(fieldOf(tensor, 9)).toEqual([]);
});

it("refuses data of another length than its shape", () => {
  const model = product();
  expect(() => model.initializer("c", "i64", [2], new Uint8Array(8))).toThrow("c has 8 bytes; i64 of shape [2] has 16");
  const place = { location: "f", offset: 0, length: 5 };
  expect(() => model.external("d", "f16", [2, 1], place)).toThrow("d has 5 bytes; f16 of shape [2, 1] has 4");
});
