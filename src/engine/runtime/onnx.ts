// Writes models in ONNX's file format, node by node.
// Field numbers: onnx/onnx.proto of ONNX 1.18 (IR versions up to 11 share them), https://github.com/onnx/onnx
import { elementCount, formatShape, ProtoWriter, RuntimeError, type Shape } from "../../kit/index.js";

/**
 * Version of ONNX's own operators: Gelu needs 20, and 21 is the one that IR version 10 came with. ONNX Runtime 1.30
 * runs and fuses our graphs of opset 21, 23 and 24 in the same way; the oldest also runs on older releases.
 */
const OPSET_VERSION = 21;
/** The file format that came with opset 21 (ONNX 1.16). */
const IR_VERSION = 10;
/** ONNX Runtime's own operators: FusedMatMul, RotaryEmbedding, QuickGelu ... */
export const MICROSOFT = "com.microsoft";

/** Element types: their code in ONNX, and their bytes. */
const ELEMENTS = {
  f32: { code: 1, bytes: 4 },
  u8: { code: 2, bytes: 1 },
  i64: { code: 7, bytes: 8 },
  bool: { code: 9, bytes: 1 },
  f16: { code: 10, bytes: 2 },
  bf16: { code: 16, bytes: 2 },
} as const;

export type OnnxDType = keyof typeof ELEMENTS;

/** Where an external initializer's bytes are stored. */
export interface ExternalData {
  /** Path from the folder that the session reads external data from; see `externalLocation`. */
  readonly location: string;
  /** Bytes before the tensor. */
  readonly offset: number;
  /** Bytes of the tensor. */
  readonly length: number;
}

/** An attribute. Plain numbers are integers; floats are written as `{ float: 1 }`, as ONNX distinguishes them. */
export type OnnxAttribute = number | string | readonly number[] | { readonly float: number } | OnnxBody;

/** A graph that a node runs, as a loop does. It reads values of the graph around it. */
export class OnnxBody {
  readonly graph: ProtoWriter;

  constructor(graph: ProtoWriter) {
    this.graph = graph;
  }
}

/** An input or output of a body: one number, floats of any shape, or a list of those. */
export interface BodyValue {
  readonly name: string;
  readonly type: "i64" | "bool" | "floats" | "list";
}

/** AttributeProto.AttributeType */
const TYPES = { float: 1, int: 2, string: 3, graph: 5, ints: 7 } as const;

// TensorProto.DataLocation
const EXTERNAL = 1;

/** A model under construction: ai.onnx operators of opset 21, com.microsoft ones of version 1, IR version 10. */
export class OnnxModel {
  readonly #graph = new ProtoWriter().string(2, "layergraft");
  /** Where nodes go: the graph, or the body that is written. */
  #nodes = this.#graph;

