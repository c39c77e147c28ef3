// Opens checkpoints: configuration, and the place of every tensor in the model and on disk. Reads headers only.
import { stat } from "node:fs/promises";
import { basename } from "node:path";
import type { StoredBlocks, StoredType, Turn } from "../../kernels/index.js";
import { digestOf, stampOf } from "../../kit/files/index.js";
import { type DType, elementCount, LayergraftError, type Shape } from "../../kit/index.js";
import { formatBytes, formatSome } from "../../kit/printing/index.js";
import { type CodedValues, readQuantised, readShapes } from "../quantised/index.js";
import { readRange, type SafetensorsFile } from "../safetensors/reader.js";
import { openShards } from "../safetensors/sharded.js";
import { type AdaptedBase, type Adapter, type LowRankDelta, openAdapter, type SavedRows } from "./adapter.js";
import {
  type CheckpointConfig,
  quantisationSettings,
  readConfig,
  statedDType,
  unquantise,
  untied,
  withLayers,
  withoutQuantisation,
  withVocabulary,
} from "./config.js";
import { isGgufFile, openGguf } from "./gguf-source.js";
import type { HubAccess } from "./hub-source.js";
import { folderName, locateOrFetch, type RemoteLocation } from "./locate.js";
import { countedLayers, type Place, placeTensors } from "./placement.js";
import { withStoredFacts } from "./stated-facts.js";
import { withoutWrappers } from "./wrapped-names.js";

/** A tensor's values in a file. */
export interface StoredTensor {
  readonly file: SafetensorsFile;
  /** First byte in the file. */
  readonly offset: number;
  readonly bytes: number;
}

/** A tensor of a checkpoint: where it is stored, and what it is. */
export interface CheckpointTensor extends Place, StoredTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  /** Change that an adapter adds to the stored values. */
  readonly lowRank?: LowRankDelta & { readonly file: SafetensorsFile };
  /** Rows gathered one by one, after vocabulary alignment or in the order of a GGUF file; the stored tensor is `parts[0]`. */
  readonly gathered?: GatheredRows;
  /** How a GGUF file stores the values, which are read as float32. */
  readonly blocks?: StoredBlocks;
  /** Codes, whose scales are other tensors of the file; `dtype` is that of the values. */
  readonly coded?: CodedValues;
  /** What makes values of the stored ones. Default: nothing. */
  readonly undo?: Undo;
}

/** What a GGUF file has otherwise than a folder: values are turned, then log(-x) of themselves, then added to. */
export interface Undo {
  /** Within whole rows, or the whole of a vector. */
  readonly turn?: Turn;
  readonly log?: true;
  readonly plus?: number;
}

/** How a tensor's values are stored. */
export const storedType = ({
  blocks,
  coded,
  dtype,
}: Pick<CheckpointTensor, "blocks" | "coded" | "dtype">): StoredType => coded?.code ?? blocks ?? dtype;

/** Instead of the index of a part: its rows are zero. */
export const NO_PART = 255;

/** Rows of the model's own matrix that a new row is a sum of, and their weights; those of donor row i from `starts[i]` on. */
export interface ListedRows {
  readonly starts: Int32Array;
  readonly rows: Int32Array;
  readonly weights: Float64Array;
}

/**
 * How rows are approximated: by default donor row ~ sum c_j donor[atom_j], new row = sum c_j own[twin_j]. The coefficients
 * of orthogonal matching pursuit; with `nearest`, of the k atoms at the least distance, by which they are weighted inversely.
 */
export interface Pursuit<Donor> {
  readonly nearest?: "euclidean" | "cosine" | undefined;
  /** The mean of all rows in place of a sum of atoms. */
  readonly mean?: true | undefined;
  readonly listed?: ListedRows | undefined;
  readonly donor: Donor;
  /** Rows of shared tokens in the donor's matrix, ascending, and in the model's own. */
  readonly atoms: Int32Array;
  readonly twins: Int32Array;
  /** Most atoms of a row. */
  readonly k: number;
  /** Rows of the matrix in a block. */
  readonly blockRows: number;
}

