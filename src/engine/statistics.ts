// Statistics of a model on texts, which merges weigh tensors by. Written as a checkpoint of the names of the model's tensors.
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { LinearWeights, StoredWeight } from "../families/index.js";
import type { SourceOptions } from "../formats/checkpoint/index.js";
import { writeSharded } from "../formats/safetensors/index.js";
import { addRows } from "../kernels/index.js";
import { longestOf, requireArray } from "../kit/arrays/index.js";
import { checkFolderOutput, writeFolder } from "../kit/files/index.js";
import { type CallOptions, CancelledError, elementCount, LayergraftError, Random, RecipeError } from "../kit/index.js";
import type { StatisticsKind } from "../merge/index.js";
import { beginOf } from "../text/index.js";
import { gradients, inputsOf, splitRows } from "./graph/gradients.js";
import type { Node } from "./graph/node.js";
import {
  estimateFisher,
  estimateInputs,
  fitsIn,
  type MemoryEstimate,
  type MemoryNeed,
  requireMemory,
} from "./memory/estimate.js";
import { buildDecoder, weightName } from "./model/decoder-graph.js";
import { FEEDS } from "./model/feeds.js";
import { readSpec } from "./model/read-spec.js";
import { FLOAT32 } from "./model/sizes.js";
import { locateWeights } from "./model/weight-names.js";
import { type EngineSource, type ModelSource, openModelSource } from "./model-source.js";
import { grouped, PACK_TOKENS, packed } from "./packs.js";
import { feedsOf, integers, RopeTables } from "./rope-tables.js";
import { chunksOfLogits } from "./runtime/chunks.js";
import { lowerGraph } from "./runtime/lower.js";
import { openSession, type TensorValue } from "./runtime/session.js";
import { loadSourceTokenizer } from "./source-text.js";
import { bindWeights } from "./weights.js";

/** Options of `measureStatistics`. */
export interface StatisticsOptions extends SourceOptions, CallOptions {
  readonly kind: StatisticsKind;
  readonly texts: readonly string[];
  /** Folder to write. */
  readonly out: string;
  /** Replace earlier statistics. Default: false. */
  readonly force?: boolean | undefined;
  /** Texts that are drawn if there are more. Default: 256. */
  readonly samples?: number | undefined;
  /** Tokens of a text that are read. Default: 512. */
  readonly length?: number | undefined;
  /** Seed of the draw. Default: 0. */
  readonly seed?: number | undefined;
  readonly threads?: number | undefined;
}

/** What `measureStatistics` wrote. */
export interface StatisticsSummary {
  readonly kind: StatisticsKind;
  readonly out: string;
  readonly texts: number;
  readonly tokens: number;
  readonly tensors: number;
}

interface Tensor {
  readonly name: string;
  readonly shape: readonly number[];
}

/** Tensors that are computed together, when the first of them is written. */
interface StatisticsPart {
  readonly tensors: readonly Tensor[];
  readonly estimate: MemoryEstimate;
  compute(): Promise<ReadonlyMap<string, Float32Array>>;
}

/** Most elements of gradients that are computed together: 1 GiB. */
const GROUP_ELEMENTS = 2 ** 28;
/** Names of the stream that a part reads, and of the one that it makes. */
const [STREAM, NEXT] = ["stream", "next"] as const;

/**
 * Measures statistics of a model on texts and writes them as float32 tensors of the model's names. `fisher`: of each weight,
 * the mean over texts of the squared derivative of the text's log-likelihood, the empirical diagonal Fisher information
 * (Matena and Raffel, arXiv 2111.09832, section 3), in the weight's shape. Of the inputs x of each matrix [out, in] in the
 * layers, over all tokens: `gram`, the mean of x x^T, [in, in]; `inputs`, the mean of |x|, [in]. `activations`: of each neuron
 * of the feed-forward networks, the share of tokens at which its gate is positive before the activation function (Tang et al.,
 * arXiv 2402.16438, section 2.1), [F], by the name of the gate's matrix, or of the first matrix where there is no gate.
 * @throws RecipeError if no text has two tokens; OutputError if `out` exists or is the model
 * @throws CheckpointError if the model has no tokenizer or cannot be used
 * @throws LayergraftError code `broken-model` if a statistic is not finite
 * @throws LayergraftError code `memory` if measuring needs more memory than is free; OutputError if the disk has no space
 * @throws RuntimeMissingError if ONNX Runtime is not installed; CancelledError if the signal fires
 */
