// Lays out a checkpoint to write: shards, headers, offsets, index. Writes nothing.
import { DTYPE_BITS, FormatError, groupBy } from "../../kit/index.js";
import { MAX_HEADER_BYTES, serializeHeader, type TensorDeclaration, type TensorInfo } from "./header.js";
import { quote } from "./header-json.js";
import { INDEX_FILE, moduleTensor, SINGLE_FILE, shardName } from "./sharded.js";
import { bytesOf, DEFAULT_SHARD_BYTES, splitIntoShards } from "./split-shards.js";

export interface ShardLayout {
  /** Path inside the folder: the file's name, or for a module `2_Dense/model.safetensors`. */
  readonly name: string;
  /** Length, header and padding: all bytes before the data. */
  readonly header: Uint8Array;
  /** Size of the whole file. */
  readonly bytes: number;
  /** Tensors in the order of their data. Names of a module's begin with its folder, which the header leaves out. */
  readonly tensors: readonly TensorInfo[];
  /** File with most of these bytes in the same place, if there is one. */
  readonly cloneOf?: string;
}

export interface FolderLayout {
  readonly shards: readonly ShardLayout[];
  /** Bytes of all tensors together, headers not counted; the index has those of its files. */
  readonly totalSize: number;
  /** Name and content of the index; none for a single file. */
  readonly index?: { readonly name: string; readonly content: string };
}

/**
 * Lays tensors out over shards of at most `shardBytes` of data each, in the order given; a larger tensor gets its own
 * shard. Within a shard wider dtypes come first, which aligns every tensor. Tensors of modules (`2_Dense/linear.weight`) go to the
 * files of these, which the index does not name.
 * @throws FormatError if a tensor or the metadata cannot be stored in a safetensors file
 * @throws RecipeError if `shardBytes` is not positive, or so small that the shards are too many to open
 * @param metadata `__metadata__` of every shard; `format: "pt"` is added, without which transformers refuses a file
 */
export function layoutFolder(
  tensors: readonly TensorDeclaration[],
  options: { shardBytes?: number; metadata?: Readonly<Record<string, string>> } = {},
): FolderLayout {
  const { shardBytes = DEFAULT_SHARD_BYTES, metadata = {} } = options;
  const own = tensors.filter(({ name }) => !moduleTensor(name));
  const groups = splitIntoShards(own, shardBytes);
  const shards = groups.map((group, i) =>
    layoutFile(groups.length === 1 ? SINGLE_FILE : shardName(i + 1, groups.length), group, metadata),
  );
  const inModules = tensors.filter(({ name }) => moduleTensor(name));
  const modules = [...groupBy(inModules, ({ name }) => moduleTensor(name)?.folder)].map(([folder, group]) =>
    layoutFile(`${folder}/${SINGLE_FILE}`, group, {}),
  );
  const totalSize = tensors.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
  if (shards.length === 1) return { shards: [...shards, ...modules], totalSize };

  const names = new Set<string>();
  for (const { name } of own) {
    if (names.has(name)) {
      throw new FormatError(`a checkpoint cannot hold the tensor ${quote(name)} twice`, { tensor: name });
    }
    names.add(name);
  }
  const weightMap = Object.fromEntries(shards.flatMap((shard) => shard.tensors.map(({ name }) => [name, shard.name])));
  const ownSize = own.reduce((sum, tensor) => sum + bytesOf(tensor), 0);
  const content = `${JSON.stringify({ metadata: { total_size: ownSize }, weight_map: weightMap }, null, 2)}\n`;
  return { shards: [...shards, ...modules], totalSize, index: { name: INDEX_FILE, content } };
}

function layoutFile(
  name: string,
  group: readonly TensorDeclaration[],
  metadata: Readonly<Record<string, string>>,
): ShardLayout {
  const ordered = group.toSorted((a, b) => DTYPE_BITS[b.dtype] - DTYPE_BITS[a.dtype]);
  // Declarations alone: a tensor's data may be computed when it is read.
  const inFile = ordered.map(({ name: tensor, dtype, shape }) => {
    return { name: moduleTensor(tensor)?.name ?? tensor, dtype, shape };
  });
  const { bytes: header, tensors } = serializeHeader(inFile, { ...metadata, format: "pt" });
  const bytes = tensors.reduce((sum, tensor) => sum + tensor.bytes, header.byteLength);
  return { name, header, bytes, tensors: tensors.map((tensor, i) => ({ ...tensor, name: ordered[i]?.name ?? "" })) };
}

/** The same shard with `by` more bytes of header, which are spaces. */
export function lengthenHeader(shard: ShardLayout, by: number): ShardLayout {
  const length = shard.header.byteLength + by;
  if (by === 0 || length > MAX_HEADER_BYTES) return shard;
  const header = new Uint8Array(length).fill(0x20);
  header.set(shard.header);
  new DataView(header.buffer).setBigUint64(0, BigInt(length - 8), true);
  const tensors = shard.tensors.map((tensor) => ({ ...tensor, offset: tensor.offset + by }));
  return { ...shard, header, bytes: shard.bytes + by, tensors };
}
