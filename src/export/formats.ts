import type { ModelSource, PlacedTensor } from "../engine/index.js";
import { encodedBytes } from "../kernels/index.js";
import { elementCount } from "../kit/index.js";
import { planGguf } from "./gguf/plan-gguf.js";
import { FILE_TYPE_NAMES, type FileType } from "./gguf/tensor-types.js";
import { type WriteGgufOptions, writeGguf } from "./gguf/write-gguf.js";
import { ONNX_TYPES, type OnnxType, planOnnx } from "./onnx/plan-onnx.js";
import { writeOnnx } from "./onnx/write-onnx.js";

export interface ExportPlan {
  /** Program that reads it, and what it calls the model. */
  readonly target: string;
  /** What the program calls the model. */
  readonly identity: { readonly architecture: string } | { readonly family: string };
  readonly digest: string;
  readonly tensors: readonly { readonly name: string; readonly shape: readonly number[]; readonly encoding: string }[];
  readonly bytes: number;
  /** What the file begins with, if it is one file: two of equal size may be of other types. */
  readonly header?: Uint8Array;
  /** Number and bytes of tensors by encoding, largest first. */
  readonly encodings: Readonly<Record<string, { readonly tensors: number; readonly bytes: number }>>;
  readonly notes: readonly string[];
  /** Writes the file or folder; ONNX cannot be resumed. */
  write(options: WriteGgufOptions): Promise<{
    readonly out: string;
    readonly bytes: number;
    readonly warnings: readonly string[];
    readonly notes?: readonly string[];
    readonly resumed?: boolean;
  }>;
}

export interface ExportFormat {
  readonly types: readonly string[];
  readonly defaultType: string;
  /**
   * @param type one of `types`
   * @param tensorTypes for GGUF, as in `GgufOptions`
   * @throws as `planGguf` and `planOnnx`
   */
  plan(source: ModelSource, type: string, tensorTypes?: readonly string[]): Promise<ExportPlan>;
}

export const EXPORT_FORMATS: Readonly<Record<"gguf" | "onnx", ExportFormat>> = {
  gguf: {
    types: FILE_TYPE_NAMES,
    defaultType: "q8_0",
    async plan(source, type, tensorTypes) {
      const plan = await planGguf(source, { type: type as FileType, tensorTypes });
      const { architecture, digest, tensors, layout, unstored } = plan;
      const settings = `GGUF files have no place for these settings of the model, which are left out: ${unstored.join(", ")}`;
      const notes = [...plan.notes, ...(unstored.length > 0 ? [settings] : [])];
      return {
        target: `llama.cpp (${architecture})`,
        identity: { architecture },
        digest,
        encodings: countEncodings(
          tensors.map(({ encoding, shape }) => ({ encoding, bytes: encodedBytes(encoding, elementCount(shape)) })),
        ),
        notes,
        tensors: tensors.map(({ name, shape, encoding }) => ({ name, shape, encoding })),
        bytes: layout.bytes,
        header: layout.header,
        write: async (options) => ({ ...(await writeGguf(plan, options)), warnings: [] }),
      };
    },
  },
  onnx: {
    types: Object.keys(ONNX_TYPES),
    defaultType: "q8",
    async plan(source, type) {
      const plan = planOnnx(source, { type: type as OnnxType });
      const { family, digest, tensors, bytes, notes } = plan;
      return {
        target: `transformers.js (${family})`,
        identity: { family },
        digest,
        bytes,
        encodings: countEncodings(tensors.flatMap(storedParts)),
        notes,
        tensors: tensors.map(({ step: { tensor, shape }, plain, quantized }) => {
          const encoding = [plain?.dtype, quantized && type.toUpperCase()].filter(Boolean).join(" and ");
          return { name: tensor, shape, encoding };
        }),
        write: (options) => writeOnnx(plan, options),
      };
    },
  },
};

interface StoredPart {
  readonly encoding: string;
  readonly bytes: number;
}

function storedParts({ plain, quantized }: PlacedTensor): StoredPart[] {
  const parts: StoredPart[] = [];
  if (plain) parts.push({ encoding: plain.dtype, bytes: plain.length });
  if (quantized) {
    const { encoding, codes, scales } = quantized;
    parts.push({ encoding: encoding === "Q8_0" ? "Q8" : "Q4", bytes: codes.length + scales.length });
  }
  return parts;
}

function countEncodings(parts: readonly StoredPart[]): ExportPlan["encodings"] {
  const counts = new Map<string, { tensors: number; bytes: number }>();
  for (const { encoding, bytes } of parts) {
    const before = counts.get(encoding) ?? { tensors: 0, bytes: 0 };
    counts.set(encoding, { tensors: before.tensors + 1, bytes: before.bytes + bytes });
  }
  return Object.fromEntries([...counts].sort(([, a], [, b]) => b.bytes - a.bytes));
}
