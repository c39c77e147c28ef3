// Parameters with their gradients and moments, and a step on them: clipping, then AdamW in place.
import { constants } from "node:buffer";
import { addRows, TrainingKernels } from "../../kernels/index.js";
import { elementCount, RecipeError } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import type { OptimizerSettings } from "../run/run-schema.js";
import { type Masks, scaleInside, zeroOutside } from "./masks.js";

export interface ParameterShape {
  readonly name: string;
  readonly shape: readonly number[];
}

/** A parameter: float32 arrays, row-major, all of the shape's size. */
export interface Parameter extends ParameterShape {
  /** The master weights, changed in place by every step. */
  readonly weights: Float32Array;
  /** The sum of its gradients. A session may write to it (see `wrote`). */
  readonly gradient: Float32Array;
  /** AdamW's m and v. */
  readonly first: Float32Array;
  readonly second: Float32Array;
  /** Steps of this parameter; in partitioned training they differ. */
  steps: number;
}

export interface StepResult {
  /** Global L2 norm of the scaled gradients, before clipping. */
  readonly gradientNorm: number;
  /** False if the norm is not finite; nothing is changed then. */
  readonly applied: boolean;
}

/**
 * Checks that arrays can hold parameters, before anything is computed.
 * @param most bytes of an array; default what this Node.js allows, 4 GiB before version 22
 * @throws RecipeError if a parameter has more as float32
 */
export function requireArrays(parameters: readonly ParameterShape[], most = constants.MAX_LENGTH): void {
  for (const { name, shape } of parameters) {
    const bytes = Float32Array.BYTES_PER_ELEMENT * elementCount(shape);
    if (bytes <= most) continue;
    throw RecipeError.at(
      { field: "train", tensor: name },
      `${name} has ${formatBytes(bytes)} as float32, and an array of Node.js ${process.versions.node} holds ${formatBytes(most)}. Leave it out of train, or use Node.js 22 or newer.`,
    );
  }
}

// From torch.nn.utils.clip_grad_norm_.
const CLIP_EPSILON = 1e-6;

/** The factor that clips gradients of a norm, as in torch.nn.utils.clip_grad_norm_. */
export function clipFactor(norm: number, clip: number | false): number {
  return clip === false ? 1 : Math.min(1, clip / (norm + CLIP_EPSILON));
}

/**
 * AdamW over named parameters, which start as zeros: fill `weights` of each.
 *
 * Each parameter has four float32 arrays, 16 bytes per element. They are together in one of several WebAssembly memories, where
 * steps are fastest; those of a parameter of more than 268 million elements do not fit in its 4 GiB. A parameter without a gradient since the last step is
 * not changed, decay included, as in PyTorch with `grad = None`. So each stream of a partitioned run updates its own part.
 */
export class Optimizer {
  readonly parameters: ReadonlyMap<string, Parameter>;
  readonly #settings: OptimizerSettings;
  readonly #kernels: ReadonlyMap<string, TrainingKernels>;
  readonly #masks: Masks | undefined;
  readonly #written = new Set<string>();

  /**
   * @param parameters in the order of the sums over all of them
   * @param masks elements that steps change; the others keep their bits, decay included. Default: all
   */
  constructor(parameters: readonly ParameterShape[], settings: OptimizerSettings, masks?: Masks) {
    const lengths = parameters.map(({ shape }) => elementCount(shape));
    const kernels = TrainingKernels.forGroups(lengths.map((length) => [length, length, length, length]));
    this.#kernels = new Map(parameters.map(({ name }, i) => [name, kernels[i] as TrainingKernels]));
    this.#settings = settings;
    this.#masks = masks;
    this.parameters = new Map(
      parameters.map(({ name, shape }, i) => {
        const n = lengths[i] ?? 0;
        const array = (length: number) => this.#kernelsOf(name).array(length);
        const arraysOf = { weights: array(n), gradient: array(n), first: array(n), second: array(n) };
        return [name, { name, shape, ...arraysOf, steps: 0 }];
      }),
    );
  }

  /** Adds to the gradient of a parameter. @throws RangeError if the length differs */
  accumulate(name: string, gradient: Float32Array): void {
    const { gradient: total } = this.#parameter(name);
    if (this.#written.has(name)) {
      this.#kernelsOf(name).add(total, gradient);
      return;
    }
    if (gradient.length !== total.length)
      throw new RangeError(`the gradient of ${name} has ${gradient.length} elements`);
    if (gradient !== total) total.set(gradient);
    this.#written.add(name);
  }

  /** Adds rows [N, D] to the gradient of an embedding [V, D]; ids may repeat. */
  accumulateRows(name: string, ids: ArrayLike<number>, rows: Float32Array): void {
    const { gradient, shape } = this.#parameter(name);
    if (!this.#written.has(name)) gradient.fill(0);
    this.#written.add(name);
    addRows(gradient, ids, rows, shape[1] ?? 1);
  }

  /** The array for a session to write a gradient to, if there is none since the last step; call `wrote` afterwards. */
  target(name: string): Float32Array | undefined {
    const { gradient } = this.#parameter(name);
    return this.#written.has(name) ? undefined : gradient;
  }

  /** Notes that a session wrote the whole gradient of a parameter. */
  wrote(name: string): void {
    this.#parameter(name);
    this.#written.add(name);
  }

  clear(): void {
    this.#written.clear();
  }

  /**
   * Makes a step on all parameters that have a gradient, and forgets the gradients.
   * @param options.scale factor of the gradients, such as 1 / tokens; default 1
   */
  step(options: { learningRate: number; scale?: number }): StepResult {
    const { learningRate, scale = 1 } = options;
    const { betas, eps, decay, decay_all: decayAll, clip } = this.#settings;
    const written = [...this.parameters.values()].filter(({ name }) => this.#written.has(name));
    this.clear();
    for (const { name, gradient } of written) {
      const mask = this.#masks?.get(name);
      // Before clipping. Moments of zeros stay zeros, and then a step adds nothing.
      if (mask) zeroOutside(gradient, mask);
    }
    const squares = written.reduce((sum, { name, gradient }) => sum + this.#kernelsOf(name).sumSquares(gradient), 0);
    const gradientNorm = Math.sqrt(squares) * Math.abs(scale);
    if (!Number.isFinite(gradientNorm)) return { gradientNorm, applied: false };
    const factor = scale * clipFactor(gradientNorm, clip);
    for (const parameter of written) {
      parameter.steps++;
      const rate = decayAll || parameter.shape.length > 1 ? decay : 0;
      const mask = this.#masks?.get(parameter.name);
      if (mask && rate > 0) scaleInside(parameter.weights, mask, Math.fround(1 - learningRate * rate));
      this.#kernelsOf(parameter.name).adamw(parameter, {
        learningRate,
        beta1: betas[0],
        beta2: betas[1],
        epsilon: eps,
        scale: factor,
        step: parameter.steps,
        decay: mask ? 0 : rate,
      });
    }
    return { gradientNorm, applied: true };
  }

  #kernelsOf(name: string): TrainingKernels {
    return this.#kernels.get(name) as TrainingKernels;
  }

  #parameter(name: string): Parameter {
    const parameter = this.parameters.get(name);
    if (!parameter) throw new RangeError(`${name} is not trained`);
    return parameter;
  }
}
