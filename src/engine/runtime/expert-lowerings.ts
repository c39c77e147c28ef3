// Products of experts: a loop over the experts that rows have, whose body reads the matrix of one. What others have is
// neither computed nor read from the disk.
import type { Node } from "../graph/node.js";
import type { Emitter, Weight } from "./lower.js";
import type { Lowering } from "./lowerings.js";
import { type ExternalData, MICROSOFT } from "./onnx.js";

const FIRST_AXIS = [0];

export const stack: Lowering = (emitter, { inputs }) => {
  const parts = inputs.map((input) => emitter.node("Unsqueeze", [emitter.value(input), emitter.integers(FIRST_AXIS)]));
  return emitter.node("Concat", parts, { axis: 0 });
};

/** Where the rows of each expert begin and end, [E]. */
function runsOf(emitter: Emitter, ids: Node, experts: number): { readonly starts: string; readonly ends: string } {
  const counted = (comparison: string) =>
    emitter.once(`${comparison} ${emitter.value(ids)} ${experts}`, () => {
      const column = emitter.node("Unsqueeze", [emitter.value(ids), emitter.integers([1])]);
      const each = emitter.integers(Array.from({ length: experts }, (_, expert) => expert));
      const isBefore = emitter.node("Cast", [emitter.node(comparison, [column, each])], { to: 7 });
      return emitter.node("ReduceSum", [isBefore, emitter.integers(FIRST_AXIS)], { keepdims: 0 });
    });
  return { starts: counted("Less"), ends: counted("LessOrEqual") };
}

/** The rows of one expert. */
function rowsOf(emitter: Emitter, x: string, { starts, ends }: ReturnType<typeof runsOf>, expert: string): string {
  const [from, to] = [starts, ends].map((name) => emitter.node("Gather", [name, expert])) as [string, string];
  return emitter.node("Slice", [x, from, to, emitter.integers(FIRST_AXIS)]);
}

export const expertMatmul: Lowering = (emitter, { inputs, attributes }) => {
  const [x, ids, matrices] = inputs as [Node, Node, Node];
  const values = emitter.value(x);
  const runs = runsOf(emitter, ids, matrices.shape[0] as number);
  const hits = emitter.once(`hits ${runs.starts}`, () => {
    const has = emitter.node("NonZero", [emitter.node("Less", [runs.starts, runs.ends])]);
    return emitter.node("Reshape", [has, emitter.integers([-1])]);
  });
  const matrixOf = readerOf(emitter, matrices);
  const [index, condition, done] = [emitter.fresh(), emitter.fresh(), emitter.fresh()];
  const body = emitter.body(
    [
      { name: index, type: "i64" },
      { name: condition, type: "bool" },
      { name: done, type: "list" },
    ],
    () => {
      const expert = emitter.node("Gather", [hits, emitter.node("Unsqueeze", [index, emitter.integers(FIRST_AXIS)])]);
      const operands = [rowsOf(emitter, values, runs, expert), matrixOf(expert)];
      const product = emitter.node("FusedMatMul", operands, { transB: attributes.transB ? 1 : 0 }, MICROSOFT);
      return [
        { name: emitter.node("Identity", [condition]), type: "bool" },
        { name: emitter.node("SequenceInsert", [done, product]), type: "list" },
      ];
    },
  );
  const count = emitter.once(`count ${hits}`, () => emitter.node("Size", [hits]));
  const products = emitter.node("Loop", [count, "", emitter.node("SequenceEmpty", [], { dtype: 1 })], { body });
  return emitter.node("ConcatFromSequence", [products], { axis: 0 });
};

export const expertOuter: Lowering = (emitter, { inputs, shape }) => {
  const [a, b, ids] = inputs as [Node, Node, Node];
  const experts = shape[0] as number;
  const runs = runsOf(emitter, ids, experts);
  const [x, y] = [emitter.value(a), emitter.value(b)];
  const [index, condition] = [emitter.fresh(), emitter.fresh()];
  const body = emitter.body(
    [
      { name: index, type: "i64" },
      { name: condition, type: "bool" },
    ],
    () => {
      const expert = emitter.node("Unsqueeze", [index, emitter.integers(FIRST_AXIS)]);
      const [left, right] = [x, y].map((rows) => rowsOf(emitter, rows, runs, expert)) as [string, string];
      // A plain product, as a transposed one over no rows is not initialized.
      const product = emitter.node("MatMul", [emitter.node("Transpose", [left], { perm: [1, 0] }), right]);
      return [
        { name: emitter.node("Identity", [condition]), type: "bool" },
        { name: product, type: "floats" },
      ];
    },
  );
  return emitter.node("Loop", [emitter.integers([experts], []), ""], { body });
};

