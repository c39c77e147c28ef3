// A decoder to train. Parameters are fed from the arrays of the optimizer; frozen weights are bound in place.

import { type Graph, gradients, type Node, splitRows } from "../../engine/graph/index.js";
import { bindWeights, computeBlends, type ModelSource, RopeTables } from "../../engine/index.js";
import {
  type Adapt,
  buildDecoder,
  type DecoderSpec,
  FEEDS,
  locateWeights,
  readSpec,
  type StoredWeight,
} from "../../engine/model/index.js";
import { chunksOfLogits, type TensorValue } from "../../engine/runtime/index.js";
import { factorNames } from "../../formats/checkpoint/index.js";
import { CheckpointError, type Random, RecipeError } from "../../kit/index.js";
import { measureAll } from "../../tensor/measurements/index.js";
import type { Batch } from "../data/batches.js";
import { factorsOf, initialFactors, type LoraModule, type LoraPlan } from "./lora.js";
import { type Optimizer, type ParameterShape, requireArrays } from "./optimizer.js";
import { sessionsOf } from "./sessions.js";

/** Tokens of a batch of B rows and T positions, all [B T] row-major. A text (segment) attends to itself only. */
export type TokenBatch = Pick<Batch, "rows" | "time" | "ids" | "positions" | "segments" | "labels">;

export interface TrainableOptions {
  /** Names of the tensors to train, as in the checkpoint; ignored with LoRA. */
  readonly trained: ReadonlySet<string>;
  /** Factors to train instead of the tensors. */
  readonly lora?: LoraPlan | undefined;
  readonly threads?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface BatchLoss {
  /** Sum over the labels of minus the log-probability, in nats. */
  readonly loss: number;
  readonly labels: number;
}

interface GradientOutputs {
  readonly shape: readonly number[];
  /** The rows of the parameter; undefined for all of it. */
  readonly rows?: StoredWeight["rows"];
  readonly dense?: string;
  readonly scattered: readonly { readonly ids: string; readonly values: string }[];
}

const LABELS = "labels";
const LOSS = "loss";
const maskName = (module: LoraModule) => `dropout.${module.module}`;

interface DecoderParts {
  readonly source: ModelSource;
  readonly spec: DecoderSpec;
  readonly sessions: ReturnType<typeof sessionsOf>;
  readonly parameters: readonly ParameterShape[];
  readonly lora: LoraPlan | undefined;
  readonly outputs: ReadonlyMap<string, readonly GradientOutputs[]>;
  readonly feeds: ReadonlyMap<string, { readonly parameter: string; readonly stored: StoredWeight }>;
}

export class TrainableDecoder {
  readonly #parts: DecoderParts;
  readonly #ropes: RopeTables;

  private constructor(parts: DecoderParts) {
    this.#parts = parts;
    this.#ropes = new RopeTables(parts.spec.ropes);
  }

  /** What is trained, in the order of the tensors of the checkpoint. */
  get parameters(): readonly ParameterShape[] {
    return this.#parts.parameters;
  }

