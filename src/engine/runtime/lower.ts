// Lowers a graph to an ONNX model. Shapes that are known only at run time are computed from the shapes of the feeds.

import { bytesOf } from "../../kit/files/index.js";
import { RuntimeError } from "../../kit/index.js";
import { type Dim, multiplyDims, quotientOf, symbolsOf, termsOf } from "../graph/dim.js";
import { reachable } from "../graph/gradients.js";
import type { Node } from "../graph/node.js";
import { type Chunks, lowerInChunks, planChunks } from "./chunks.js";
import { LOWERINGS } from "./lowerings.js";
import { type BodyValue, type ExternalData, type OnnxBody, type OnnxDType, OnnxModel } from "./onnx.js";

/** Values of an input that is not fed, in a file or in memory. */
export interface Weight {
  readonly dtype: "f32" | "f16" | "bf16";
  readonly values: ExternalData | Uint8Array;
}

/** A matrix [N, K] in blocks along its rows, each with a scale: scale * (code - 2^(bits - 1)). */
export interface QuantizedWeight {
  readonly bits: 4 | 8;
  /** Elements of a block. */
  readonly block: number;
  /** Codes [N, blocks, bytes of a block]; of two codes in a byte, the first is in the lower half. */
  readonly codes: ExternalData | Uint8Array;
  /** float32 [N, blocks] */
  readonly scales: ExternalData | Uint8Array;
}

export interface LowerOptions {
  /** Inputs of the graph that become part of the model, by name; the others are fed at each run. */
  readonly weights?: ReadonlyMap<string, Weight>;
  /** Matrices that products read instead of `weights`, where they are the transposed right operand; default none. */
  readonly quantized?: ReadonlyMap<string, QuantizedWeight>;
  /** Nodes that are fed instead of computed, with the names of their feeds; default none. */
  readonly given?: ReadonlyMap<Node, string>;
  /** Declares other feeds and computes inputs of the graph from them. Returns values by the names of these inputs. */
  readonly computed?: (emitter: Emitter) => ReadonlyMap<string, string>;
  /** Names of sizes in the model; default their expressions. */
  readonly axes?: Readonly<Record<string, string>>;
  /** Computes what works row by row in chunks of rows; default all rows at once. */
  readonly chunks?: Chunks | undefined;
}

/**
 * Writes the model that computes these nodes. Sizes may be 0 when it runs, except in matrix products and where experts are
 * chosen: ONNX Runtime leaves the result of a transposed or scaled product over no elements uninitialized, does not
 * broadcast 1 to 0, and ends the process where it sorts no rows.
 * @param outputs nodes by the names they are fetched by
 * @returns the model file's bytes
 * @throws RuntimeError if a size cannot be computed from the feeds, or the model is larger than ONNX files can be
 */
export function lowerGraph(outputs: Readonly<Record<string, Node>>, options: LowerOptions = {}): Uint8Array {
  const emitter = new Emitter(Object.values(outputs), options);
  for (const [name, node] of Object.entries(outputs)) emitter.output(name, node);
  return emitter.encode();
}

/** Computed only where they are read, as some readers need only their operands. */
const LAZY: ReadonlySet<string> = new Set(["oneHot", "stack"]);

/** Writes nodes in the order of computation and knows the name of each in the model. */
export class Emitter {
  readonly #model = new OnnxModel();
  #names = new Map<Node, string>();
  readonly #weights = new Map<Node, Weight>();
  readonly #stored = new Map<Node, { readonly name: string; readonly dtype: Weight["dtype"] }>();
  readonly #quantized = new Map<Node, QuantizedNames>();
  #once = new Map<string, string>();
  /** Inputs that are fed, whose shapes may have symbols. */
  readonly #feeds: { readonly name: string; readonly shape: readonly Dim[] }[] = [];
  readonly #axes: Readonly<Record<string, string>>;
  /** All nodes, for lowerings that compute two at once. */
  readonly nodes: readonly Node[];
  #count = 0;

  constructor(outputs: readonly Node[], { weights, quantized, given, computed, axes = {}, chunks }: LowerOptions) {
    const nodes = reachable(outputs, given);
    this.nodes = nodes;
    this.#axes = axes;
    const values = computed?.(this);
    for (const node of nodes) {
      const fed = given?.get(node);
      if (fed !== undefined) this.#names.set(node, this.feed(fed, node.dtype, node.shape));
      if (node.op !== "input") continue;
      const name = node.attributes.name as string;
      const [value, blocks, weight] = [values?.get(name), quantized?.get(name), weights?.get(name)];
      if (value !== undefined) this.#names.set(node, value);
      if (blocks) this.#addQuantized(node, name, blocks);
      if (weight) this.#weights.set(node, weight);
      if (value === undefined && !blocks && !weight) this.#names.set(node, this.feed(name, node.dtype, node.shape));
    }
    const rest = nodes.filter((node) => node.op !== "input" && !LAZY.has(node.op) && !given?.has(node));
    const plan = chunks && planChunks(rest, chunks, outputs);
    const ends = new Set(endsOf(nodes, outputs));
    const isInner = (node: Node) => !ends.has(node);
    for (const node of (plan?.before ?? rest).filter(isInner)) this.compute(node);
    if (plan) lowerInChunks(this, plan);
    for (const node of [...(plan?.after ?? []).filter(isInner), ...ends]) this.compute(node);
  }

