// The plan that writes FP8: matrices that are copied keep their codes and scales, those that are computed are encoded again
// in the form of the first source that is FP8, or by blocks of 128 where none is.

import { type Checkpoint, type CheckpointTensor, quantisationSettings } from "../../formats/checkpoint/index.js";
import {
  type DType,
  elementCount,
  groupBy,
  isFloatDType,
  isObject,
  MismatchError,
  RecipeError,
} from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { type Leaf, leavesOf, type Value } from "../../tensor/expressions/index.js";
import type { Measurement } from "../../tensor/measurements/index.js";
import type { Step } from "../model-plan.js";
import type { OpenedPlan } from "./planner.js";
import { copyOf, moduleOf } from "./stored-plan.js";

type Scales = Extract<Measurement, { readonly kind: "scales" }>;

/** What scales are rounded to, by their dtype. */
const WRITTEN_SCALES: Partial<Readonly<Record<DType, Scales["to"]>>> = {
  F32: "F32",
  F16: "F16",
  BF16: "BF16",
  F8_E8M0: "power",
};

/** How a matrix is stored. */
interface Form extends Pick<Scales, "block" | "to"> {
  /** Its stored tensors by name, without the name of the matrix or its module. */
  readonly parts: ReadonlyMap<string, QuantisedPart>;
}

interface QuantisedPart extends Pick<Step, "dtype" | "shape"> {
  readonly is: "codes" | "scales" | "other";
  /** What copies have in its place. */
  readonly leaf?: Leaf;
}

/** @throws MismatchError if a matrix cannot be written as FP8 */
export function planFp8(opened: OpenedPlan): OpenedPlan {
  const { plan, sources } = opened;
  if (plan.recipe.as === "adapter") {
    throw RecipeError.at({ field: "dtype", actual: "fp8" }, "an adapter is not written as fp8. Choose bfloat16.");
  }
  const stored = new Map([...sources].map(([id, one]) => [id, new StoredForms(id, one)]));
  const lead = [stored.get(plan.configFrom), ...stored.values()].find((one) => one?.isFp8);
  const measurements: Measurement[] = [...plan.measurements];
  const problems = new Map<string, string[]>();
  const steps = plan.steps.flatMap((step): Step[] => {
    const copy = copyOf(step.value);
    const own = copy && stored.get(copy.source)?.of(copy.tensor);
    const form = lead ? formOf(step, lead, stored) : blocksOf128(step);
    if (typeof form === "string") problems.set(form, [...(problems.get(form) ?? []), step.tensor]);
    if (!form || typeof form === "string") return [step];
    const isKept = own !== undefined && isSame(own, form);
    const id = `scales of ${step.tensor}`;
    const { block, to } = form;
    if (!isKept) {
      measurements.push({ kind: "scales", id, label: "scales", values: [step.value], shape: step.shape, block, to });
    }
    return [...(isKept ? own : form).parts].map(([name, { is, dtype, shape, leaf }]): Step => {
      const tensor = stemOf(step.tensor) + name;
      const encoded = { codes: codesOf(step, id, block), scales: givenOf(shape, id), other: leaf };
      return { ...step, tensor, dtype, shape, value: (isKept ? leaf : encoded[is]) ?? step.value };
    });
  });
  const settings = lead?.settings ?? settingsOf128(plan.steps);
  if (problems.size > 0) {
    const lines = [...problems].map(([reason, tensors]) => `${formatSome(tensors)}: ${reason}`);
    throw new MismatchError("This merge cannot be written as fp8:", lines);
  }
  const config = { ...plan.config, quantization_config: settings };
  return { sources, plan: { ...plan, steps, measurements, config } };
}

const codesOf = ({ value, shape }: Step, factors: string, [height, width]: Form["block"]): Value => {
  return { op: "divide-blocks", of: [value], factors, rows: shape.at(-2) ?? 1, height, width };
};

const givenOf = (shape: Step["shape"], values: string): Value => {
  return { op: "given", of: [], values, at: 0, rows: 1, columns: elementCount(shape) };
};

/** The part of a name that the stored tensors of a matrix have in common. */
const stemOf = (name: string) => name.replace(/weight$/, "");

/** The matrices of a source, as they are stored. */
class StoredForms {
  readonly isFp8: boolean;
  readonly settings: unknown;
  readonly tensors: Checkpoint["tensors"];
  readonly #id: string;
  readonly #stored: Checkpoint["tensors"];
  readonly #modules: ReadonlyMap<string, readonly CheckpointTensor[]>;