/** Rows gathered from several stored tensors of the same width. */
export interface GatheredRows {
  readonly parts: readonly {
    readonly file: SafetensorsFile;
    readonly offset: number;
    /** How its values are stored, which are read as float32. Default: as those of the whole tensor. */
    readonly type?: StoredType;
  }[];
  /** Index of the part, by row; `NO_PART` for a row of zeros, `PURSUED` for one that is approximated. */
  readonly part: Uint8Array;
  /** Row number in the part, by row; in the donor for one that is approximated. */
  readonly row: Int32Array;
  readonly pursuit?: Pursuit<CheckpointTensor>;
}

/** A tensor of zeros, of the shape and dtype of a stored one. */
export function zeroRows(like: CheckpointTensor): CheckpointTensor {
  const rows = like.shape[0] ?? 0;
  const gathered = { parts: [like], part: new Uint8Array(rows).fill(NO_PART), row: new Int32Array(rows) };
  return { ...like, gathered };
}

/** An opened checkpoint: its headers and configuration. No value of its weights is in memory. */
export interface Checkpoint {
  /** Source as given. */
  readonly source: string;
  /** Absolute path of the folder, or of a GGUF file. */
  readonly folder: string;
  /** Folder with the configuration, the tokenizer and their like: the same, or for a GGUF file one made of its metadata. */
  readonly texts: string;
  /** Displayed name: the folder's name, or `org/name` from the hub's cache. */
  readonly name: string;
  readonly config: CheckpointConfig;
  /** The family's name; "unknown" if only layer numbers were recognized. */
  readonly architecture: string;
  /** Number of transformer layers, L; 0 where it has no single stack of layers. */
  readonly layers: number;
  /** Why there are none, as a clause. */
  readonly withoutLayers?: string;
  /** Prefix of a layer's number in tensor names, such as `model.layers.`. */
  readonly layerPrefix: string;
  /** Whether the output head is tied to the embedding; if so, no head tensor is listed, even if an equal one is stored. */
  readonly tied: boolean;
  /** All tensors by name, in the order of the files. */
  readonly tensors: ReadonlyMap<string, CheckpointTensor>;
  /** Weight files, the adapter's last. */
  readonly files: readonly SafetensorsFile[];
  readonly adapter?: Adapter;
  /** Of a quantised checkpoint that is read as its values: the same with codes and scales as tensors, to copy them; without its adapter. */
  readonly asStored?: Checkpoint;
  /** Branch, tag or commit that was asked for, if the model was given by its name on the hub. */
  readonly revision?: string;
  /** The same of its adapter. */
  readonly adapterRevision?: string;
  /** A sentence for each branch or tag that is at another commit than the pinned one; also among the notes. */
  readonly moved: readonly string[];
  /** SHA-256 over the files' names, sizes and headers: changes when layout, shapes or names do. */
  readonly digest: string;
  /** Notes on how the folder was interpreted; usually empty. */
  readonly notes: readonly string[];
}

/** The folder of a model, and that of its adapter. */
export const foldersOf = ({ folder, adapter }: Checkpoint) => [folder, ...(adapter ? [adapter.path] : [])];

/**
 * Opens a checkpoint: FOLDER, or FOLDER+ADAPTER with a PEFT LoRA folder after the plus sign.
 *
 * Reads configuration and headers, never values.
 * @param options.base folder that relative paths start from; the working folder by default
 * @param options.hub access to the hub, for names such as `org/model` that are not in its cache; none by default
 * @throws HubError if the hub refuses or cannot be reached
 * @throws CheckpointError if a folder is missing, or is not a checkpoint or adapter that can be used
 * @throws FormatError if a weight file or index breaks the format
 */
