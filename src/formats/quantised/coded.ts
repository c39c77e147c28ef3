// What tensors of codes become: values, with the tensors that they are made of.

import type { Code } from "../../kernels/index.js";
import type { DType, Shape } from "../../kit/index.js";
import type { TensorInfo } from "../safetensors/header.js";
import type { SafetensorsFile } from "../safetensors/reader.js";

/** How codes lie: value = (code - zero) x scale. */
export interface CodedForm {
  /** Of each matrix; several lie one after the other. */
  readonly rows: number;
  readonly columns: number;
  /** Runs of a matrix's codes that each row has a part of: 1 where rows lie together, `columns` where columns do. */
  readonly lines: number;
  /** Codes from one row to the next, where words at the end of a row are padded. */
  readonly stride?: number;
  /** Rows and columns that share a scale. */
  readonly block: readonly [rows: number, columns: number];
  /** Whether the scales (and zeros) of a column of blocks lie together, instead of a row's. */
  readonly byColumn: boolean;
  /** Subtracted from each code, in addition to a stored zero. */
  readonly zero: number;
  /** What stored zeros may be, all the same one: codes are symmetric, and only `zero` is subtracted. */
  readonly sameZeros?: readonly number[];
  /** Whether columns have an order of their own: groups that are all 0 then contradict it. */
  readonly isReordered?: true;
  /** Places of eight neighboring rows, where words have them in another order (AWQ). */
  readonly order?: readonly number[];
  /** Whether scales are divided by the second scale, instead of multiplied with it. */
  readonly isDivided?: boolean;
}

/** A stored tensor's values in a file. */
interface Place {
  readonly file: SafetensorsFile;
  readonly offset: number;
  readonly bytes: number;
  readonly dtype: DType;
}

/** Codes of a tensor, with the tensors that turn them into values. */
export interface CodedValues extends CodedForm {
  readonly code: Code;
  readonly scales: Place;
  /** One scale of all scales. */
  readonly second?: Place;
  /** By block, packed as the codes are. */
  readonly zeros?: Place;
  /** The block of each column (GPTQ with act-order); zeros only where they are in order. */
  readonly groups?: Place;
}

export interface QuantisedTensor extends TensorInfo {
  readonly file: SafetensorsFile;
  readonly coded?: CodedValues;
}

/** A tensor of values, and the stored ones that it is made of. */
export interface Found {
  readonly name: string;
  readonly shape: Shape;
  readonly coded: CodedValues;
  readonly of: readonly QuantisedTensor[];
}
