// Transplant: gives a model the tokenizer of another. Rows of shared tokens move, and those of new tokens are approximated
// (mergekit-tokensurgeon, arXiv 2506.06607). Planning reads only tokenizers, and embeddings with `magikarp`.
import { z } from "zod";
import { type Checkpoint, type CheckpointTensor, edited, type Pursuit } from "../../formats/checkpoint/index.js";
import { NO_PART, openVocabulary, translateIds, type Vocabulary } from "../../formats/vocabulary/index.js";
import { isFloatDType, isObject, MismatchError } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import { blockRowsFor, PURSUED } from "../../tensor/streaming/index.js";
import { defineMethod, MODEL_ONLY, sourceField } from "./method.js";
import { copyTensor } from "./operand.js";
import { ROLES, textOf, tokensOf } from "./token-keys.js";
import { untrainedRows } from "./well-trained.js";

/** How rows of new tokens are made. */
const approximation = () => ({
  k: z.int().min(1).max(1024).default(64).describe("most shared tokens that a new token is made of"),
  approximation_method: z
    .enum(["omp", "common_interpolation", "subword", "mean", "zero"])
    .default("omp")
    .describe(
      "rows of new tokens: by orthogonal matching pursuit, of the `k` nearest shared tokens, of the tokens of their text, the mean row, or zeros",
    ),
  cosine_similarity: z.boolean().default(false).describe("find the nearest tokens by their angle, not their distance"),
  subword_method: z
    .enum(["mean", "sum", "weighted_mean", "first_last"])
    .default("mean")
    .describe("sum that the tokens of a text make; `first_last` takes the last one's row, in the head the first one's"),
  magikarp: z
    .boolean()
    .default(false)
    .describe("use no tokens that training hardly touched, and write zeros for those of both models"),
});

type Settings = z.output<z.ZodObject<ReturnType<typeof approximation>>>;

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
    ...approximation(),
  }),
  layersOnly: true,
  example: { method: "transplant", task: "math-expert", tokenizer: "base", k: 32 },
  describe: (_, name, layers) => {
    return `${name("task")}, of ${layers} layers, with the tokenizer of ${name("tokenizer")}.`;
  },
  replace: async (recipe, get) => ({
    field: "task",
    ...(await withTokenizer(get("task"), get("tokenizer"), recipe)),
  }),
  tensors: (_, sources) => {
    const task = sources.get("task");
    return new Map([...task.tensors.keys()].map((name) => [name, copyTensor(name, task)]));
  },
});

/**
 * A checkpoint with the vocabulary of a donor: row by row of the donor's embedding, the model's own row where it has the
 * token, else an approximation.
 * @throws CheckpointError if a tokenizer is missing
 * @throws MismatchError if the models cannot exchange rows
 */
