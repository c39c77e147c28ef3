// The tensors of a module with codes: each is used, is known to be for inference only, or is a reason not to read them.

import { type DType, isFloatDType, type Shape, sameShape } from "../../kit/index.js";
import type { QuantisedTensor } from "./coded.js";

/** Why a module's tensors are not what its settings say, as a clause. */
export class Disagreement extends Error {}

/** What inference adds: scales of activations and caches. */
export const ADDED = /(^|[._])(input_scale(_ub|_inv)?|activation_scale|input_global_scale|output_scale|[kqv]_scale)$/;

/** Names of tensors that mean nothing without codes. */
const BESIDE_CODES =
  /([._](weight_(scale(_inv|_2)?|global_scale|zero_point|shape|g_idx|format)|qzeros|scales|g_idx|SCB|absmax|nested_absmax|quant_map|pre_quant_scale)|_scale_inv|_scales)$/;

export const isBesideCodes = ({ name }: QuantisedTensor) => BESIDE_CODES.test(name);

/** Where codes are, by their name or dtype. */
export function isCodes(tensor: QuantisedTensor): boolean {
  const { name, dtype, shape } = tensor;
  if (ADDED.test(name) || isBesideCodes(tensor)) return false;
  if (/(\.qweight|_packed|_blocks)$/.test(name) && !isFloatDType(dtype)) return true;
  return !isFloatDType(dtype) && (shape.length > 1 || /^F[468]_/.test(dtype));
}

export class Parts {
  readonly used: QuantisedTensor[] = [];
  /** Name of the codes, without what is added to that of the values. */
  readonly base: string;
  /** The module, or the stacked tensor, that codes belong to. */
  readonly module: string;
  readonly codes: QuantisedTensor;
  readonly #rest: Map<string, QuantisedTensor>;

  /** @param within all tensors of the module that the codes are in */
  constructor(codes: QuantisedTensor, within: readonly QuantisedTensor[]) {
    const { name } = codes;
    this.codes = codes;
    this.base = name.replace(/_(packed|blocks)$/, "");
    const ofModule = /\.q?weight$/.test(this.base);
    this.module = ofModule ? this.base.slice(0, this.base.lastIndexOf(".")) : this.base;
    const own = within.filter((one) => one !== codes && (ofModule || one.name.startsWith(`${this.base}_`)));
    this.#rest = new Map(own.map((one) => [one.name, one]));
  }

  /** A tensor by its whole name, if there is one. */
  get(name: string): QuantisedTensor | undefined {
    return this.#rest.get(name);
  }

  /** Checks the codes themselves. */
  expectCodes(dtype: DType, rank: number): void {
    const { name, shape } = this.codes;
    if (this.codes.dtype !== dtype) throw new Disagreement(`${name} is ${this.codes.dtype}, not ${dtype}`);
    if (shape.length < 2 || (rank === 2 && shape.length !== 2)) {
      throw new Disagreement(`${name} has the shape [${shape.join(", ")}], not that of a matrix`);
    }
  }

  /**
   * Takes a tensor that is there, or must be.
   * @param shapes any of these
   */
  take(name: string, dtypes: readonly DType[], shapes: readonly Shape[]): QuantisedTensor {
    const tensor = this.#rest.get(name);
    if (!tensor) throw new Disagreement(`${name} is missing`);
    if (!dtypes.includes(tensor.dtype)) {
      throw new Disagreement(`${name} is ${tensor.dtype}, not ${dtypes.join(" or ")}`);
    }
    if (!shapes.some((shape) => sameShape(shape, tensor.shape))) {
      const wanted = shapes.map((shape) => `[${shape.join(", ")}]`).join(" or ");
      throw new Disagreement(`${name} has the shape [${tensor.shape.join(", ")}], not ${wanted}`);
    }
    this.#rest.delete(name);
    this.used.push(tensor);
    return tensor;
  }

  /** Checks that every tensor of the module is used, a bias, or for inference only. */
  finish(): readonly QuantisedTensor[] {
    const unused = [...this.#rest.values()].find(
      ({ name, dtype }) => !ADDED.test(name) && !(/[._]bias$/.test(name) && isFloatDType(dtype)),
    );
    if (unused) throw new Disagreement(`layergraft does not know what ${unused.name} does to the codes beside it`);
    return this.used;
  }
}