  /** Writes a node whose operands are computed, once. @returns its name */
  compute(node: Node): string {
    const known = this.#names.get(node);
    if (known !== undefined) return known;
    const lower = node.op === "constant" ? constant : LOWERINGS[node.op];
    if (!lower) throw new RuntimeError(`the operation ${node.op} has no lowering to ONNX`);
    const name = lower(this, node);
    this.#names.set(node, name);
    return name;
  }

  encode(): Uint8Array {
    return this.#model.encode();
  }

  value(node: Node | undefined): string {
    const stored = node && this.stored(node);
    // ONNX Runtime folds the cast when it loads the model: computation is in float32.
    if (stored && stored.dtype !== "f32")
      return this.once(`f32 ${stored.name}`, () => this.node("Cast", [stored.name], { to: 1 }));
    const name = node && (LAZY.has(node.op) ? this.compute(node) : this.#names.get(node));
    if (name === undefined) throw new RuntimeError(`the operand ${node?.op ?? "(missing)"} is not computed yet`);
    return name;
  }

  /** A weight as it is stored, before its cast to float32; undefined for other nodes. */
  stored(node: Node): { readonly name: string; readonly dtype: Weight["dtype"] } | undefined {
    const weight = this.#weights.get(node);
    if (weight && !this.#stored.has(node)) this.#addWeight(node, String(node.attributes.name), weight);
    return this.#stored.get(node);
  }

  /** The values of a weight, which become part of the model only where `stored` or `value` asks for them. */
  weight(node: Node): Weight | undefined {
    return this.#weights.get(node);
  }

  /** A graph that a node runs. @param write appends its nodes and returns its outputs */
  body(inputs: readonly BodyValue[], write: () => readonly BodyValue[]): OnnxBody {
    return this.#model.body(inputs, write);
  }

  /** The same, in which values are named and sizes are known that are not after it. @param size one that differs there */
  bodyOfPart(inputs: readonly BodyValue[], size: string, write: () => readonly BodyValue[]): OnnxBody {
    const [names, once] = [this.#names, this.#once];
    const isOfSize = (key: string) => /^(size|shape|after) /.test(key) && key.includes(size);
    this.#names = new Map(names);
    this.#once = new Map([...once].filter(([key]) => !isOfSize(key)));
    const body = this.body(inputs, write);
    this.#names = names;
    this.#once = once;
    return body;
  }

  /** A name for an input of a body. */
  fresh(): string {
    return `t${this.#count++}`;
  }

  /** The parts of a quantized matrix; undefined for other nodes. */
  quantized(node: Node): QuantizedNames | undefined {
    return this.#quantized.get(node);
  }

  /** Declares a feed. @returns its name */
  feed(name: string, dtype: Node["dtype"], shape: readonly Dim[]): string {
    this.#model.input(name, dtype, this.#shown(shape));
    this.#feeds.push({ name, shape });
    return name;
  }

  /** Names a tensor of one integer as a size. */
  defineSize(dim: string, name: string): void {
    this.#once.set(`size ${dim}`, name);
  }

  /** Appends an ONNX node with one output. @returns the output's name */
  node(
    opType: string,
    inputs: readonly string[],
    attributes: Parameters<OnnxModel["node"]>[3] = {},
    domain = "",
  ): string {
    const [output] = this.nodeOf(1, opType, inputs, attributes, domain);
    return output as string;
  }

  /** The same with several outputs. */
  nodeOf(
    count: number,
    opType: string,
    inputs: readonly string[],
    attributes: Parameters<OnnxModel["node"]>[3] = {},
    domain = "",
  ): string[] {
    const outputs = Array.from({ length: count }, () => this.fresh());
    this.#model.node(opType, inputs, outputs, attributes, domain);
    return outputs;
  }

  /** The value of a key, made once. */
  once(key: string, make: () => string): string {
    const known = this.#once.get(key);
    if (known !== undefined) return known;
    const name = make();
    this.#once.set(key, name);
    return name;
  }

  /** Names the value of a node that another lowering computed. */
  define(node: Node, name: string): void {
    this.#names.set(node, name);
  }

  /** A constant of integers, by default of shape [n]. */
  integers(values: readonly number[], shape: readonly number[] = [values.length]): string {
    return this.once(`integers ${values.join()} [${shape.join()}]`, () =>
      this.#initializer("i64", shape, bytesOf(BigInt64Array.from(values, BigInt))),
    );
  }

  floats(values: readonly number[], shape: readonly number[]): string {
    return this.once(`floats ${values.map((x) => (Object.is(x, -0) ? "-0" : x)).join()} ${shape.join()}`, () =>
      this.#initializer("f32", shape, bytesOf(Float32Array.from(values))),
    );
  }

  #initializer(dtype: OnnxDType, shape: readonly number[], data: Uint8Array): string {
    const name = `c${this.#count++}`;
    this.#model.initializer(name, dtype, shape, data);
    return name;
  }

  /** A shape as a tensor of integers. */
  shape(dims: readonly Dim[]): string {
    const numbers = dims.filter((dim) => typeof dim === "number");
    if (numbers.length === dims.length) return this.integers(numbers);
    const parts = dims.map((dim) => this.size(dim));
    return this.once(`shape ${dims.join()}`, () => this.node("Concat", parts, { axis: 0 }));
  }

  /** A size as a tensor of one integer. */
  size(dim: Dim): string {
    if (typeof dim === "number") return this.integers([dim]);
    return this.once(`size ${dim}`, () => {
      const feed = this.#feeds.find(({ shape }) => shape.includes(dim));
      if (feed) {
        const axis = feed.shape.indexOf(dim);
        return this.node("Shape", [feed.name], { start: axis, end: axis + 1 });
      }
      const quotient = dim.includes("*") || dim.includes("+") ? undefined : quotientOf(dim);
      if (quotient) {
        const above = this.node("Add", [this.size(quotient.dim), this.integers([quotient.by - 1])]);
        return this.node("Div", [above, this.integers([quotient.by])]);
      }
      const terms = termsOf(dim);
      const [only] = terms;
      if (terms.length === 1 && only?.factor === 1 && only.symbols.length === 1) {
        throw new RuntimeError(`no feed has the size ${symbolsOf(dim).join()}, so the model cannot know it`);
      }
      const sums = terms.map(({ factor, symbols }) =>
        [this.integers([factor]), ...symbols.map((symbol) => this.size(symbol))].reduce((a, b) =>
          this.node("Mul", [a, b]),
        ),
      );
      return sums.reduce((a, b) => this.node("Add", [a, b]));
    });
  }

  output(name: string, node: Node): void {
    this.#model.node("Identity", [this.value(node)], [name]);
    this.#model.output(name, node.dtype, this.#shown(node.shape));
  }

  /** ONNX has names of sizes, but no arithmetic with them. */
  #shown(shape: readonly Dim[]): (number | string)[] {
    return shape.map((dim) => {
      if (typeof dim === "number") return dim;
      const name = String(multiplyDims(dim));
      return this.#axes[name] ?? name;
    });
  }

  #addWeight(node: Node, name: string, { dtype, values }: Weight): void {
    this.store(name, dtype, fixedShape(node, name), values);
    this.#stored.set(node, { name, dtype });
    this.#names.set(node, name);
  }