/** Bytes of one file that hold matrices of experts. */
interface Span {
  readonly name: string;
  readonly dtype: Weight["dtype"];
  /** Element that the matrix of each expert begins at, [E]; 0 for experts of other spans. */
  readonly begins: string;
}

/** Stored in more files than this, matrices are copied into memory. */
const MAX_SPANS = 8;

/**
 * How the body of a loop reads the matrix of an expert. Matrices in files are parts of one long tensor for each file, which
 * the runtime maps; others are joined before the loop.
 */
function readerOf(emitter: Emitter, matrices: Node): (expert: string) => string {
  const [, rows, columns] = matrices.shape as [number, number, number];
  const shape = emitter.integers([rows, columns]);
  const found = matrices.op === "stack" ? spansOf(emitter, matrices) : undefined;
  if (!found) {
    const joined = emitter.value(matrices);
    return (expert) => emitter.node("Reshape", [emitter.node("Gather", [joined, expert]), shape]);
  }
  const { spans, spanOf } = found;
  const read = ({ name, dtype, begins }: Span, expert: string) => {
    const from = emitter.node("Gather", [begins, expert]);
    const to = emitter.node("Add", [from, emitter.integers([rows * columns])]);
    const part = emitter.node("Slice", [name, from, to, emitter.integers(FIRST_AXIS)]);
    return dtype === "f32" ? part : emitter.node("Cast", [part], { to: 1 });
  };
  const select = (index: number, expert: string): string => {
    const span = spans[index] as Span;
    if (index === spans.length - 1) return read(span, expert);
    const own = emitter.node("Gather", [spanOf, expert]);
    const isHere = emitter.node("Reshape", [
      emitter.node("Equal", [own, emitter.integers([index])]),
      emitter.integers([]),
    ]);
    return emitter.node("If", [isHere], {
      then_branch: emitter.body([], () => [{ name: read(span, expert), type: "floats" }]),
      else_branch: emitter.body([], () => [{ name: select(index + 1, expert), type: "floats" }]),
    });
  };
  return (expert) => emitter.node("Reshape", [select(0, expert), shape]);
}

/** The spans of a stack whose parts are in files; undefined where they are not, or in too many. */
function spansOf(emitter: Emitter, { inputs }: Node): { spans: Span[]; spanOf: string } | undefined {
  const parts = inputs.map((input) => emitter.weight(input));
  const groups = new Map<string, { dtype: Weight["dtype"]; location: string; members: [number, ExternalData][] }>();
  for (const [expert, part] of parts.entries()) {
    if (!part || part.values instanceof Uint8Array) return undefined;
    const { dtype, values } = part;
    const { location } = values;
    const key = `${dtype} ${location}`;
    const group = groups.get(key) ?? { dtype, location, members: [] };
    group.members.push([expert, values]);
    groups.set(key, group);
  }
  if (groups.size > MAX_SPANS) return undefined;
  const spanOf = parts.map(() => 0);
  const spans: Span[] = [];
  for (const { dtype, location, members } of groups.values()) {
    const bytes = dtype === "f32" ? 4 : 2;
    const first = Math.min(...members.map(([, { offset }]) => offset));
    const end = Math.max(...members.map(([, { offset, length }]) => offset + length));
    if (members.some(([, { offset }]) => (offset - first) % bytes !== 0)) return undefined;
    const begins = parts.map(() => 0);
    for (const [expert, { offset }] of members) {
      begins[expert] = (offset - first) / bytes;
      spanOf[expert] = spans.length;
    }
    const length = end - first;
    const name = emitter.once(`span ${dtype} ${location} ${first} ${length}`, () =>
      emitter.store(emitter.fresh(), dtype, [length / bytes], { location, offset: first, length }),
    );
    spans.push({ name, dtype, begins: emitter.integers(begins) });
  }
  return { spans, spanOf: emitter.integers(spanOf) };
}