  constructor(id: string, { tensors, asStored }: Checkpoint) {
    this.#id = id;
    this.tensors = tensors;
    this.#stored = asStored?.tensors ?? new Map();
    this.settings = asStored && quantisationSettings(asStored.config.json);
    this.isFp8 = asStored !== undefined && [...tensors.values()].some(({ coded }) => coded?.code === "FP8");
    this.#modules = groupBy(this.#stored.values(), ({ name }) => moduleOf(name));
  }

  /** The form of a matrix; undefined if it is not stored as FP8 codes with scales that can be written. */
  of(name: string): Form | undefined {
    const value = this.tensors.get(name);
    const codes = this.#stored.get(name);
    if (value?.coded?.code !== "FP8" || !codes) return undefined;
    const { scales, block } = value.coded;
    const to = WRITTEN_SCALES[scales.dtype];
    if (!to) return undefined;
    const isOwn = (one: CheckpointTensor) =>
      one === codes || (one.name.startsWith(stemOf(name)) && !this.tensors.has(one.name));
    const own = (this.#modules.get(moduleOf(name)) ?? []).filter(isOwn);
    const isPower = isObject(this.settings) && this.settings.scale_fmt === "ue8m0";
    const isPlain = !value.lowRank && !value.gathered && !value.undo;
    const parts = own.map(({ name: part, dtype, shape, offset, file }): [string, QuantisedPart] => {
      const isScales = offset === scales.offset && file === scales.file;
      const is = part === name ? "codes" : isScales ? "scales" : "other";
      const leaf = { source: this.#id, tensor: part, asStored: true } as const;
      return [part.slice(stemOf(name).length), { is, dtype, shape, ...(isPlain || is === "other" ? { leaf } : {}) }];
    });
    return { block, to: isPower ? "power" : to, parts: new Map(parts) };
  }
}

/** What a step is written in: as `lead` has it, or as the source that it comes from; a problem, as a clause. */
function formOf(step: Step, lead: StoredForms, stored: ReadonlyMap<string, StoredForms>): Form | string | undefined {
  const named = lead.tensors.has(step.tensor)
    ? [[lead, step.tensor] as const]
    : leavesOf(step.value).map(({ source, tensor }) => [stored.get(source), tensor] as const);
  const [owner, name = ""] = named.find(([one, tensor]) => one?.tensors.get(tensor)?.coded) ?? [];
  const code = owner?.tensors.get(name)?.coded?.code;
  if (!code) return undefined;
  return owner?.of(name) ?? `stored as ${code}, in a form that is not written; choose dtype bfloat16`;
}

function isSame(own: Form, form: Form): boolean {
  const describe = ({ block, to, parts }: Form) => {
    return JSON.stringify([block, to, [...parts].map(([name, { dtype, shape }]) => [name, dtype, shape]).sort()]);
  };
  return describe(own) === describe(form) && [...own.parts.values()].every(({ leaf }) => leaf);
}

/** As DeepSeek and Qwen publish: the projections of the layers by blocks of 128, with float32 scales. */
function blocksOf128({ tensor, layer, part, dtype, shape }: Step): Form | string | undefined {
  if (!isProjection({ layer, part, shape }) || !isFloatDType(dtype)) return undefined;
  if (shape.length > 2)
    return "matrices of several experts in one tensor, which are written as FP8 only if a source has them so";
  if (!tensor.endsWith(".weight") || !shape.every((extent) => extent % 128 === 0))
    return "sides that are not multiples of 128, the size of a block; choose dtype bfloat16";
  const scales = { is: "scales", dtype: "F32", shape: shape.map((extent) => extent / 128) } as const;
  return {
    block: [128, 128],
    to: "F32",
    parts: new Map<string, QuantisedPart>([
      ["weight", { is: "codes", dtype: "F8_E4M3", shape }],
      ["weight_scale_inv", scales],
    ]),
  };
}

const isProjection = ({ layer, part, shape }: Pick<Step, "layer" | "part" | "shape">) =>
  layer !== null && part.endsWith("_proj") && shape.length > 1;

function settingsOf128(steps: readonly Step[]) {
  const others = steps
    .filter((step) => step.shape.length === 2 && !isProjection(step))
    .map(({ tensor }) => moduleOf(tensor));
  return {
    quant_method: "fp8",
    fmt: "e4m3",
    activation_scheme: "dynamic",
    weight_block_size: [128, 128],
    modules_to_not_convert: [...new Set([...others, "lm_head"])],
  };
}