export async function measureStatistics(model: EngineSource, options: StatisticsOptions): Promise<StatisticsSummary> {
  const { kind, out, force = false, samples = 256, length = 512, seed = 0 } = options;
  const target = resolve(options.folder ?? "", out);
  const inputs = typeof model === "string" ? [resolve(options.folder ?? "", model)] : [];
  await checkFolderOutput({ out: target, force }, inputs, (path) =>
    ["config.json", "model.safetensors"].includes(path),
  );
  const source = await openModelSource(model, options);
  const tokenizer = await loadSourceTokenizer(source);
  const begin = beginOf(tokenizer);
  const { texts } = options;
  const drawn = texts.length > samples ? Random.of(seed, "texts").sample(texts, samples) : texts;
  const ids = drawn.map((text) => tokenizer.encode(begin + text).slice(0, length)).filter((one) => one.length > 1);
  if (ids.length === 0) throw new RecipeError("the texts have no two tokens together. Give longer texts.");
  const tokens = ids.reduce((sum, one) => sum + one.length, 0);
  const parts = (kind === "fisher" ? fisherParts : tokenParts)(source, ids, options);
  for (const { estimate } of parts) {
    requireMemory({ what: `Measuring ${kind} of ${source.name}`, estimate, advice: adviceFor(source, ids, options) });
  }
  let current: { readonly part: StatisticsPart; readonly values: ReadonlyMap<string, Float32Array> } | undefined;
  const valuesOf = async (part: StatisticsPart, name: string): Promise<Float32Array> => {
    if (current?.part !== part) {
      current = undefined;
      current = { part, values: await part.compute() };
    }
    const values = current.values.get(name) as Float32Array;
    if (!values.every(Number.isFinite)) {
      const message = `${source.name} gave infinite or NaN values at ${name}. Find broken weights with layergraft analyze.`;
      throw new LayergraftError("broken-model", message, { tensor: name });
    }
    return values;
  };
  const tensors = parts.flatMap((part) =>
    part.tensors.map(({ name, shape }) => ({
      name,
      shape,
      dtype: "F32" as const,
      get data() {
        return valuesOf(part, name);
      },
    })),
  );
  await mkdir(dirname(target), { recursive: true });
  const metadata = { statistics: kind, model: source.name, texts: `${ids.length}`, tokens: `${tokens}` };
  const fill = async (folder: string) => {
    await writeFile(join(folder, "config.json"), `${JSON.stringify(source.config.json, null, 2)}\n`);
    await writeSharded(folder, tensors, { metadata, shardBytes: Number.MAX_SAFE_INTEGER });
  };
  const bytes = tensors.reduce((sum, { shape }) => sum + FLOAT32 * elementCount(shape), 0);
  await writeFolder(target, "the statistics", fill, { replace: force, bytes });
  return { kind, out: target, texts: ids.length, tokens, tensors: tensors.length };
}

/** The kinds that fit in the place of fisher, as they are measured layer by layer. */
function adviceFor(
  source: ModelSource,
  texts: readonly (readonly number[])[],
  options: StatisticsOptions,
): MemoryNeed["advice"] {
  const others = options.kind === "fisher" && !isMixture(source) ? (["inputs", "gram"] as const) : [];
  return (free) => {
    const fitting = others.filter((kind) => {
      const parts = tokenParts(source, texts, { ...options, kind, onProgress: undefined });
      return parts.every(({ estimate }) => fitsIn(estimate, free));
    });
    if (fitting.length === 0) return { text: "Use a smaller model, or a machine with more memory." };
    return { text: `Measure ${fitting.join(" or ")} instead, one layer at a time.` };
  };
}

const isMixture = ({ config, tensors }: ModelSource): boolean => Boolean(readSpec(config, tensors.keys()).routing);

/** Reports texts as they are read, `total` with those that are read again. */
function counted({ signal, onProgress }: CallOptions, total: number): () => void {
  let done = 0;
  const report = () => onProgress?.({ phase: "reading texts", done: done++, total, unit: "items" });
  report();
  return () => {
    if (signal?.aborted) throw new CancelledError("stopped before the end");
    report();
  };
}

/** The graph of a model, the stored names of its weights, and how to bind them: once, when the first part needs them. */
function openDecoder(
  source: ModelSource,
  { signal, threads }: StatisticsOptions,
  options?: Parameters<typeof buildDecoder>[1],
) {
  const spec = readSpec(source.config, source.tensors.keys());
  const { stored: names } = locateWeights(spec, source.tensors.keys(), source.name);
  const decoder = buildDecoder(spec, options);
  let bound: ReturnType<typeof bindWeights> | undefined;
  const bind = () => {
    bound ??= bindWeights({ spec, weights: decoder.weights }, source, { signal, threads });
    return bound;
  };
  return { names, ...decoder, bind, ropes: new RopeTables(spec.ropes) };
}

