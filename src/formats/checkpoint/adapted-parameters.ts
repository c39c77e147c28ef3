// Adapters of parameters that hold the matrices of all experts of a layer (PEFT's `target_parameters`).

import { CheckpointError, formatShape } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import type { TensorInfo } from "../safetensors/header.js";
import type { LowRankDelta } from "./adapter.js";

/** The factors of a module, and what they are fitted to. */
interface Adapted {
  readonly module: string;
  readonly a: TensorInfo;
  readonly b: TensorInfo;
  /** The end of each adapted parameter's name. */
  readonly targetParameters: readonly string[];
  /** Whether the family stores matrices of experts as [in, out], which square ones do not show. */
  readonly isTransposed: boolean;
  readonly nameOf: (name: string) => string | undefined;
  readonly shapeOf: (target: string) => readonly number[];
  /** Rank and scale of a parameter's factors, which are those of so many matrices. */
  readonly formOf: (parameter: string, count: number) => Pick<LowRankDelta, "rank" | "scale">;
  readonly file: string;
}

/** Families with experts' matrices stored as [in, out]: `is_transposed` in transformers. */
export const TRANSPOSED_EXPERTS: ReadonlySet<string> = new Set(["gpt_oss", "openai_privacy_filter", "aria_text"]);

/**
 * The changes of a module's parameters, by the names of the base's tensors; none if the adapter targets none of it.
 * PEFT names the factors after the module alone, so the shapes show which parameter they change.
 */
export function changesOfParameters(adapted: Adapted): [string, LowRankDelta][] {
  const { module, a, b, targetParameters, file } = adapted;
  const ends = new Set(targetParameters.map((name) => name.slice(name.lastIndexOf(".") + 1)));
  const parameters = [...ends]
    .map((end) => `${module}.${end}`)
    .filter((name) => targetParameters.some((end) => name === end || name.endsWith(`.${end}`)));
  if (parameters.length === 0) return [];
  const fitting = parameters.map((name) => changesOf(name, adapted)).filter(({ length }) => length > 0);
  const [changes, another] = fitting;
  if (changes && !another) return changes;
  const fit = another ? "more than one" : "none";
  throw new CheckpointError(
    `${file}: the factors of ${module} are ${formatShape(a.shape)} and ${formatShape(b.shape)}, which fit ${fit} of ${formatSome(parameters)} in the base; is it the adapter's base?`,
    { file, tensor: module },
  );
}

function changesOf(name: string, adapted: Adapted): [string, LowRankDelta][] {
  const { a, b, nameOf, shapeOf, formOf, isTransposed } = adapted;
  const fits = (input: number, output: number) => a.shape[1] === input && b.shape[0] === output;
  const target = nameOf(name);
  if (target === undefined) return changesOfSingle(name, adapted);
  const [count = 0, rows = 0, columns = 0] = shapeOf(target);
  if (shapeOf(target).length !== 3) return [];
  const [isRows, isColumns] = [fits(columns, rows), fits(rows, columns)];
  if (!isRows && !isColumns) return [];
  const transposed = isColumns && (!isRows || isTransposed);
  return [[target, { a, b, ...formOf(name, count), transposed, experts: { count, first: 0 } }]];
}

/** The same where the base stores each expert's matrices by themselves. */
function changesOfSingle(name: string, { a, b, nameOf, shapeOf, formOf }: Adapted): [string, LowRankDelta][] {
  const [, experts = "", parameter] = /^(.*)\.(gate_up_proj|up_proj|down_proj)$/.exec(name) ?? [];
  const halves = parameter === "gate_up_proj" ? ["gate_proj", "up_proj"] : [parameter ?? ""];
  const tensors: string[][] = [];
  for (let expert = 0; ; expert++) {
    const own = halves.flatMap((half) => nameOf(`${experts}.${expert}.${half}.weight`) ?? []);
    if (own.length < halves.length) break;
    tensors.push(own);
  }
  const count = tensors.length;
  const [rows = 0, columns] = shapeOf(tensors[0]?.[0] ?? "");
  if (parameter === undefined || a.shape[1] !== columns || b.shape[0] !== rows * halves.length) return [];
  const whole: LowRankDelta = { a, b, ...formOf(name, count), transposed: false, experts: { count, first: 0 } };
  return tensors.flatMap((own, expert) =>
    own.map((tensor, half) => [tensor, deltaOfExpert(whole, expert, half, halves.length)] as [string, LowRankDelta]),
  );
}

/** The change of one expert's matrix, or of a part of its rows, in that of all experts' matrices. */
export function deltaOfExpert<D extends LowRankDelta>(delta: D, expert: number, part: number, parts: number): D {
  const { a, b, rank, experts } = delta;
  if (!experts) return delta;
  const ofA = a.bytes / experts.count;
  const ofB = b.bytes / parts;
  return {
    ...delta,
    a: { ...a, shape: [rank, a.shape[1] as number], offset: a.offset + expert * ofA, bytes: ofA },
    b: {
      ...b,
      shape: [(b.shape[0] as number) / parts, b.shape[1] as number],
      offset: b.offset + part * ofB,
      bytes: ofB,
    },
    experts: { ...experts, first: expert },
  };
}
