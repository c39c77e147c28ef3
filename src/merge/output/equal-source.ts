// Whether a written merge has the weights of one of its sources, which its recipe then did not change.
import { join } from "node:path";
import type { CheckpointTensor } from "../../formats/checkpoint/index.js";
import { openSafetensors, readRange } from "../../formats/safetensors/index.js";
import { sameShape } from "../../kit/index.js";
import { type Measured, Resolver } from "../../tensor/expressions/index.js";
import type { OpenedPlan } from "../plan/planner.js";
import { copied } from "./compile.js";

const CHUNK_BYTES = 2 ** 22;

/**
 * The name of a source whose tensors are those of the output, bit for bit. What is copied from it is not read again, and reading
 * ends at the first difference. Sources of the hub, with adapters and of GGUF files are left out.
 * @param files weights of the output
 */
export async function equalSource(
  { plan, sources }: OpenedPlan,
  measured: Measured,
  out: string,
  files: readonly string[],
): Promise<string | null> {
  const opened = await Promise.all(files.map((file) => openSafetensors(join(out, file))));
  const written = new Map(
    opened.flatMap((file) => file.tensors.map((info) => [info.name, { ...info, file }] as const)),
  );
  const resolver = new Resolver(sources, measured);
  const differs = async (tensor: CheckpointTensor | undefined, step: (typeof plan.steps)[number]) => {
    const here = written.get(step.tensor);
    if (!here || tensor?.dtype !== step.dtype || !sameShape(tensor.shape, step.shape)) return true;
    if (tensor.blocks || tensor.coded || tensor.gathered || tensor.undo) return true;
    const stored = copied(step, resolver);
    if (stored?.file.path === tensor.file.path && stored.offset === tensor.offset) return false;
    for (let at = 0; at < tensor.bytes; at += CHUNK_BYTES) {
      const length = Math.min(CHUNK_BYTES, tensor.bytes - at);
      const [a, b] = await Promise.all(
        [tensor, here].map(({ file, offset }) => readRange(file, offset + at, offset + at + length)),
      );
      if (!a || !b || Buffer.compare(a, b) !== 0) return true;
    }
    return false;
  };
  for (const { id, name } of plan.sources) {
    const source = sources.get(id);
    if (!source || source.adapter || source.files.some(({ remote }) => remote)) continue;
    if (source.tensors.size !== plan.steps.length) continue;
    let isEqual = true;
    for (const step of plan.steps) if (isEqual) isEqual = !(await differs(source.tensors.get(step.tensor), step));
    if (isEqual) return name;
  }
  return null;
}