export async function openCheckpoint(
  source: string,
  options: { base?: string; hub?: HubAccess | undefined } = {},
): Promise<Checkpoint> {
  const location = await locateOrFetch(source, options.base, options.hub);
  const { folder } = location;
  const gguf = isGgufFile(folder) ? await openGguf(folder) : undefined;
  const files = gguf ? [gguf.file] : await openShards(folder, location.remote);
  const texts = gguf?.folder ?? folder;
  const config = await readConfig(texts);
  const named = withoutWrappers(files.flatMap((file) => file.tensors.map((info) => ({ ...info, file }))));
  const stored = gguf?.stored ?? named.tensors;
  const notes = gguf?.notes ?? [named.note ?? []].flat();
  const opened = { source, location, texts, files, notes, hub: options.hub };
  const [settings, dtype] = [quantisationSettings(config.json), statedDType(config.json)];
  const quantised = gguf ? undefined : readQuantised(stored, settings, dtype, await readShapes(stored));
  if (!quantised) return describe({ ...opened, config, stored });
  if ("plain" in quantised) {
    const { whileRunning } = quantised;
    const kept = { ...config, quantized: undefined, ...(whileRunning ? { whileRunning } : {}) };
    if (quantised.keeps) return describe({ ...opened, config: kept, stored });
    const note = `the configuration says that weights are quantised (${config.quantized}), but they are plain values; its settings of quantisation are left out`;
    return describe({ ...opened, config: withoutQuantisation(config), stored, notes: [...notes, note] });
  }
  if ("problem" in quantised) {
    const method = config.quantized ?? "an unknown method";
    const note = `the weights are quantised (${method}) and can only be copied, as ${quantised.problem}; to compute with them, ${unquantise(method)}`;
    const copied = { ...config, unread: quantised.problem };
    return describe({ ...opened, config: copied, stored, notes: [...notes, note] });
  }
  const { tensors, note } = quantised;
  const plain = withoutQuantisation(config);
  const decoded = await describe({ ...opened, config: plain, stored: tensors, notes: [...notes, note] });
  const { adapter: _, ...base } = location;
  return { ...decoded, asStored: await describe({ ...opened, location: base, config, stored }) };
}

interface OpenedFiles {
  readonly source: string;
  readonly location: RemoteLocation;
  readonly texts: string;
  readonly files: readonly SafetensorsFile[];
  readonly notes: readonly string[];
  readonly hub: HubAccess | undefined;
  readonly config: CheckpointConfig;
  readonly stored: readonly Omit<CheckpointTensor, keyof Place>[];
}

async function describe({
  source,
  location,
  texts,
  files,
  hub,
  config: read,
  stored,
  ...own
}: OpenedFiles): Promise<Checkpoint> {
  const { folder } = location;
  const names = stored.map((tensor) => tensor.name);
  const counted = countedLayers(names, read);
  const stated = counted === undefined ? read : withLayers(read, counted);
  const placement = placeTensors(names, stated);

  const notes: string[] = [...(location.notes ?? []), ...(location.moved ?? []), ...own.notes];
  if (counted !== undefined) {
    notes.push(`the configuration says ${read.layersField} ${read.layers}, the tensors ${counted}, which is written`);
  }
  const tensors = new Map<string, CheckpointTensor>();
  for (const tensor of stored) {
    tensors.set(tensor.name, { ...tensor, ...(placement.places.get(tensor.name) as Place) });
  }
  const storedHead = await headOf(tensors, stated, placement.tiedByDefault);
  const { revision, adapterRevision } = location;
  const name = folderName(folder);
  const { layerPrefix } = placement;
  const adapter = await openAdapterOf(location, { tensors, layerPrefix, tied: storedHead.isTied, config: stated });
  const rows = adapter && applyAdapter(tensors, adapter);
  // An adapter of a tied model can save a head, too.
  const head = adapter && storedHead.isTied ? await headOf(tensors, stated, placement.tiedByDefault) : storedHead;
  for (const note of new Set([storedHead.note, head.note])) if (note !== undefined) notes.push(note);
  if (adapter) notes.push(...adapterNotes(adapter, tensors, placement.layers, name, rows));
  const isOne = head.isTied && [...tensors.values()].some(({ part, lowRank }) => part === "embed_tokens" && lowRank);
  if (adapter && isOne) {
    notes.push(
      `the adapter ${adapter.name} changes the embedding or the output head of ${name}, which are one matrix, so it changes both, as in PEFT's merge`,
    );
  }
  const shaped = rows === undefined ? stated : withVocabulary(stated, rows);
  const facts = withStoredFacts(head.isUntied ? untied(shaped) : shaped, tensors);
  notes.push(...facts.notes);
  const config = {
    ...facts.config,
    layers: stated.layers ?? placement.layers,
    ...(counted === undefined || read.layers === undefined ? {} : { statedLayers: read.layers }),
  };
  const allFiles = adapter ? [...files, adapter.file] : files;
  const remoteBytes = allFiles.reduce((sum, file) => sum + (file.remote ? file.bytes : 0), 0);
  if (remoteBytes > 0 && hub?.fetch === "headers") {
    notes.push(`${formatBytes(remoteBytes)} of weights are on the hub and were not read; download them to read them`);
  }
  return {
    source,
    folder,
    texts,
    name: adapter ? `${name}+${adapter.name}` : name,
    config,
    architecture: placement.architecture,
    layers: placement.layers,
    ...(placement.withoutLayers === undefined ? {} : { withoutLayers: placement.withoutLayers }),
    layerPrefix,
    tied: head.isTied,
    tensors,
    files: allFiles,
    ...(adapter ? { adapter } : {}),
    ...(revision === undefined ? {} : { revision }),
    ...(adapterRevision === undefined ? {} : { adapterRevision }),
    moved: location.moved ?? [],
    digest: digestOf(
      allFiles.map(({ path, bytes, headerDigest: digest }) => `${basename(path)} ${bytes} ${digest}\n`).join(""),
    ),
    notes,
  };
}