async function withTokenizer(
  model: Checkpoint,
  donor: Checkpoint,
  settings: Settings,
): Promise<{ readonly checkpoint: Checkpoint; readonly notes: readonly string[] }> {
  const { k, approximation_method: method } = settings;
  const [own, theirs] = [await memberOf("the model", model), await memberOf("the donor", donor)];
  const [known, theirTokens] = [await tokensOf(model, own.vocabulary), await tokensOf(donor, theirs.vocabulary)];
  // Every token has a row, as in mergekit; those without a row in the donor get zeros.
  const rows = Math.max(theirs.rows, 1 + [...theirs.all.rows.values()].reduce((most, at) => Math.max(most, at), -1));
  const trained = settings.magikarp ? await wellTrained(own, theirs, known, theirTokens) : undefined;
  const ownTokens = trained?.own ?? known;
  const part = new Uint8Array(rows).fill(method === "zero" ? NO_PART : PURSUED);
  part.fill(NO_PART, theirs.rows);
  const row = Int32Array.from({ length: rows }, (_, at) => at);
  for (const [token, at] of theirTokens) {
    const found = ownTokens.get(token);
    if (found === undefined || part[at] === 0) continue;
    part[at] = 0;
    row[at] = found;
  }
  for (const at of trained?.junk ?? []) if (part[at] !== 0) part[at] = NO_PART;
  const atoms = Int32Array.from(row.keys()).filter((at) => part[at] === 0);
  if (atoms.length === 0)
    throw new MismatchError("These tokenizers have no token in common:", [model.name, donor.name]);
  const twins = atoms.map((at) => row[at] as number);
  const approximated = part.reduce((sum, one) => sum + Number(one === PURSUED), 0);
  const lists = method === "subword" ? await subwords(own, theirs.vocabulary, known, part) : undefined;
  const donorTensors = [...donor.tensors.values()];
  const tensors = new Map(
    [...model.tensors].map(([name, tensor]): [string, CheckpointTensor] => {
      if (tensor.part !== "embed_tokens" && tensor.part !== "lm_head") return [name, tensor];
      const [embedding] = donorTensors.filter((other) => other.part === "embed_tokens");
      const from = donorTensors.find((other) => other.part === tensor.part) ?? embedding;
      requirePlain(tensor, own.rows, model);
      requirePlain(from, theirs.rows, donor);
      const columns = tensor.shape[1] as number;
      const nearest: NonNullable<Pursuit<unknown>["nearest"]> = settings.cosine_similarity ? "cosine" : "euclidean";
      const pursuit = {
        ...(method === "common_interpolation" ? { nearest } : {}),
        ...(lists ? { listed: listedRows(lists, settings.subword_method, tensor.part === "lm_head") } : {}),
        ...(method === "mean" ? { mean: true as const } : {}),
        // The mean is that of all rows.
        atoms: method === "mean" ? Int32Array.from({ length: own.rows }, (_, i) => i) : atoms,
        twins,
        k,
        donor: from as CheckpointTensor,
        blockRows: blockRowsFor(rows, approximated, columns),
      } satisfies Pursuit<CheckpointTensor>;
      const parts = [{ file: tensor.file, offset: tensor.offset }];
      const bytes = (tensor.bytes / own.rows) * rows;
      return [name, { ...tensor, shape: [rows, columns], bytes, gathered: { parts, part, row, pursuit } }];
    }),
  );
  const ids = translateIds(model.config.json, own.all, theirs.all.rows, donor.config.json, rows).fields;
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
      ...beyondNotes(own, "which are ignored"),
      ...beyondNotes(theirs, "which get zeros"),
      `${plural(atoms.length, "row")} of tokens that both have, ${plural(approximated, "row")} ${HOW[method](Math.min(k, atoms.length))}`,
      ...(rows > atoms.length + approximated ? [`${plural(rows - atoms.length - approximated, "row")} of zeros`] : []),
    ],
  };
}

const HOW: Readonly<Record<Settings["approximation_method"], (k: number) => string>> = {
  omp: (k) => `approximated by up to ${k} of these`,
  common_interpolation: (k) => `made of the ${k} nearest of these`,
  subword: () => "made of the tokens of their text",
  mean: () => "with the mean of all rows",
  zero: () => "approximated",
};

interface Member {
  readonly label: string;
  readonly checkpoint: Checkpoint;
  /** The tokens that have a row in the embedding. */
  readonly vocabulary: Vocabulary;
  /** All tokens. */
  readonly all: Vocabulary;
  readonly beyond: readonly string[];
  /** Of the embedding. */
  readonly rows: number;
}

/** @throws CheckpointError if a tokenizer is missing */
async function memberOf(label: string, checkpoint: Checkpoint): Promise<Member> {
  const { vocabulary: all, rows, beyond } = await openVocabulary(label, checkpoint);
  const vocabulary = { ...all, rows: new Map([...all.rows].filter(([, row]) => row < rows)) };
  return { label, checkpoint, vocabulary, all, beyond, rows };
}