  /**
   * Builds the graph of loss and gradients. Sessions open when they are first needed.
   * @throws CheckpointError if the family is unknown, or the loss does not depend on a tensor to train
   * @throws RecipeError if a tensor to train is not part of the decoder
   * @throws RuntimeMissingError if there is no runtime for this platform
   */
  static async open(source: ModelSource, options: TrainableOptions): Promise<TrainableDecoder> {
    const { lora, threads, signal } = options;
    const spec = readSpec(source.config, source.tensors.keys());
    const names = locateWeights(spec, source.tensors.keys(), source.name).stored;
    const factors = lora ? factorGraph(lora, names) : undefined;
    const decoder = buildDecoder(spec, factors ? { adapt: factors.adapt } : {});
    const { graph } = decoder;
    const trained = new Map<string, { parameter: string; stored: StoredWeight; node: Node }>();
    if (!factors) {
      for (const [input, stored] of decoder.weights) {
        const parameter = names.get(stored.name) ?? stored.name;
        const node = graph.inputs.get(input);
        if (options.trained.has(parameter) && node) trained.set(input, { parameter, stored, node });
      }
      const known = new Set([...trained.values()].map(({ parameter }) => parameter));
      const lost = [...options.trained].filter((name) => !known.has(name));
      const summary = `These tensors of ${source.name} cannot be trained, because they are outside its decoder:`;
      if (lost.length > 0) throw new RecipeError(summary, lost, { field: "train" });
    }
    const learning: (readonly [parameter: string, node: Node, stored?: StoredWeight])[] = factors
      ? [...factors.inputs]
      : [...trained.values()].map(({ parameter, node, stored }) => [parameter, node, stored] as const);

    const labels = graph.input(LABELS, "i64", ["rows"]);
    const loss = graph.sum(graph.crossEntropy(decoder.logits, labels), [0]);
    const found = gradients(
      graph,
      decoder.balance ? graph.add(loss, graph.mul(decoder.balance, countOf(graph, labels))) : loss,
      learning.map(([, node]) => node),
    );
    const outputs: Record<string, Node> = { [LOSS]: loss };
    const gradientOutputs = new Map<string, GradientOutputs[]>();
    for (const [i, [parameter, , stored]] of learning.entries()) {
      const gradient = found[i];
      if (!gradient)
        throw new CheckpointError(`the loss of ${source.name} does not depend on ${parameter}`, { tensor: parameter });
      const list = gradientOutputs.get(parameter) ?? [];
      list.push(declareOutputs(graph, outputs, gradient, i, stored));
      gradientOutputs.set(parameter, list);
    }
    const parameters = lora
      ? lora.modules.flatMap((module) => Object.values(factorsOf(module, lora.settings.rank)))
      : [...new Set([...trained.values()].map(({ parameter }) => parameter))].map((name) => ({
          name,
          shape: source.tensors.get(name)?.shape ?? [],
        }));
    const order = new Map([...source.tensors.keys()].map((name, i) => [name, i]));
    if (!lora) parameters.sort((a, b) => (order.get(a.name) ?? 0) - (order.get(b.name) ?? 0));
    requireArrays(parameters);
    const frozen = new Map([...decoder.weights].filter(([input]) => !trained.has(input)));
    const bound = await bindWeights({ spec, weights: frozen }, source, { signal, threads });
    const sessions = sessionsOf(outputs, { weights: bound.weights, threads, chunks: chunksOfLogits(decoder.logits) });
    return new TrainableDecoder({ source, spec, sessions, parameters, lora, outputs: gradientOutputs, feeds: trained });
  }

