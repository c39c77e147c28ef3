// Transplant: gives a model the tokenizer of another. Rows of shared tokens move, and those of new tokens are approximated
// (mergekit-tokensurgeon, arXiv 2506.06607). Planning reads only tokenizers.
import { join } from "node:path";
import { z } from "zod";
import { type Checkpoint, type CheckpointTensor, edited } from "../../formats/checkpoint/index.js";
import { BYTE_OF, memberOf, translateIds, type Vocabulary } from "../../formats/vocabulary/index.js";
import { exists, readJsonObject } from "../../kit/files/index.js";
import { isFloatDType, isObject, MismatchError } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { blockRowsFor, PURSUED } from "../../tensor/streaming/index.js";
import { defineMethod, MODEL_ONLY, sourceField } from "./method.js";
import { copyTensor } from "./operand.js";

export const transplant = defineMethod({
  name: "transplant",
  title: "Tokenizer transplant",
  summary: "Gives a model the tokenizer of another; rows of new tokens are sums of rows of tokens that both have.",
  formula:
    "row of a new token = sum_j c_j E[t_j], for the tokens t_j and coefficients c_j by which orthogonal matching pursuit " +
    "approximates the token's row in the other model",
  reference: "Goddard and Fernandes Neto, 2025, arXiv 2506.06607; mergekit, mergekit-tokensurgeon",
  tag: "tokenizer-transplant",
  fields: () => ({
    task: sourceField("model that gets the tokenizer").refine(...MODEL_ONLY),
    tokenizer: sourceField("model whose tokenizer it gets, with weights", "tokenizer").refine(...MODEL_ONLY),
    k: z.int().min(1).max(1024).default(64).describe("most shared tokens that a new token is made of"),
  }),
  layersOnly: true,
  example: { method: "transplant", task: "math-expert", tokenizer: "base", k: 32 },
  describe: (_, name, layers) => {
    return `${name("task")}, of ${layers} layers, with the tokenizer of ${name("tokenizer")}.`;
  },
  replace: async ({ k }, get) => ({ field: "task", ...(await withTokenizer(get("task"), get("tokenizer"), k)) }),
  tensors: (_, sources) => {
    const task = sources.get("task");
    return new Map([...task.tensors.keys()].map((name) => [name, copyTensor(name, task)]));
  },
});

/** Special tokens that have a part in every text; config.json has their rows as `bos_token_id` and so on. */
const ROLES = ["bos_token", "eos_token", "unk_token", "pad_token"];

/**
 * A checkpoint with the vocabulary of a donor: row by row of the donor's embedding, the model's own row where it has the
 * token, else an approximation by at most `k` shared tokens.
 * @throws CheckpointError if a tokenizer is missing
 * @throws MismatchError if the models cannot exchange rows
 */
async function withTokenizer(
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