async function openAdapterOf(
  { adapter: folder, remoteAdapter, adapterRevision }: RemoteLocation,
  base: AdaptedBase,
): Promise<Adapter | undefined> {
  if (folder === undefined) return undefined;
  const adapter = await openAdapter(folder, base, remoteAdapter);
  // A snapshot's folder is named by its commit.
  return adapterRevision === undefined ? adapter : { ...adapter, name: folderName(folder) };
}

/** The output head as the tensors have it; one that equals the embedding it is tied to is removed. */
async function headOf(
  tensors: Map<string, CheckpointTensor>,
  config: CheckpointConfig,
  tiedByDefault: boolean,
): Promise<{ isTied: boolean; isUntied?: true; note?: string }> {
  // Encoders store a bias of the head, too, which is tied to nothing.
  const head = [...tensors.values()].find(({ part, shape }) => part === "lm_head" && shape.length === 2);
  if (!head) return { isTied: config.tied ?? true };
  if (!(config.tied ?? tiedByDefault)) return { isTied: false };
  const embedding = [...tensors.values()].find(({ part }) => part === "embed_tokens");
  if (embedding && (await hasSameBytes(head, embedding))) {
    tensors.delete(head.name);
    return {
      isTied: true,
      note: `${head.name} is stored, but the configuration ties it to the embedding; it is left out`,
    };
  }
  const note = `the configuration ties ${head.name} to the embedding, but another one is stored, so it is kept and tie_word_embeddings becomes false`;
  return { isTied: false, isUntied: true, note };
}

/** Bytes of two tensors that are read at once. */
const COMPARED_BYTES = 2 ** 23;
/** On the hub, only these are read: heads that differ do so in their first rows. */
const COMPARED_BYTES_ON_HUB = 2 ** 18;

async function hasSameBytes(a: CheckpointTensor, b: CheckpointTensor): Promise<boolean> {
  if (a.lowRank !== b.lowRank || a.gathered !== b.gathered) return false;
  if (a.bytes !== b.bytes || a.dtype !== b.dtype || storedType(a) !== storedType(b) || a.coded) return false;
  const isRemote = a.file.remote !== undefined || b.file.remote !== undefined;
  const end = isRemote ? Math.min(a.bytes, COMPARED_BYTES_ON_HUB) : a.bytes;
  for (let at = 0; at < end; at += COMPARED_BYTES) {
    const to = Math.min(end, at + COMPARED_BYTES);
    const [mine, theirs] = await Promise.all(
      [a, b].map(({ file, offset }) => readRange(file, offset + at, offset + to)),
    );
    if (!mine || !theirs || Buffer.compare(mine, theirs) !== 0) return false;
  }
  return true;
}

