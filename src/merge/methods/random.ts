// What methods draw at random: a function of the recipe's seed, the model and the tensor, whose values follow from their places
// in it (`drop` and `random` of the kernels), so threads and order change nothing.
import { createHash } from "node:crypto";
import type { Seed } from "../../tensor/streaming/index.js";

/**
 * Seed for one model and tensor, independent of threads and order.
 * @param model path in the whole recipe, which makes nested recipes draw independently
 */
export function seedOf(seed: number, model: string, tensor: string): Seed {
  const digest = createHash("sha256").update(`${seed} ${model} ${tensor}`).digest();
  return [digest.readInt32LE(0), digest.readInt32LE(4)];
}
