// The tensors of a folder, from those of a GGUF file: the inverse of how such files are written.
import type { DecoderSpec, LlamaCpp } from "../../families/index.js";
import { bytesPerValue, type StoredBlocks, type StoredType, turnedElements } from "../../kernels/index.js";
import { CheckpointError, elementCount, isDType } from "../../kit/index.js";
import type { GgufHeader, GgufTensor } from "../gguf/header.js";
import type { FolderRows } from "../gguf/tensor-list.js";
import { layOutTensors } from "../gguf/tensors.js";
import type { SafetensorsFile } from "../safetensors/reader.js";
import type { CheckpointTensor, Undo } from "./checkpoint.js";
import type { Place } from "./placement.js";

/** A tensor of the folder without its place in the model. */
export type FolderTensor = Omit<CheckpointTensor, keyof Place>;

/** Rows of the file in their place in the folder's tensor. */
interface Run {
  readonly to: number;
  readonly count: number;
  readonly tensor: GgufTensor;
  readonly row: number;
}

/**
 * The tensors of a decoder, by the names of the specification.
 * @throws CheckpointError if the file has other tensors than it should have
 */
export function tensorsOfFolder(
  spec: DecoderSpec,
  graph: LlamaCpp,
  header: GgufHeader,
  file: SafetensorsFile,
): { found: FolderTensor[]; used: ReadonlySet<string> } {
  const refuse = (sentence: string): never => {
    throw new CheckpointError(`${file.path} ${sentence}`, { file: file.path });
  };
  const tensors = new Map(header.tensors.map((tensor) => [tensor.name, tensor]));
  const wholes = new Map<string, { readonly rows: FolderRows; readonly runs: Run[] }>();
  const used = new Set<string>();
  layOutTensors(spec, graph, ({ name, shape, parts }) => {
    const tensor =
      tensors.get(name) ?? refuse(`is missing ${name}, which a ${spec.family} model with its metadata has.`);
    if (squeezed(tensor.shape) !== squeezed(shape)) {
      refuse(`has ${name} as [${tensor.shape}], where its metadata say [${shape}].`);
    }
    used.add(name);
    let row = 0;
    for (const rows of parts) {
      const whole = wholes.get(rows.name) ?? { rows, runs: [] };
      whole.runs.push(...runsOf(rows, tensor, row));
      wholes.set(rows.name, whole);
      row += rows.count;
    }
  });
  return { found: [...wholes.values()].map(({ rows, runs }) => folderTensor(rows, runs, file)), used };
}

/** A shape without axes of one. */
const squeezed = (shape: readonly number[]) => shape.filter((extent) => extent !== 1).join();

/** Whether whole rows change places, and not values within them. */
const turnsRows = ({ shape, width, turn }: FolderRows) => shape.length > 1 && turn && turn.cell % width === 0;

/** Where rows of the file from `row` on go. */
function* runsOf(rows: FolderRows, tensor: GgufTensor, row: number): Generator<Run> {
  const { from, count, width, turn } = rows;
  if (!turn || !turnsRows(rows)) {
    yield { to: from, count, tensor, row };
    return;
  }
  const [size, cell] = [turnedElements(turn) / width, turn.cell / width];
  for (let start = 0, at = row; start < count; start += size) {
    for (let column = 0; column < turn.columns; column++) {
      for (let one = 0; one < turn.rows; one++, at += cell) {
        yield { to: from + start + (one * turn.columns + column) * cell, count: cell, tensor, row: at };
      }
    }
  }
}

function folderTensor(rows: FolderRows, runs: Run[], file: SafetensorsFile): FolderTensor {
  const { name, shape, width } = rows;
  const bytesOf = ({ type }: GgufTensor) => bytesPerValue(type as StoredType) * width;
  runs.sort((a, b) => a.to - b.to);
  const [{ tensor, row }] = runs as [Run, ...Run[]];
  const isView = runs.every((run) => run.tensor === tensor && run.row - run.to === row);
  const isMixed = runs.some((run) => run.tensor.type !== tensor.type);
  const isPlain = isMixed || isDType(tensor.type);
  const undo = undoOf(rows);
  return {
    name,
    shape,
    file,
    offset: tensor.offset + (isView ? row * bytesOf(tensor) : 0),
    bytes: runs.reduce((sum, run) => sum + run.count * bytesOf(run.tensor), 0),
    dtype: !isMixed && isDType(tensor.type) ? tensor.type : "F32",
    ...(isPlain ? {} : { blocks: tensor.type as StoredBlocks }),
    ...(undo ? { undo } : {}),
    ...(isView ? {} : { gathered: gather(runs, elementCount(shape) / width, isMixed, file) }),
  };
}

function gather(runs: readonly Run[], count: number, isMixed: boolean, file: SafetensorsFile) {
  const tensors = [...new Set(runs.map(({ tensor }) => tensor))];
  const [part, row] = [new Uint8Array(count), new Int32Array(count)];
  for (const run of runs) {
    part.fill(tensors.indexOf(run.tensor), run.to, run.to + run.count);
    for (let i = 0; i < run.count; i++) row[run.to + i] = run.row + i;
  }
  const parts = tensors.map(({ offset, type }) => ({ file, offset, ...(isMixed ? { type: type as StoredType } : {}) }));
  return { parts, part, row };
}

/** Divisors are llama.cpp's own factors, which are 1 in a configuration that was read. */
function undoOf(rows: FolderRows): Undo | undefined {
  const { negativeExp, plus = 0, turn } = rows;
  const isTurned = turn && !turnsRows(rows);
  if (!negativeExp && plus === 0 && !isTurned) return undefined;
  return {
    ...(isTurned ? { turn: { rows: turn.columns, columns: turn.rows, cell: turn.cell } } : {}),
    ...(negativeExp ? { log: true } : {}),
    ...(plus === 0 ? {} : { plus: -plus }),
  };
}
