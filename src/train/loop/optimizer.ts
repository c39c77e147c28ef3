// The parameters that are trained, their gradients and moments, and a step on them: clipping, then AdamW in place.
// Knows neither where gradients come from nor when to step; that is the trainer's.
import { addRows, TrainingKernels } from "../../weights/index.js";
import type { OptimizerSettings } from "../run/run-schema.js";

export interface ParameterShape {
  readonly name: string;
  readonly shape: readonly number[];
}

/** A parameter: float32 arrays, row-major, all of the shape's size. */
export interface Parameter extends ParameterShape {
  /** The master weights, changed in place by every step. */
  readonly weights: Float32Array;
  /** Where its gradient is added up; may be given to a session as the output to write to (then call `wrote`). */
  readonly gradient: Float32Array;
  /** AdamW's m and v. */
  readonly first: Float32Array;
  readonly second: Float32Array;
  /** Steps that this parameter has made; in partitioned training they differ. */
  steps: number;
}

export interface StepResult {
  /** Global L2 norm of the gradients, times `scale`, before clipping. */
  readonly gradientNorm: number;
  /** False if the norm is not finite; then nothing was changed. */
  readonly applied: boolean;
}

// What torch.nn.utils.clip_grad_norm_ adds to the norm that it divides by.
const CLIP_EPSILON = 1e-6;

/** What gradients of this norm are multiplied by, as torch.nn.utils.clip_grad_norm_ does. */
export function clipFactor(norm: number, clip: number | false): number {
  return clip === false ? 1 : Math.min(1, clip / (norm + CLIP_EPSILON));
}

/**
 * AdamW over named parameters, which start as zeros: fill `weights` of each.
 *
 * Four float32 arrays per parameter, 16 bytes an element, taken at once and kept. They live in WebAssembly memory up to
 * its 4 GiB (268 million elements), where steps are fastest, and in ordinary memory beyond. A parameter without a
 * gradient since the last step is left as it is, its moments and its decay too, as PyTorch does with `grad = None`: that
 * is how each data stream of a partitioned run updates only its own part.
 */
export class Optimizer {
  readonly parameters: ReadonlyMap<string, Parameter>;
  readonly #settings: OptimizerSettings;
  readonly #kernels: TrainingKernels;
  readonly #written = new Set<string>();

  /** @param parameters those that are trained; the order is that of the sums over all of them */
  constructor(parameters: readonly ParameterShape[], settings: OptimizerSettings) {
    const lengths = parameters.map(({ shape }) => shape.reduce((product, extent) => product * extent, 1));
    const arrays = lengths.flatMap((length) => [length, length, length, length]);
    this.#kernels = new TrainingKernels({ bytes: TrainingKernels.bytesFor(arrays) });
    this.#settings = settings;
    const array = (length: number) => this.#kernels.array(length);
    this.parameters = new Map(
      parameters.map(({ name, shape }, i) => {
        const n = lengths[i] ?? 0;
        const arraysOf = { weights: array(n), gradient: array(n), first: array(n), second: array(n) };
        return [name, { name, shape, ...arraysOf, steps: 0 }];
      }),
    );
  }

  /** Adds a gradient to that of a parameter since the last step. @throws {RangeError} if its length is another */
  accumulate(name: string, gradient: Float32Array): void {
    const { gradient: total } = this.#parameter(name);
    if (this.#written.has(name)) {
      this.#kernels.add(total, gradient);
      return;
    }
    if (gradient.length !== total.length)
      throw new RangeError(`the gradient of ${name} has ${gradient.length} elements`);
    if (gradient !== total) total.set(gradient);
    this.#written.add(name);
  }

  /** Adds rows [N, D] to the gradient of a matrix [V, D], as an embedding has them; the same id may stand often. */
  accumulateRows(name: string, ids: ArrayLike<number>, rows: Float32Array): void {
    const { gradient, shape } = this.#parameter(name);
    if (!this.#written.has(name)) gradient.fill(0);
    this.#written.add(name);
    addRows(gradient, ids, rows, shape[1] ?? 1);
  }

  /** Where a session may write a parameter's gradient, if there is none of it since the last step; then call `wrote`. */
  target(name: string): Float32Array | undefined {
    const { gradient } = this.#parameter(name);
    return this.#written.has(name) ? undefined : gradient;
  }

  /** Says that a session wrote a parameter's whole gradient into its array. */
  wrote(name: string): void {
    this.#parameter(name);
    this.#written.add(name);
  }

  /** Forgets the gradients since the last step. */
  clear(): void {
    this.#written.clear();
  }

  /**
   * A step on all parameters that have a gradient, which they lose by it.
   * @param options.scale what gradients are multiplied by first, such as 1 over the tokens that were summed; default 1
   */
  step(options: { learningRate: number; scale?: number }): StepResult {
    const { learningRate, scale = 1 } = options;
    const { betas, eps, decay, decay_all: decayAll, clip } = this.#settings;
    const written = [...this.parameters.values()].filter(({ name }) => this.#written.has(name));
    this.clear();
    const squares = written.reduce((sum, { gradient }) => sum + this.#kernels.sumSquares(gradient), 0);
    const gradientNorm = Math.sqrt(squares) * Math.abs(scale);
    if (!Number.isFinite(gradientNorm)) return { gradientNorm, applied: false };
    const factor = scale * clipFactor(gradientNorm, clip);
    for (const parameter of written) {
      parameter.steps++;
      this.#kernels.adamw(parameter, {
        ...{ learningRate, beta1: betas[0], beta2: betas[1], epsilon: eps, scale: factor, step: parameter.steps },
        decay: decayAll || parameter.shape.length > 1 ? decay : 0,
      });
    }
    return { gradientNorm, applied: true };
  }

  #parameter(name: string): Parameter {
    const parameter = this.parameters.get(name);
    if (!parameter) throw new RangeError(`${name} is not a parameter that is trained`);
    return parameter;
  }
}
