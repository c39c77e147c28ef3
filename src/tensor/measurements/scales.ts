// Scales of blocks that are written as float8 (E4M3).
import { Converter } from "../../kernels/index.js";
import type { Shape } from "../../kit/index.js";
import type { Value } from "../expressions/expression.js";
import type { MaximaJob } from "../streaming/program.js";
import { type Binding, type Labelled, type Measuring, notFinite } from "./measurement.js";

/** Factors for the ops `divide-blocks` and `given`: by matrix and block, the largest magnitude over 448. */
export interface ScalesMeasurement extends Labelled {
  readonly kind: "scales";
  readonly values: readonly [Value];
  readonly shape: Shape;
  /** Rows and columns that share a scale. */
  readonly block: readonly [rows: number, columns: number];
  /** What scales are rounded to before values are divided by them; powers of two are rounded up. */
  readonly to: "F32" | "F16" | "BF16" | "power";
}

const LARGEST_F8 = 448;
/** The smallest scale above zero that float16 holds. */
const SMALLEST = 2 ** -24;

export function* measureScales(measurement: ScalesMeasurement, binding: Binding): Measuring<Float32Array> {
  const { id, label, values, shape, block, to } = measurement;
  const [value] = values;
  const job: MaximaJob = { kind: "maxima", name: label, value: binding.evaluation(value), width: block[1] };
  const [total] = yield { jobs: [job] };
  const largest = total as Float64Array;
  if (!largest.every(Number.isFinite)) throw notFinite(id, value);
  const [rows = 1, columns = 1] = shape.slice(-2);
  const [down, across] = [Math.ceil(rows / block[0]), Math.ceil(columns / block[1])];
  const scales = new Float32Array((largest.length / across / rows) * down * across);
  for (let i = 0; i < largest.length; i++) {
    const row = Math.floor(i / across);
    const place = (Math.floor(row / rows) * down + Math.floor((row % rows) / block[0])) * across + (i % across);
    scales[place] = Math.max(scales[place] as number, largest[i] as number);
  }
  for (let i = 0; i < scales.length; i++) {
    const scale = Math.fround((scales[i] as number) / LARGEST_F8);
    if (scale === 0) scales[i] = 1;
    else if (to === "power") scales[i] = 2 ** Math.ceil(Math.log2(scale));
    else scales[i] = to === "F16" ? Math.max(scale, SMALLEST) : scale;
  }
  if (to === "power" || to === "F32") return scales;
  const converter = new Converter();
  return converter.decode(to, converter.encode(to, scales).bytes);
}