  /** Writes a body. @param write appends its nodes and returns its outputs */
  body(inputs: readonly BodyValue[], write: () => readonly BodyValue[]): OnnxBody {
    const [outer, graph] = [this.#nodes, new ProtoWriter().string(2, "body")];
    this.#nodes = graph;
    const outputs = write();
    this.#nodes = outer;
    for (const input of inputs) graph.message(11, encodeBodyValue(input));
    for (const output of outputs) graph.message(12, encodeBodyValue(output));
    return new OnnxBody(graph);
  }

  /**
   * Appends a node, in the order of computation. It is named after its first output.
   * @param inputs names, "" for an optional input that is omitted
   * @param outputs names, "" for an optional output that is omitted
   * @param domain default ai.onnx
   * @throws RuntimeError if an attribute is not an integer where it should be
   */
  node(
    opType: string,
    inputs: readonly string[],
    outputs: readonly string[],
    attributes: Readonly<Record<string, OnnxAttribute>> = {},
    domain = "",
  ): void {
    const name = outputs.find((output) => output !== "") ?? opType;
    const node = new ProtoWriter();
    for (const input of inputs) node.string(1, input);
    for (const output of outputs) node.string(2, output);
    node.string(3, name).string(4, opType);
    for (const [key, value] of Object.entries(attributes)) {
      node.message(5, encodeAttribute(key, value, `${name} (${opType})`));
    }
    if (domain !== "") node.string(7, domain);
    this.#nodes.message(1, node);
  }

  /**
   * A constant whose values are part of the model: little-endian, row-major, one byte per bool. They are read at
   * `encode`, and must not change until then.
   * @throws RuntimeError if the length of the data does not match dtype and shape
   */
  initializer(name: string, dtype: OnnxDType, shape: Shape, data: Uint8Array): void {
    this.#graph.message(5, this.#tensor(name, dtype, shape, data.length).bytes(9, data));
  }

  /**
   * A constant whose values are in a file.
   * @throws RuntimeError if the length does not match dtype and shape
   */
  external(name: string, dtype: OnnxDType, shape: Shape, { location, offset, length }: ExternalData): void {
    const tensor = this.#tensor(name, dtype, shape, length);
    for (const [key, value] of Object.entries({ location, offset, length })) {
      tensor.message(13, new ProtoWriter().string(1, key).string(2, String(value)));
    }
    this.#graph.message(5, tensor.integer(14, EXTERNAL));
  }

  /** An input of the model. Extents are numbers, or names where they are known only at run time; equal names are equal extents. */
  input(name: string, dtype: OnnxDType, shape: readonly (number | string)[]): void {
    this.#graph.message(11, encodeValueInfo(name, dtype, shape));
  }

  /** An output of the model: a value that is already defined. */
  output(name: string, dtype: OnnxDType, shape: readonly (number | string)[]): void {
    this.#graph.message(12, encodeValueInfo(name, dtype, shape));
  }

  /**
   * The bytes of the model file (ModelProto).
   * @throws LayergraftError if they exceed 2 GiB, the limit of ONNX files
   */
  encode(): Uint8Array {
    return new ProtoWriter()
      .integer(1, IR_VERSION)
      .string(2, "layergraft")
      .message(7, this.#graph)
      .message(8, new ProtoWriter().string(1, "").integer(2, OPSET_VERSION))
      .message(8, new ProtoWriter().string(1, MICROSOFT).integer(2, 1))
      .finish();
  }

  /** A TensorProto without its values. */
  #tensor(name: string, dtype: OnnxDType, shape: Shape, length: number): ProtoWriter {
    const { code, bytes } = ELEMENTS[dtype];
    const expected = elementCount(shape) * bytes;
    if (length !== expected) {
      throw new RuntimeError(`${name} has ${length} bytes; ${dtype} of shape ${formatShape(shape)} has ${expected}`, {
        tensor: name,
        expected: `${expected} bytes`,
        actual: `${length} bytes`,
      });
    }
    return new ProtoWriter().integers(1, shape).integer(2, code).string(8, name);
  }
}

function encodeAttribute(name: string, value: OnnxAttribute, node: string): ProtoWriter {
  const attribute = new ProtoWriter().string(1, name);
  const checked = (integer: number): number => {
    if (Number.isSafeInteger(integer)) return integer;
    const message = `attribute ${name} of node ${node} is ${integer}, not an integer; write floats as { float }`;
    throw new RuntimeError(message, { field: name, expected: "an integer", actual: String(integer) });
  };
  if (typeof value === "number") return attribute.integer(3, checked(value)).integer(20, TYPES.int);
  if (typeof value === "string") return attribute.string(4, value).integer(20, TYPES.string);
  if (value instanceof OnnxBody) return attribute.message(6, value.graph).integer(20, TYPES.graph);
  if ("float" in value) return attribute.float(2, value.float).integer(20, TYPES.float);
  return attribute.integers(8, value.map(checked)).integer(20, TYPES.ints);
}

function encodeBodyValue({ name, type }: BodyValue): ProtoWriter {
  const isNumber = type === "i64" || type === "bool";
  const tensor = new ProtoWriter().integer(1, ELEMENTS[isNumber ? type : "f32"].code);
  if (isNumber) tensor.message(2, new ProtoWriter());
  const one = new ProtoWriter().message(1, tensor);
  const whole = type === "list" ? new ProtoWriter().message(4, new ProtoWriter().message(1, one)) : one;
  return new ProtoWriter().string(1, name).message(2, whole);
}

function encodeValueInfo(name: string, dtype: OnnxDType, extents: readonly (number | string)[]): ProtoWriter {
  const shape = new ProtoWriter();
  for (const extent of extents) {
    const dimension = new ProtoWriter();
    shape.message(1, typeof extent === "number" ? dimension.integer(1, extent) : dimension.string(2, extent));
  }
  const tensorType = new ProtoWriter().integer(1, ELEMENTS[dtype].code).message(2, shape);
  return new ProtoWriter().string(1, name).message(2, new ProtoWriter().message(1, tensorType));
}
