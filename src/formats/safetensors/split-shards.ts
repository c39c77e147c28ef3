// Splits the tensors of a checkpoint into shards.
import { DTYPE_BITS, elementCount, RecipeError } from "../../kit/index.js";
import { formatBytes } from "../../kit/printing/index.js";
import type { TensorDeclaration } from "./header.js";
import { MAX_SHARDS } from "./sharded.js";

/** Default limit of a shard: 5 GB, as the hub's tools wrote for years; large files fail more often in transfer. */
export const DEFAULT_SHARD_BYTES = 5_000_000_000;

export const bytesOf = ({ dtype, shape }: TensorDeclaration) => (elementCount(shape) * DTYPE_BITS[dtype]) / 8;

/**
 * Splits tensors in their order into shards of at most `shardBytes`; a larger tensor gets its own shard.
 * @throws RecipeError if `shardBytes` is not positive, or so small that the shards are too many to open
 */
export function splitIntoShards(tensors: readonly TensorDeclaration[], shardBytes: number): TensorDeclaration[][] {
  if (!(shardBytes > 0)) throw new RecipeError(`the shard size is ${shardBytes} bytes; it must be positive`);
  const shards: TensorDeclaration[][] = [[]];
  let filled = 0;
  for (const tensor of tensors) {
    const bytes = bytesOf(tensor);
    if (filled > 0 && filled + bytes > shardBytes) {
      shards.push([]);
      filled = 0;
    }
    shards.at(-1)?.push(tensor);
    filled += bytes;
  }
  // More could be written but not opened again.
  if (shards.length > MAX_SHARDS) {
    throw new RecipeError(
      `shards of at most ${formatBytes(shardBytes)} would be ${shards.length} files, over the limit of ${MAX_SHARDS}; allow larger shards`,
    );
  }
  return shards;
}