  /** Fills the weights of the optimizer with the values that training starts from. */
  async initialise(optimizer: Optimizer, seed: number): Promise<void> {
    if (this.#parts.lora) {
      for (const module of this.#parts.lora.modules) {
        const { a, b } = initialFactors(module, this.#parts.lora.settings.rank, seed);
        const names = factorNames(module);
        optimizer.parameters.get(names.a)?.weights.set(a);
        optimizer.parameters.get(names.b)?.weights.set(b);
      }
      return;
    }
    const { sources, measurements, tensors } = this.#parts.source;
    const measured = await measureAll(measurements, sources, {});
    for (const { name } of this.parameters) {
      // One at a time: together they would be a second copy of the model.
      const step = tensors.get(name);
      if (!step) continue;
      const floats = await computeBlends([{ ...step, dtype: "F32" }], sources, measured);
      const values = floats.get(name);
      if (values) optimizer.parameters.get(name)?.weights.set(new Float32Array(values));
    }
  }

  /** The loss of a batch, without gradients. */
  async evaluate(batch: TokenBatch, optimizer: Optimizer): Promise<BatchLoss> {
    const { feeds, labels } = this.#feed(batch, optimizer, undefined);
    if (labels === 0) return { loss: 0, labels };
    const results = await this.#parts.sessions.run(feeds, [LOSS]);
    return { loss: Number(results[LOSS]?.data[0]), labels };
  }

  /**
   * The loss of a batch. Its gradients are added to those of the optimizer.
   * @param options.only names of the parameters to update; default all
   * @param options.random for dropout; without it, nothing is dropped
   */
  async accumulate(
    batch: TokenBatch,
    optimizer: Optimizer,
    options: { readonly only?: ReadonlySet<string> | undefined; readonly random?: Random | undefined } = {},
  ): Promise<BatchLoss> {
    const { feeds, labels } = this.#feed(batch, optimizer, options.random);
    if (labels === 0) return { loss: 0, labels };
    const wanted = [...this.#parts.outputs].filter(([name]) => options.only?.has(name) ?? true);
    const fetches = wanted.flatMap(([, list]) =>
      list.flatMap(({ dense, scattered }) => [
        ...(dense === undefined ? [] : [dense]),
        ...scattered.flatMap(({ ids, values }) => [ids, values]),
      ]),
    );
    // The gradients of the first batch of a step are written in place; those of others are added.
    const targets = wanted.map(([name, list]) => {
      const own = list.some(({ dense }) => dense !== undefined) ? optimizer.target(name) : new Float32Array();
      const gradient = own ?? new Float32Array(optimizer.parameters.get(name)?.weights.length ?? 0);
      return { name, list, isInPlace: own !== undefined, gradient, places: placesOf(list, gradient) };
    });
    const into = Object.fromEntries(targets.flatMap(({ places }) => places));
    const results = await this.#parts.sessions.run(feeds, [LOSS, ...new Set(fetches)], into);
    for (const { name, list, isInPlace, gradient, places } of targets) {
      if (places.length > 0 && isInPlace) optimizer.wrote(name);
      else if (places.length > 0) optimizer.accumulate(name, gradient);
      for (const { ids, values } of list.flatMap(({ scattered }) => scattered)) {
        const rows = Array.from(results[ids]?.data as BigInt64Array, Number);
        optimizer.accumulateRows(name, rows, results[values]?.data as Float32Array);
      }
    }
    return { loss: Number(results[LOSS]?.data[0]), labels };
  }

  close(): Promise<void> {
    return this.#parts.sessions.close();
  }

  #feed(
    batch: TokenBatch,
    optimizer: Optimizer,
    random: Random | undefined,
  ): { feeds: Record<string, TensorValue>; labels: number } {
    const { rows, time } = batch;
    const integers = (values: ArrayLike<number>, shape: readonly number[]): TensorValue => ({
      dtype: "i64",
      shape,
      data: BigInt64Array.from(values as Int32Array, BigInt),
    });
    const places: number[] = [];
    const labels: number[] = [];
    for (const [at, label] of batch.labels.entries()) {
      if (label < 0) continue;
      places.push(at);
      labels.push(label);
    }
    const longest = batch.positions.reduce((most, position) => Math.max(most, position), 0) + 1;
    const feeds: Record<string, TensorValue> = {
      [FEEDS.ids]: integers(batch.ids, [rows, time]),
      [FEEDS.positions]: integers(batch.positions, [rows, time]),
      [FEEDS.segments]: integers(batch.segments, [rows, time]),
      [FEEDS.rows]: integers(places, [places.length]),
      [LABELS]: integers(labels, [labels.length]),
      ...this.#ropes.feeds(longest, time),
    };
    for (const [input, { parameter, stored }] of this.#parts.feeds) {
      const values = optimizer.parameters.get(parameter)?.weights ?? new Float32Array();
      const width = stored.rows ? values.length / stored.rows.of : 0;
      const from = (stored.rows?.from ?? 0) * width;
      const data = stored.rows ? values.subarray(from, from + (stored.shape[0] ?? 0) * width) : values;
      feeds[input] = { dtype: "f32", shape: stored.shape, data };
    }
    if (this.#parts.lora) this.#feedFactors(this.#parts.lora, feeds, optimizer, rows * time, random);
    return { feeds, labels: labels.length };
  }

  #feedFactors(
    { modules, settings }: LoraPlan,
    feeds: Record<string, TensorValue>,
    optimizer: Optimizer,
    tokens: number,
    random: Random | undefined,
  ): void {
    for (const module of modules) {
      for (const { name, shape } of Object.values(factorsOf(module, settings.rank))) {
        const data = optimizer.parameters.get(name)?.weights ?? new Float32Array();
        feeds[name] = { dtype: "f32", shape, data };
      }
      if (settings.dropout === 0) continue;
      const kept = 1 / (1 - settings.dropout);
      const draw = random ? () => (random.float() < settings.dropout ? 0 : kept) : () => 1;
      const mask = Float32Array.from({ length: tokens * module.in }, draw);
      feeds[maskName(module)] = { dtype: "f32", shape: [tokens, module.in], data: mask };
    }
  }
}

/** The number of labels, as a float: losses are sums over them. */
function countOf(graph: Graph, labels: Node): Node {
  return graph.sum(graph.cast(graph.equal(labels, labels), "f32"), [0]);
}

function declareOutputs(
  graph: Graph,
  outputs: Record<string, Node>,
  gradient: Node,
  index: number,
  stored: StoredWeight | undefined,
): GradientOutputs {
  const { dense, rows } = splitRows(graph, gradient);
  const name = (part: string) => `gradient.${index}.${part}`;
  if (dense) outputs[name("dense")] = dense;
  const scattered = rows.map(({ ids, values }, i) => {
    outputs[name(`ids.${i}`)] = ids;
    outputs[name(`values.${i}`)] = values;
    return { ids: name(`ids.${i}`), values: name(`values.${i}`) };
  });
  return {
    shape: gradient.shape.map(Number),
    ...(dense ? { dense: name("dense") } : {}),
    scattered,
    ...(stored?.rows ? { rows: stored.rows } : {}),
  };
}

/** By output, the memory in the gradient of a parameter that it is written to. */
function placesOf(list: readonly GradientOutputs[], gradient: Float32Array): [string, TensorValue][] {
  return list.flatMap(({ dense, rows, shape }): [string, TensorValue][] => {
    if (dense === undefined) return [];
    const from = rows ? (gradient.length / rows.of) * rows.from : 0;
    const length = shape.reduce((product, extent) => product * extent, 1);
    return [[dense, { dtype: "f32", shape, data: gradient.subarray(from, from + length) }]];
  });
}

/** Adds s B A x to projections (Hu et al., arXiv 2106.09685, section 4.1). A and B are inputs of the graph. */
function factorGraph({ modules, settings, scale }: LoraPlan, storedNames: ReadonlyMap<string, string>) {
  const moduleOf = new Map(modules.flatMap((module) => module.tensors.map((tensor) => [tensor, module])));
  const inputs = new Map<string, Node>();
  const adapt: Adapt = (graph, stored, x, y, ofExperts) => {
    const module = moduleOf.get(storedNames.get(stored.name) ?? "");
    if (!module) return y;
    const factors = factorsOf(module, settings.rank);
    const [a, b] = [factors.a, factors.b].map(({ name, shape }) => graph.input(name, "f32", shape)) as [Node, Node];
    inputs.set(factors.a.name, a).set(factors.b.name, b);
    const read =
      settings.dropout === 0 ? x : graph.mul(x, graph.input(maskName(module), "f32", [x.shape[0] ?? 0, module.in]));
    const [from, count] = [ofExperts?.from ?? 0, y.shape[1] as number];
    if (ofExperts && module.experts !== undefined) {
      const { ids } = ofExperts;
      const apart = graph.reshape(a, [module.experts, settings.rank, module.in]);
      const low = graph.expertMatmul(read, ids, apart, true);
      const byExpert = graph.transpose(graph.reshape(b, [module.out, settings.rank, module.experts]), [2, 0, 1]);
      return graph.add(
        y,
        graph.mul(graph.expertMatmul(low, ids, graph.slice(byExpert, 1, from, from + count), true), scale),
      );
    }
    const low = graph.matmul(read, a, { transB: true });
    const rows = stored.rows ? graph.slice(b, 0, stored.rows.from, stored.rows.from + (stored.shape[0] ?? 0)) : b;
    return graph.add(y, graph.matmul(low, rows, { transB: true, alpha: scale }));
  };
  return { adapt, inputs };
}
