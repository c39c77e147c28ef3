// Layers whose states mix positions: texts one after the other in a row, as training packs them, do not reach one another,
// and factors of projections learn as the projections do.
// @module-tag slow
import { describe, expect, it } from "vitest";
import { allGoldens, distance, type Golden, specOf } from "../../test/support/golden-decoders.js";
import { Random } from "../kit/random.js";
import { openEngine } from "./engine.js";
import { gradients } from "./graph/gradients.js";
import type { Node } from "./graph/node.js";
import { buildDecoder, type DecoderOptions } from "./model/decoder-graph.js";
import { FEEDS } from "./model/feeds.js";
import { openModelSource } from "./model-source.js";
import { feedsOf, integers, RopeTables } from "./rope-tables.js";
import { lowerGraph } from "./runtime/lower.js";
import { openSession, type TensorValue } from "./runtime/session.js";
import { bindWeights } from "./weights.js";

const LOGITS = 1e-4;
// Relative to a gradient's norm.
const GRADIENT = 1e-4;

const recurrent = allGoldens().filter(({ folder }: Golden) => specOf(folder).recurrence !== null);

/** Outputs of a decoder that reads texts in one row. */
async function packed(
  folder: string,
  texts: readonly (readonly number[])[],
  options: DecoderOptions,
  outputsOf: (decoder: ReturnType<typeof buildDecoder>) => Readonly<Record<string, Node>>,
  more: Readonly<Record<string, TensorValue>> = {},
) {
  const source = await openModelSource(folder);
  const decoder = buildDecoder(specOf(folder), options);
  const outputs = outputsOf(decoder);
  const { weights } = await bindWeights(decoder, source, {});
  const session = await openSession(lowerGraph(outputs, { weights }), { threads: 1 });
  const count = texts.flat().length;
  const feeds = {
    ...feedsOf(texts, new RopeTables(decoder.spec.ropes)),
    [FEEDS.rows]: integers([count], [...Array(count).keys()]),
    ...more,
  };
  const found = await session.run(feeds, Object.keys(outputs));
  await session.close();
  return found;
}

describe.each(recurrent)("$name", ({ folder, rows, padding, logits, labels, gradients: wanted }: Golden) => {
  it("has the logits of transformers where texts are packed into one row", async () => {
    const texts = [...rows, ...rows.map((row) => row.slice(0, 2)), ...rows];
    const found = await packed(folder, texts, {}, (decoder) => ({ logits: decoder.logits }));
    const all = [...logits, ...logits.map((list) => list.slice(0, 2)), ...logits].flat(2);
    expect(distance(found.logits?.data as Float32Array, all)).toBeLessThan(LOGITS);
  });

  it("continues a common beginning as each text alone", async () => {
    const engine = await openEngine(folder, { threads: 1 });
    const [first = []] = rows;
    const texts = [first, [...first.slice(0, 10), 3, 4, 5], [...first.slice(0, 9), 7]];
    const [together, alone] = [await engine.score(texts), await Promise.all(texts.map((text) => engine.score([text])))];
    for (const [i, list] of together.entries()) expect(distance(list, alone[i]?.[0] ?? [])).toBeLessThan(LOGITS);
    const options = { maxNewTokens: 6, stopIds: [] };
    const answers = await engine.generate(texts, { ...options, batch: 2 });
    for (const [i, { ids }] of answers.entries()) {
      expect(ids).toEqual((await engine.generate([texts[i] ?? []], options))[0]?.ids);
    }
    await engine.close();
  });

  // y = W x + B A x: where B is 0, its derivative is that of W times A^T.
  it("has the gradients of PyTorch by factors of what its recurrences read and write", async () => {
    const rank = 2;
    const random = Random.of(7, "factors");
    const factors = new Map<string, { readonly name: string; readonly b: Node; readonly from: number }>();
    const feeds: Record<string, TensorValue> = {};
    const feed = (name: string, shape: readonly number[], of: () => number) => {
      feeds[name] ??= { dtype: "f32", shape, data: Float32Array.from({ length: shape.reduce((x, y) => x * y) }, of) };
    };
    const adapt: DecoderOptions["adapt"] = (graph, { name, shape, rows: part }, x, y) => {
      if (!/linear_attn|mamba|conv\.|mixer\.(in|out)_proj/.test(name)) return y;
      const [out, width] = shape as [number, number];
      const [first, second] = [`a ${name}`, `b ${name} ${part?.from ?? 0}`];
      feed(first, [rank, width], () => random.normal());
      feed(second, [out, rank], () => 0);
      const b = graph.input(second, "f32", [out, rank]);
      factors.set(second, { name, b, from: part?.from ?? 0 });
      const low = graph.matmul(x, graph.input(first, "f32", [rank, width]), { transB: true });
      return graph.add(y, graph.matmul(low, b, { transB: true }));
    };
    const next = labels.flatMap((row, i) => [...row.slice((padding[i] as number) + 1), -100]);
    const count = next.filter((label) => label >= 0).length;
    feeds.labels = integers(
      [next.length],
      next.map((label) => Math.max(0, label)),
    );
    const shares = next.map((label) => (label < 0 ? 0 : 1 / count));
    feeds.shares = { dtype: "f32", shape: [next.length], data: Float32Array.from(shares) };
    const found = await packed(
      folder,
      rows,
      { adapt },
      ({ graph, logits }) => {
        const losses = graph.crossEntropy(logits, graph.input("labels", "i64", ["rows"]));
        const loss = graph.sum(graph.mul(losses, graph.input("shares", "f32", ["rows"])), [0]);
        const nodes = gradients(
          graph,
          loss,
          [...factors.values()].map(({ b }) => b),
        );
        return Object.fromEntries([...factors.keys()].map((name, i) => [`d ${name}`, nodes[i] as Node]));
      },
      feeds,
    );
    expect(factors.size).toBeGreaterThan(1);
    for (const [second, { name, from }] of factors) {
      const [tensor] = [...wanted].filter(([stored]) => stored.endsWith(name)).map(([, values]) => values);
      const a = feeds[`a ${name}`]?.data as Float32Array;
      const width = tensor?.shape[1] as number;
      const data = found[`d ${second}`]?.data as Float32Array;
      const product = Array.from(data, (_, i) => {
        const [row, r] = [from + Math.floor(i / rank), i % rank];
        let sum = 0;
        for (let c = 0; c < width; c++)
          sum += (tensor?.values[row * width + c] as number) * (a[r * width + c] as number);
        return sum;
      });
      const apart = Math.hypot(...product.map((value, i) => value - (data[i] as number)));
      expect(apart / Math.hypot(...product), second).toBeLessThan(GRADIENT);
    }
  });
});