function fisherParts(
  source: ModelSource,
  texts: readonly (readonly number[])[],
  options: StatisticsOptions,
): StatisticsPart[] {
  const { names, graph, weights, logits, bind, ropes } = openDecoder(source, options);
  const loss = graph.sum(graph.crossEntropy(logits, graph.input("labels", "i64", ["rows"])), [0]);
  // Inputs by the stored tensor that they are rows of.
  const rowsOf = new Map<string, (readonly [input: string, stored: StoredWeight])[]>();
  for (const [input, stored] of weights) {
    const name = names.get(stored.name) as string;
    rowsOf.set(name, [...(rowsOf.get(name) ?? []), [input, stored]]);
  }
  const measured = [...source.tensors.values()].filter(({ tensor }) => rowsOf.has(tensor));
  for (const { tensor, shape } of measured) {
    requireArray(elementCount(shape), `the Fisher information of ${tensor}`, { tensor });
  }
  const groups = grouped(measured, ({ shape }) => elementCount(shape), GROUP_ELEMENTS);
  const estimate = estimateFisher(source, { together: GROUP_ELEMENTS, tokens: longestOf(texts) });
  const next = counted(options, groups.length * texts.length);
  return groups.map((group): StatisticsPart => {
    const tensors = group.map(({ tensor: name, shape }): Tensor => ({ name, shape }));
    const compute = async () => {
      const inputs = tensors.flatMap(({ name }) => (rowsOf.get(name) ?? []).map((one) => ({ name, one })));
      const nodes = inputs.map(({ one: [input] }) => graph.inputs.get(input) as Node);
      const sums = new Map(tensors.map(({ name, shape }) => [name, new Float32Array(elementCount(shape))]));
      const outputs: Record<string, Node> = {};
      // Each text's derivatives are written to the same memory, as results of ONNX Runtime are freed late.
      const into: Record<string, TensorValue> = {};
      const derived = gradients(graph, loss, nodes).flatMap((gradient, i) => {
        if (!gradient) return [];
        const { dense, rows } = splitRows(graph, gradient);
        const shape = gradient.shape as readonly number[];
        const data = new Float32Array(elementCount(shape));
        if (dense) {
          outputs[`${i}`] = dense;
          into[`${i}`] = { dtype: "f32", shape, data };
        }
        const added = rows.map(({ ids, values }, at) => {
          const names = { ids: `${i}.ids.${at}`, values: `${i}.values.${at}` };
          outputs[names.ids] = ids;
          outputs[names.values] = values;
          return names;
        });
        const { name, one } = inputs[i] as (typeof inputs)[number];
        const [all, { rows: part }] = [sums.get(name) as Float32Array, one[1]];
        const from = part ? (all.length / part.of) * part.from : 0;
        const sum = all.subarray(from, from + data.length);
        return [{ data, sum, isDense: dense !== undefined, added, width: shape[1] ?? 1 }];
      });
      const model = lowerGraph(outputs, { weights: (await bind()).weights, chunks: chunksOfLogits(logits) });
      const session = await openSession(model, {
        threads: options.threads,
        config: { "session.disable_prepacking": "1" },
      });
      try {
        for (const text of texts) {
          const feeds = {
            ...feedsOf([text], ropes),
            [FEEDS.rows]: integers([text.length - 1], [...text.keys()].slice(0, -1)),
            labels: integers([text.length - 1], text.slice(1)),
          };
          const results = await session.run(feeds, Object.keys(outputs), into);
          for (const { data, sum, isDense, added, width } of derived) {
            if (!isDense) data.fill(0);
            for (const { ids, values } of added) {
              addTogether(data, results[ids]?.data as BigInt64Array, results[values]?.data as Float32Array, width);
            }
            addSquares(sum, data, 1 / texts.length);
          }
          next();
        }
      } finally {
        await session.close();
      }
      return sums;
    };
    return { tensors, estimate, compute };
  });
}

/** Adds rows [N, width] to a table, those of one id as their sum. */
function addTogether(table: Float32Array, ids: BigInt64Array, values: Float32Array, width: number): void {
  const places = new Map([...new Set(ids)].map((id, place) => [id, place]));
  const together = new Float32Array(places.size * width);
  const to = Array.from(ids, (id) => places.get(id) as number);
  addRows(together, to, values, width);
  addRows(table, [...places.keys()].map(Number), together, width);
}

function addSquares(into: Float32Array, values: Float32Array, factor: number): void {
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    into[i] = (into[i] as number) + factor * Math.fround(value * value);
  }
}

function add(into: Float32Array, values: Float32Array, factor: number): void {
  for (let i = 0; i < values.length; i++) into[i] = (into[i] as number) + factor * (values[i] as number);
}