/** Puts an adapter's changes on the tensors of its base; returns the rows of the vocabulary if it enlarged it. */
function applyAdapter(tensors: Map<string, CheckpointTensor>, adapter: Adapter): number | undefined {
  const { file } = adapter;
  let rows: number | undefined;
  if (adapter.untiedHead) tensors.set(adapter.untiedHead.name, adapter.untiedHead);
  for (const [name, replacement] of adapter.replacements) {
    const tensor = tensors.get(name);
    const { layer, part, transposed } = tensor ?? { layer: null, part: "lm_head" as const };
    if (part === "embed_tokens" && tensor && tensor.shape[0] !== replacement.shape[0]) rows = replacement.shape[0];
    tensors.set(name, { ...replacement, layer, part, ...(transposed ? { transposed } : {}), name, file });
  }
  for (const [name, saved] of adapter.rows) {
    const tensor = tensors.get(name);
    if (tensor) tensors.set(name, withRows(tensor, saved, file));
  }
  for (const [name, delta] of adapter.deltas) {
    const tensor = tensors.get(name);
    if (tensor) tensors.set(name, { ...tensor, lowRank: { ...delta, file } });
  }
  return rows;
}

/** A tensor with some rows of another in the place of its own. */
function withRows(
  { blocks, ...tensor }: CheckpointTensor,
  { tensor: saved, ids }: SavedRows,
  file: SafetensorsFile,
): CheckpointTensor {
  const count = tensor.shape[0] ?? 0;
  // Rows in blocks and saved ones are both read as float32.
  const typed = (type: StoredType) => (blocks ? { type } : {});
  const own = {
    parts: [{ file: tensor.file, offset: tensor.offset, ...typed(blocks ?? tensor.dtype) }],
    part: new Uint8Array(count),
    row: Int32Array.from({ length: count }, (_, row) => row),
  };
  const { parts, part, row, ...others } = tensor.gathered ?? own;
  const gathered = {
    ...others,
    parts: [...parts, { file, offset: saved.offset, ...typed(saved.dtype) }],
    part: part.slice(),
    row: row.slice(),
  };
  for (const [index, id] of ids.entries()) {
    gathered.part[id] = parts.length;
    gathered.row[id] = index;
  }
  return { ...tensor, gathered };
}

/** Signs that an adapter was trained on another base, although all shapes match. */
function adapterNotes(
  adapter: Adapter,
  tensors: ReadonlyMap<string, CheckpointTensor>,
  layers: number,
  base: string,
  rows: number | undefined,
): string[] {
  const notes: string[] = [];
  if (rows !== undefined) notes.push(`the adapter ${adapter.name} changes the vocabulary of ${base} to ${rows} rows`);
  const { trainedOn } = adapter;
  if (trainedOn && basename(trainedOn) !== basename(base)) {
    notes.push(
      `the adapter ${adapter.name} was trained on ${trainedOn} according to its configuration, and is added to ${base}`,
    );
  }
  const adapted = new Set(
    [...adapter.deltas.keys()].map((name) => tensors.get(name)?.layer).filter((layer) => layer != null),
  );
  if (adapted.size > 0 && adapted.size < layers) {
    notes.push(`the adapter ${adapter.name} changes ${adapted.size} of ${layers} layers`);
  }
  return notes;
}

/** Number of parameters: elements of all tensors, a tied head not counted twice. */
export function parameterCount(checkpoint: Checkpoint): number {
  return [...checkpoint.tensors.values()].reduce((sum, tensor) => sum + elementCount(tensor.shape), 0);
}

/**
 * Checks that the files on this machine are those that were opened. A commit on the hub never changes.
 * @param consequence end of the message: what would happen, and what to do
 * @param times modification times by path, of an earlier run; default: nothing about the files has changed in this one
 * @throws LayergraftError code "changed" if a file changed
 */
export async function requireUnchanged(
  checkpoints: Iterable<Checkpoint>,
  consequence: string,
  times?: Readonly<Record<string, number>>,
): Promise<void> {
  const changed = new Set<string>();
  for (const { path, stamp, remote } of [...checkpoints].flatMap(({ files }) => files)) {
    if (remote) continue;
    const now = times ? stat(path).then(({ mtimeMs }) => mtimeMs) : stampOf(path);
    if ((await now.catch(() => undefined)) !== (times ? times[path] : stamp)) changed.add(path);
  }
  const [first] = changed;
  if (first === undefined) return;
  throw new LayergraftError("changed", `${formatSome([...changed])} changed since the run began, so ${consequence}`, {
    file: first,
    ...(times ? { option: "force" } : {}),
  });
}
