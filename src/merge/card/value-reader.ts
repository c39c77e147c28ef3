// Reads values of some rows of tensors into memory.
import type { Checkpoint } from "../../formats/checkpoint/index.js";
import type { KernelDType } from "../../kernels/index.js";
import type { DType } from "../../kit/index.js";
import { type Measured, Resolver, type Value } from "../../tensor/expressions/index.js";
import { type ElementRange, type Job, runProgram, type StreamOptions } from "../../tensor/streaming/index.js";
import { type SampleSettings, sampledJob } from "./sample.js";

/** Elements of a tensor of which the values are looked at. */
export const MOST_VALUES = 2 ** 16;

/** Which rows of a tensor are looked at. */
export interface LookedAt extends SampleSettings {
  readonly tensor: string;
  /** Elements whose rows are looked at in any case. */
  readonly firsts?: readonly number[];
}

/** Reads values of some rows of tensors into memory. */
export class ValueReader {
  readonly #resolvers = new Map<Measured, Resolver>();
  readonly #sources: ReadonlyMap<string, Checkpoint>;
  readonly #jobs: { readonly measured: Measured; readonly job: Job }[] = [];
  readonly #memory: SharedArrayBuffer[] = [];

  constructor(sources: ReadonlyMap<string, Checkpoint>) {
    this.#sources = sources;
  }

  /**
   * @param dtype that the values are rounded to first. Default: they are not
   * @returns place of the values
   */
  add(value: Value, measured: Measured, { tensor, seed, firsts = [], ...settings }: LookedAt, dtype?: DType): number {
    const resolver = this.#resolvers.get(measured) ?? new Resolver(this.#sources, measured);
    this.#resolvers.set(measured, resolver);
    const evaluation = resolver.evaluation(value);
    const { elements, columns } = evaluation;
    const file = this.#memory.length;
    const share = Math.min(settings.share, MOST_VALUES / elements);
    const rounded = dtype === "BF16" || dtype === "F16" ? { rounded: dtype as KernelDType } : {};
    const to = { file, offset: 0, dtype: "F32" as const };
    const whole: Job = { kind: "write", name: tensor, value: evaluation, to, ...rounded };
    const sampled = sampledJob(whole, evaluation, { share, seed });
    const own = firsts.slice(0, MOST_FIRSTS).map((at) => at - (at % columns));
    const job = sampled.sampled ? { ...sampled, sampled: withRows(sampled.sampled, own, columns) } : sampled;
    const read = job.sampled?.reduce((sum, { begin, end }) => sum + end - begin, 0) ?? elements;
    this.#memory.push(new SharedArrayBuffer(4 * read));
    this.#jobs.push({ measured, job });
    return file;
  }

  async run(stream: StreamOptions): Promise<void> {
    for (const [measured, { inputs }] of this.#resolvers) {
      const jobs = this.#jobs.filter((one) => one.measured === measured).map(({ job }) => job);
      await runProgram({ inputs, outputs: [], memory: this.#memory, jobs }, { ...stream, phase: "comparing" });
    }
  }

  values(place: number): Float32Array {
    return new Float32Array(this.#memory[place] as SharedArrayBuffer);
  }
}

const MOST_FIRSTS = 32;

/** Ranges with the rows that begin at these elements, ascending and without overlaps. */
function withRows(ranges: readonly ElementRange[], begins: readonly number[], columns: number): ElementRange[] {
  const isIn = (at: number) => ranges.some(({ begin, end }) => at >= begin && at < end);
  const others = [...new Set(begins)].filter((at) => !isIn(at)).map((begin) => ({ begin, end: begin + columns }));
  return [...ranges, ...others].toSorted((a, b) => a.begin - b.begin);
}