const beyondNotes = ({ label, checkpoint, beyond, rows }: Member, then: string) =>
  beyond.length === 0
    ? []
    : [
        `the tokenizer of ${label} (${checkpoint.name}) has ${plural(beyond.length, "token")} beyond the ${rows} rows of its embedding, ${then}: ${formatSome(beyond)}`,
      ];

/**
 * The model's tokens that are well trained in both, and the donor's rows of those that are in neither.
 * @param own rows by token @param theirs those of the donor
 */
async function wellTrained(
  model: Member,
  donor: Member,
  own: ReadonlyMap<string, number>,
  theirs: ReadonlyMap<string, number>,
): Promise<{ readonly own: Map<string, number>; readonly junk: readonly number[] }> {
  const badIn = async ({ checkpoint, vocabulary, rows }: Member, isDonor: boolean) => {
    const [embedding, head] = ["embed_tokens", "lm_head"].map((part) =>
      [...checkpoint.tensors.values()].find((tensor) => tensor.part === part),
    );
    requirePlain(embedding, rows, checkpoint);
    const taken = new Set(vocabulary.rows.values());
    const unused = new Set(Array.from({ length: rows }, (_, row) => row).filter((row) => !taken.has(row)));
    for (const [token, row] of vocabulary.rows) if (/unused_token|reserved_special_token/.test(token)) unused.add(row);
    // mergekit looks at a tied head of the donor alone.
    return untrainedRows(embedding as CheckpointTensor, head ?? (isDonor ? embedding : undefined), unused);
  };
  const [bad, badTheirs] = [await badIn(model, false), await badIn(donor, true)];
  const isGood = (token: string) => bad.has(own.get(token) ?? Number.NaN) === false && own.has(token);
  const isGoodTheirs = (token: string) => theirs.has(token) && !badTheirs.has(theirs.get(token) as number);
  return {
    own: new Map([...own].filter(([token]) => isGood(token) && isGoodTheirs(token))),
    junk: [...theirs].flatMap(([token, row]) => (isGood(token) || isGoodTheirs(token) ? [] : [row])),
  };
}

/** The model's rows of the tokens of each new token's text, by the donor's row. */
async function subwords(
  { checkpoint: model, rows }: Member,
  theirs: Vocabulary,
  known: ReadonlyMap<string, number>,
  part: Uint8Array,
): Promise<number[][]> {
  // Most merges need no tokenizer.
  const { loadTokenizer } = await import("../../text/index.js");
  const tokenizer = await loadTokenizer(model.texts);
  const lists = Array.from(part, (): number[] => []);
  for (const [token, row] of theirs.rows) {
    if (part[row] !== PURSUED) continue;
    const text = textOf(token, theirs);
    // Bytes that are a part of a character are tokens of their own in most models.
    const each =
      text === undefined
        ? [...Buffer.from(token)].flatMap((byte) => known.get(`bytes ${String.fromCharCode(byte)}`) ?? [])
        : tokenizer.encode(text);
    lists[row] = each.filter((id) => id < rows);
  }
  return lists;
}

/** Weights of the rows of texts, which sum to 1 but for `sum`. */
function listedRows(
  lists: readonly number[][],
  method: Settings["subword_method"],
  isHead: boolean,
): NonNullable<Pursuit<unknown>["listed"]> {
  const starts = new Int32Array(lists.length + 1);
  for (const [i, { length }] of lists.entries()) starts[i + 1] = (starts[i] as number) + length;
  const weights = Float64Array.from(
    lists.flatMap((list) => {
      const n = list.length;
      return list.map((_, i) => {
        if (method === "sum") return 1;
        if (method === "mean") return 1 / n;
        // The order of mergekit's weights: the first token has the largest in the embedding, the last in the head.
        if (method === "weighted_mean") return ((isHead ? i + 1 : n - i) * 2) / (n * (n + 1));
        return Number(i === (isHead ? 0 : n - 1));
      });
    }),
  );
  return { starts, rows: Int32Array.from(lists.flat()), weights };
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