  #addQuantized(node: Node, name: string, { bits, block, codes, scales }: QuantizedWeight): void {
    const [rows = 0, columns = 0] = fixedShape(node, name);
    const blocks = Math.ceil(columns / block);
    const names = { bits, block, codes: `${name}.codes`, scales: `${name}.scales` };
    this.store(names.codes, "u8", [rows, blocks, (block * bits) / 8], codes);
    this.store(names.scales, "f32", [rows, blocks], scales);
    this.#quantized.set(node, names);
  }

  /** Makes values part of the model. @returns their name */
  store(name: string, dtype: OnnxDType, shape: readonly number[], values: ExternalData | Uint8Array): string {
    if (values instanceof Uint8Array) this.#model.initializer(name, dtype, shape, values);
    else this.#model.external(name, dtype, shape, values);
    return name;
  }
}

/**
 * Outputs that no other node reads, the last first. ONNX Runtime begins with what the last node of a file needs: so each
 * gradient is computed when its operands are, and they are freed, instead of all at the end.
 */
export function endsOf(nodes: readonly Node[], outputs: readonly Node[]): Node[] {
  const [read, wanted] = [new Set(nodes.flatMap(({ inputs }) => inputs)), new Set(outputs)];
  return nodes.filter((node) => node.op !== "input" && wanted.has(node) && !read.has(node)).reverse();
}

interface QuantizedNames extends Pick<QuantizedWeight, "bits" | "block"> {
  readonly codes: string;
  readonly scales: string;
}

function fixedShape({ shape }: Node, name: string): number[] {
  return shape.map((dim) => {
    if (typeof dim === "number") return dim;
    throw new RuntimeError(`the weight ${name} has no fixed shape`, { tensor: name });
  });
}

function constant(emitter: Emitter, node: Node): string {
  const values = node.attributes.values as readonly number[];
  if (node.dtype === "f32") return emitter.floats(values, node.shape as readonly number[]);
  const integers = emitter.integers(values, node.shape as readonly number[]);
  return node.dtype === "i64" ? integers : emitter.node("Cast", [integers], { to: 9 });
}