/** One part per layer, which reads the states that the one before it made. Its tensors are means over tokens. */
function tokenParts(
  source: ModelSource,
  texts: readonly (readonly number[])[],
  options: StatisticsOptions,
): StatisticsPart[] {
  if (isMixture(source)) {
    const advice = options.kind === "activations" ? "" : " Measure fisher, for the method fisher.";
    throw new RecipeError(
      `${source.name} is a mixture of experts; ${options.kind} can only be measured on dense models.${advice}`,
    );
  }
  const projections = new Map<StoredWeight, { readonly x: Node; readonly y: Node }>();
  const { spec, names, graph, weights, streams, bind, ropes } = openDecoder(source, options, {
    adapt: (_, weight, x, y) => {
      projections.set(weight, { x, y });
      return y;
    },
  });
  /** The sum over the rows of a pack. */
  const statisticOf = ({ weight, bias }: LinearWeights): Node => {
    const { x, y } = projections.get(weight) as { x: Node; y: Node };
    if (options.kind === "gram") return graph.matmul(x, x, { transA: true });
    if (options.kind === "inputs")
      return graph.sum(graph.where(graph.less(x, graph.constant(0)), graph.neg(x), x), [0]);
    const gate = bias ? graph.add(y, graph.input(weightName(bias), "f32", bias.shape)) : y;
    return graph.sum(graph.cast(graph.less(graph.constant(0), gate), "f32"), [0]);
  };
  const packs = packed(texts, ropes);
  const tokens = texts.reduce((sum, text) => sum + text.length, 0);
  const together = Math.min(tokens, Math.max(PACK_TOKENS, longestOf(texts)));
  const states: Float32Array[] = [];
  const next = counted(options, packs.length * (spec.layers.length + 1));
  /** Runs a part of the graph over all packs; the stream that it makes replaces the one that it reads. */
  const run = async (outputs: Record<string, Node>, from: Node | undefined, each: (results: Results) => void) => {
    const given = new Map(from ? [[from, STREAM]] : []);
    const fed = inputsOf(Object.values(outputs), given);
    const session = await openSession(lowerGraph(outputs, { weights: (await bind()).weights, given }), {
      threads: options.threads,
    });
    try {
      for (const [i, pack] of packs.entries()) {
        const feeds = Object.fromEntries(Object.entries(feedsOf(pack, ropes)).filter(([name]) => fed.has(name)));
        const data = states[i];
        if (from && data) feeds[STREAM] = { dtype: "f32", shape: [data.length / spec.hidden, spec.hidden], data };
        const results = await session.run(feeds, Object.keys(outputs));
        states[i] = results[NEXT]?.data as Float32Array;
        each(results);
        next();
      }
    } finally {
      await session.close();
    }
  };
  return spec.layers.map((layer, index): StatisticsPart => {
    const { gate, up } = layer.weights;
    const isProjection = ({ weight }: LinearWeights) => projections.has(weight);
    const parts = options.kind === "activations" ? [gate ?? up] : Object.values(layer.weights).filter(isProjection);
    const measured = parts.filter((part) => part !== undefined);
    // Matrices that are rows of one stored matrix have the same inputs.
    const statistics = new Map(
      measured.map((linear) => [names.get(linear.weight.name) as string, statisticOf(linear)]),
    );
    const nodes = [...new Set(statistics.values())];
    const tensors = [...statistics].map(([name, { shape }]): Tensor => ({ name, shape: shape as readonly number[] }));
    const read = [...inputsOf([...nodes, streams[index + 1] as Node], new Map([[streams[index] as Node, STREAM]]))];
    const estimate = estimateInputs(spec, {
      weights: read.map((input) => elementCount(weights.get(input)?.shape ?? [0])),
      statistics: nodes.map(({ shape }) => elementCount(shape as readonly number[])),
      tokens,
      together,
      longest: longestOf(texts),
    });
    const compute = async () => {
      if (index === 0) await run({ [NEXT]: streams[0] as Node }, undefined, () => undefined);
      const outputs: Record<string, Node> = { [NEXT]: streams[index + 1] as Node };
      for (const [i, node] of nodes.entries()) outputs[`${i}`] = node;
      const sums = nodes.map(({ shape }) => new Float32Array(elementCount(shape as readonly number[])));
      await run(outputs, streams[index], (results) => {
        for (const [i, sum] of sums.entries()) add(sum, results[`${i}`]?.data as Float32Array, 1 / tokens);
      });
      return new Map([...statistics].map(([name, node]) => [name, sums[nodes.indexOf(node)] as Float32Array]));
    };
    return { tensors, estimate, compute };
  });
}

type Results = Readonly<Record<string, TensorValue>>;
