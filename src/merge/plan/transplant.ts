// Gives a checkpoint the tokenizer of another: rows of shared tokens move, and those of new tokens are approximated
// (mergekit-tokensurgeon, arXiv 2506.06607). Reads only tokenizers.
import { join } from "node:path";
import type { Checkpoint, CheckpointTensor } from "../../formats/checkpoint/index.js";
import { edited } from "../../formats/checkpoint/index.js";
import { BYTE_OF, memberOf, translateIds, type Vocabulary } from "../../formats/vocabulary/index.js";
import { exists, readJsonObject } from "../../kit/files/index.js";
import { isFloatDType, isObject, MismatchError } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { blockRowsFor, PURSUED } from "../../tensor/streaming/index.js";
import { sourcesOf } from "./recipe.js";

/** Special tokens that have a part in every text; config.json has their rows as `bos_token_id` and so on. */
const ROLES = ["bos_token", "eos_token", "unk_token", "pad_token"];

/**
 * A checkpoint with the vocabulary of a donor: row by row of the donor's embedding, the model's own row where it has the
 * token, else an approximation by at most `k` shared tokens.
 * @throws CheckpointError if a tokenizer is missing
 * @throws MismatchError if the models cannot exchange rows
 */
export async function transplant(
  model: Checkpoint,
  donor: Checkpoint,
  k: number,
): Promise<{ readonly checkpoint: Checkpoint; readonly notes: readonly string[] }> {
  const [own, theirs] = [await memberOf("the model", model), await memberOf("the donor", donor)];
  const [ownTokens, theirTokens] = [await tokensOf(model, own.vocabulary), await tokensOf(donor, theirs.vocabulary)];
  const { rows } = theirs;
  const part = new Uint8Array(rows).fill(PURSUED);
  const row = Int32Array.from({ length: rows }, (_, at) => at);
  for (const [token, at] of theirTokens) {
    const found = ownTokens.get(token);
    if (found === undefined || part[at] === 0) continue;
    part[at] = 0;
    row[at] = found;
  }
  const atoms = Int32Array.from(row.keys()).filter((at) => part[at] === 0);
  if (atoms.length === 0)
    throw new MismatchError("These tokenizers have no token in common:", [model.name, donor.name]);
  const twins = atoms.map((at) => row[at] as number);
  const donorTensors = [...donor.tensors.values()];
  const tensors = new Map(
    [...model.tensors].map(([name, tensor]): [string, CheckpointTensor] => {
      if (tensor.part !== "embed_tokens" && tensor.part !== "lm_head") return [name, tensor];
      const [embedding] = donorTensors.filter((other) => other.part === "embed_tokens");
      const from = donorTensors.find((other) => other.part === tensor.part) ?? embedding;
      requirePlain(tensor, own.rows, model);
      requirePlain(from, rows, donor);
      const columns = tensor.shape[1] as number;
      const blockRows = blockRowsFor(rows, rows - atoms.length, columns);
      const pursuit = { atoms, twins, k, donor: from as CheckpointTensor, blockRows };
      const parts = [{ file: tensor.file, offset: tensor.offset }];
      const bytes = (tensor.bytes / own.rows) * rows;
      return [name, { ...tensor, shape: [rows, columns], bytes, gathered: { parts, part, row, pursuit } }];
    }),
  );
  const ids = translateIds(model.config.json, own.vocabulary, theirs.vocabulary.rows, donor.config.json, rows).fields;
  const config = edited(model.config, (stated) => {
    const json: Record<string, unknown> = { ...stated, ...ids, vocab_size: rows };
    for (const role of ROLES) {
      const id = donor.config.json[`${role}_id`];
      if (id === undefined) delete json[`${role}_id`];
      else json[`${role}_id`] = id;
    }
    return json;
  });
  return {
    checkpoint: { ...model, tensors, config: { ...config, vocabularySize: rows }, texts: donor.texts },
    notes: [
      `${plural(atoms.length, "row")} of tokens that both have, ${plural(rows - atoms.length, "row")} approximated by up to ${Math.min(k, atoms.length)} of these`,
    ],
  };
}

function requirePlain(tensor: CheckpointTensor | undefined, rows: number, { name, adapter, config }: Checkpoint): void {
  const isPlain = tensor && !tensor.blocks && !tensor.coded && tensor.dtype !== "F64" && isFloatDType(tensor.dtype);
  const checks: [boolean, string][] = [
    [!tensor, "has no embedding"],
    [adapter !== undefined, "has an adapter, which may have its own tokenizer. Merge it first"],
    [isObject(config.json.text_config), "has a decoder within another model, which is not supported"],
    [tensor?.file.remote !== undefined, "would be read from the hub many times. Download it first"],
    [!isPlain, "stores its embedding in blocks or integers. Export it as a Hugging Face folder first"],
    [tensor?.shape[0] !== rows, "has an embedding and a head of different sizes"],
  ];
  const [, problem] = checks.find(([applies]) => applies) ?? [];
  if (!problem) return;
  throw new MismatchError("A tokenizer cannot be transplanted between these models:", [`${name} ${problem}.`]);
}

/** Rows by token, in one form for all kinds of tokenizers: its bytes, or the role of a special token. */
async function tokensOf(checkpoint: Checkpoint, { rows, added }: Vocabulary): Promise<Map<string, number>> {
  const isByteLevel = rows.has("Ġ") || rows.has("Ġthe");
  const tokens = new Map<string, number>();
  for (const [token, at] of rows) {
    tokens.set(
      added.has(token) ? `added ${token}` : `bytes ${isByteLevel ? byteLevel(token) : sentencePiece(token)}`,
      at,
    );
  }
  const file = join(checkpoint.texts, "tokenizer_config.json");
  const settings = (await exists(file)) ? await readJsonObject(file) : {};
  for (const role of ROLES) {
    const named = settings[role];
    const content = isObject(named) ? named.content : named;
    const at = typeof content === "string" ? rows.get(content) : undefined;
    if (at !== undefined) tokens.set(`role ${role}`, at);
  }
  return tokens;
}

const byteLevel = (token: string) => Buffer.from([...token].map((one) => BYTE_OF.get(one) ?? 0)).toString("latin1");

function sentencePiece(token: string): string {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(token)?.[1];
  return byte
    ? String.fromCharCode(Number.parseInt(byte, 16))
    : Buffer.from(token.replaceAll("▁", " ")).toString("latin1");
}

/**
 * Replaces the checkpoint that a recipe gives another tokenizer, if it does.
 * @param sources by label; changed in place
 * @param prefix of the recipe's labels
 * @returns notes
 */
export async function transplantIn(
  recipe: object,
  sources: Map<string, Checkpoint>,
  prefix: string,
): Promise<string[]> {
  const { method, k = 64 } = recipe as { method?: string; k?: number };
  if (method !== "transplant") return [];
  const [model, donor] = [sources.get(`${prefix}task`), sources.get(`${prefix}tokenizer`)] as [Checkpoint, Checkpoint];
  const { checkpoint, notes } = await transplant(model, donor, k);
  sources.set(`${prefix}task`, checkpoint);
  return notes.map((note) => `${prefix}task: ${note}`);
}

/** The same in a recipe and all recipes within it. */
export async function transplantAll(recipe: object, sources: Map<string, Checkpoint>, prefix = ""): Promise<void> {
  for (const [label, source] of sourcesOf(recipe)) {
    if (typeof source === "object") await transplantAll(source, sources, `${prefix}${label}.`);
  }
  await transplantIn(recipe, sources, prefix);
}
