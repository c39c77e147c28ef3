// What a GGUF file is, if it is not a language model, and what to pass instead.
import { CheckpointError } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import type { GgufHeader } from "./header.js";

/** Files of llama.cpp's tools, by `general.type` (gguf-py, constants.py), or by `general.architecture`. */
const KINDS: Readonly<Record<string, string>> = {
  adapter:
    "is a LoRA adapter in llama.cpp's form. Pass the adapter as PEFT saved it, after the folder of its base: BASE+ADAPTER",
  mmproj:
    "is the part of a multimodal model that reads images or sound (mmproj). Pass the file of its language model, or the model's folder",
  imatrix: "is an importance matrix (imatrix), not a model. Pass the model that it was measured on",
  vocab: "has a tokenizer and no tensors. Pass a file with the model's weights, or its folder",
  controlvector: "is a control vector, not a model. Pass the model that it is for",
};

/** Types and architectures that are of one kind. */
const SYNONYMS: Readonly<Record<string, string>> = { clip: "mmproj" };

/** @throws CheckpointError if a file is not a model, or does not say which one it is */
export function requireModelFile(
  { metadata, tensors, tokens }: Pick<GgufHeader, "metadata" | "tensors" | "tokens">,
  path: string,
): void {
  const architecture = metadata.get("general.architecture");
  const fail = (what: string) => new CheckpointError(`${path} ${what}.`, { file: path });
  const isOf = (pattern: RegExp) => tensors.length > 0 && tensors.every(({ name }) => pattern.test(name));
  const seen = isOf(/\.lora_[ab]$/)
    ? "adapter"
    : isOf(/\.(in_sum2|counts)$/)
      ? "imatrix"
      : tensors.length === 0 && tokens !== undefined
        ? "vocab"
        : undefined;
  for (const name of [metadata.get("general.type"), architecture, seen]) {
    const kind = typeof name === "string" ? KINDS[SYNONYMS[name] ?? name] : undefined;
    if (kind) throw fail(kind);
  }
  if (architecture === undefined) {
    throw fail(
      `does not say what it is: it has no general.architecture, and ${plural(tensors.length, "tensor")}. Convert the model again, or pass its folder`,
    );
  }
}

/** `LLAMA_TOKEN_TYPE_UNUSED`. */
const UNUSED = 5;

/** Ids of tokens that a file names. */
const IDS = ["bos", "eos", "eot", "eom", "unknown", "padding", "seperator", "cls", "mask"].map(
  (name) => `tokenizer.ggml.${name}_token_id`,
);

/**
 * A header without ids that are beyond its tokens, which llama.cpp leaves out, too, and a note for each.
 * @throws CheckpointError if the model has another number of rows than the tokenizer has tokens
 */
export function withKnownIds(
  header: GgufHeader,
  path: string,
): { readonly header: GgufHeader; readonly notes: string[] } {
  const { metadata, tokens, tensors } = header;
  if (tokens === undefined) return { header, notes: [] };
  const rows = tensors.find(({ name }) => name === "token_embd.weight")?.shape[0] ?? tokens;
  // Converters of state space models pad tokens, not rows, to a multiple.
  const types = rows < tokens ? metadata.get("tokenizer.ggml.token_type") : undefined;
  const isPadded = Array.isArray(types) && types.length === tokens && types.slice(rows).every((one) => one === UNUSED);
  if (rows !== tokens && !isPadded) {
    const message = `${path} has ${tokens} tokens, but token_embd.weight has ${rows} rows. Convert the model again.`;
    throw new CheckpointError(message, { file: path, tensor: "token_embd.weight" });
  }
  const beyond = new Map(
    IDS.flatMap((key) => {
      const id = metadata.get(key);
      const isKnown =
        id === undefined || (Number.isInteger(id) && Number(id) >= 0 && Number(id) < Math.min(rows, tokens));
      return isKnown ? [] : [[key, id] as const];
    }),
  );
  if (beyond.size === 0) return { header, notes: [] };
  const notes = [...beyond].map(
    ([key, id]) => `${key} is ${id}, but there are ${Math.min(rows, tokens)} tokens, so it is left out`,
  );
  const known = {
    has: (key: string) => !beyond.has(key) && metadata.has(key),
    get: (key: string) => (beyond.has(key) ? undefined : metadata.get(key)),
  };
  return { header: { ...header, metadata: known }, notes };
}
