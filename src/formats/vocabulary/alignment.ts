// Aligns embedding and head rows of checkpoints with different vocabularies, token by token. Reads only tokenizers.

import { createHash } from "node:crypto";
import { CheckpointError, MismatchError, sameShape } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import { type Checkpoint, type CheckpointTensor, NO_PART, storedType } from "../checkpoint/checkpoint.js";
import { type AddedToken, parseVocabulary, tokenizerBytes, type Vocabulary } from "./vocabulary.js";

/** Checkpoints aligned to one vocabulary. */
export interface Alignment {
  /** The checkpoints, their vocabulary tensors described in the common order. */
  readonly checkpoints: ReadonlyMap<string, Checkpoint>;
  /** Label of the checkpoint whose tokenizer has the common order. */
  readonly leader: string;
  /** Rows of the common vocabulary, padding included. */
  readonly rows: number;
  /** Tokens that the leader's tokenizer lacks, with their rows in the common vocabulary. */
  readonly added: readonly AddedToken[];
  /** Changes when a token moves. */
  readonly digest: string;
  /** Notes for the user. */
  readonly notes: readonly string[];
}

/** The vocabulary that checkpoints are brought to. */
export interface VocabularyChoice {
  /** `union`, or the label of the source whose vocabulary it is. */
  readonly from: string;
  /** Where the rows of single tokens come from. Those that the tokenizer lacks are added to it. */
  readonly tokens?: Readonly<Record<string, TokenRow>> | undefined;
  /** The number of rows is rounded up to a multiple of it. */
  readonly multiple_of?: number | undefined;
}

/** The row of a token in sources that lack it, or in all if `force`. */
export interface TokenRow {
  /** Label of the source, or `zero`. */
  readonly source: string;
  /** Another token of the source, by name or row. */
  readonly token?: string | undefined;
  readonly row?: number | undefined;
  readonly force?: boolean | undefined;
}

interface Member {
  readonly label: string;
  readonly checkpoint: Checkpoint;
  readonly vocabulary: Vocabulary;
  /** Rows of its embedding. */
  readonly rows: number;
  /** Whether a row has no token. */
  readonly isPadding: (row: number) => boolean;
}

/** Whether a source is another one, or inside that nested recipe: ids are paths, such as `task.models[0]`. */
export const isWithin = (id: string, other: string) => id === other || id.startsWith(`${other}.`);

const isVocabularyTensor = ({ part, shape }: CheckpointTensor) =>
  shape.length === 2 && (part === "embed_tokens" || part === "lm_head");

/**
 * Aligns checkpoints.
 *
 * A missing token takes the row of the first checkpoint that has it, the leader first. Rows without a token (padding)
 * keep their place; new ones are zero.
 * @param choice the choice, or its `from`
 * @throws CheckpointError if a tokenizer is missing or cannot be understood
 * @throws MismatchError if rows cannot be exchanged
 */
export async function alignVocabularies(
  checkpoints: ReadonlyMap<string, Checkpoint>,
  choice: string | VocabularyChoice,
): Promise<Alignment> {
  const {
    from: target,
    tokens: chosen = {},
    multiple_of: multiple = 1,
  } = typeof choice === "string" ? { from: choice } : choice;
  const members: Member[] = [];
  for (const [label, checkpoint] of checkpoints) members.push(await memberOf(label, checkpoint));
  const leader = target === "union" ? members[0] : members.find(({ label }) => isWithin(label, target));
  if (!leader) {
    throw new CheckpointError(
      `vocabulary names ${JSON.stringify(target)}; it must be union, or one of ${[...checkpoints.keys()].join(", ")}`,
      { field: "vocabulary", actual: target },
    );
  }
  const others = members.filter((member) => member !== leader);
  const lacking = target === "union" ? unionTokens(leader, others) : new Map<string, Omit<AddedToken, "id">>();
  for (const content of Object.keys(chosen)) {
    if (!leader.vocabulary.rows.has(content) && !lacking.has(content)) lacking.set(content, plainToken(content));
  }
  const first = 1 + [...leader.vocabulary.rows.values()].reduce((most, row) => Math.max(most, row), -1);
  const added = [...lacking.values()].map((token, i) => ({ ...token, id: first + i }) as AddedToken);
  const tokens = [...leader.vocabulary.rows, ...added.map(({ content, id }) => [content, id] as const)];
  const tokenAt = new Map(tokens.map(([token, row]) => [row, token]));
  const rows = Math.ceil(Math.max(leader.rows, (added.at(-1)?.id ?? -1) + 1) / multiple) * multiple;
  const rowsOf = new Map(Object.entries(chosen).map(([token, from]) => [token, chosenRow(token, from, members)]));

  const order = [leader, ...others];
  const aligned = new Map(
    members.map((member) => [member.label, alignOne(member, order, tokenAt, rows, rowsOf)] as const),
  );
  const hash = createHash("sha256");
  for (let row = 0; row < rows; row++) hash.update(`${JSON.stringify(tokenAt.get(row) ?? null)}\n`);
  // The digest also covers each checkpoint's rows: a tokenizer may change while the common order does not.
  for (const checkpoint of aligned.values()) {
    const gathered = [...checkpoint.tensors.values()].find((tensor) => tensor.gathered)?.gathered;
    if (gathered) hash.update(gathered.part).update(gathered.row);
  }
  return {
    checkpoints: aligned,
    leader: leader.label,
    rows,
    added,
    digest: hash.digest("hex"),
    notes: alignmentNotes(leader, members, tokenAt, added, rows),
  };
}

/** @throws CheckpointError if a tokenizer is missing, or has tokens beyond the embedding */
async function memberOf(label: string, checkpoint: Checkpoint): Promise<Member> {
  const { vocabulary, rows, beyond } = await openVocabulary(label, checkpoint);
  const taken = new Set(vocabulary.rows.values());
  if (beyond.length > 0) {
    throw new CheckpointError(
      `the tokenizer of ${label} (${checkpoint.name}) has ${plural(beyond.length, "token")} beyond the ${rows} rows of its embedding (${formatSome(beyond)}); it is not this checkpoint's`,
      { file: checkpoint.folder },
    );
  }
  return { label, checkpoint, vocabulary, rows, isPadding: (row) => row < rows && !taken.has(row) };
}

/**
 * The tokens of a checkpoint.
 * @returns also the rows of its embedding, and the tokens that have none there, such as those of images
 * @throws CheckpointError if a tokenizer is missing
 */
export async function openVocabulary(
  label: string,
  checkpoint: Checkpoint,
): Promise<{ readonly vocabulary: Vocabulary; readonly rows: number; readonly beyond: readonly string[] }> {
  const bytes = await tokenizerBytes(checkpoint);
  const vocabulary = bytes && parseVocabulary(bytes, checkpoint.name);
  if (!vocabulary) {
    throw new CheckpointError(
      `${label} (${checkpoint.name}) has no tokenizer.json with a vocabulary, by which its rows could be told apart; copy that of its model into ${checkpoint.folder}`,
      { file: checkpoint.folder },
    );
  }
  const embedding = [...checkpoint.tensors.values()].find(({ part }) => part === "embed_tokens");
  const rows = embedding?.shape[0] ?? 0;
  const beyond = [...vocabulary.rows].filter(([, row]) => row >= rows).map(([token]) => token);
  return { vocabulary, rows, beyond };
}

/** An added token as tokenizers describe one by default. */
const plainToken = (content: string) => {
  return { content, single_word: false, lstrip: false, rstrip: false, normalized: true, special: false };
};

/** A row of a member, or of none: zero. */
interface ChosenRow {
  readonly owner: Member | undefined;
  readonly row: number;
  readonly force: boolean;
}

function chosenRow(token: string, from: TokenRow, members: readonly Member[]): ChosenRow {
  const { source, token: other = token, row: given, force = false } = from;
  if (source === "zero") return { owner: undefined, row: 0, force };
  const refuse = (why: string): never => {
    throw new CheckpointError(
      `vocabulary.tokens: the row of ${JSON.stringify(token)} cannot be taken from ${source}: ${why}`,
      {
        field: "vocabulary",
      },
    );
  };
  const owner = members.find(({ label }) => isWithin(label, source));
  if (!owner) return refuse(`it must be zero, or one of ${members.map(({ label }) => label).join(", ")}`);
  const row = given ?? owner.vocabulary.rows.get(other);
  if (row === undefined) return refuse(`its tokenizer has no token ${JSON.stringify(other)}`);
  if (row >= owner.rows) return refuse(`it has ${owner.rows} rows`);
  return { owner, row, force };
}

/** Tokens of the others that the leader lacks. */
function unionTokens(leader: Member, others: readonly Member[]): Map<string, Omit<AddedToken, "id">> {
  const found = new Map<string, AddedToken>();
  for (const { label, vocabulary } of others) {
    const lacking = [...vocabulary.rows.keys()].filter((token) => !leader.vocabulary.rows.has(token));
    const learned = lacking.filter((token) => !vocabulary.added.has(token));
    if (learned.length > 0) {
      throw new CheckpointError(
        `${label} has ${plural(learned.length, "token")} in its tokenizer's own vocabulary that ${leader.label} lacks (${formatSome(learned)}); a union can only add tokens that were added. Choose one vocabulary: ${leader.label}, or ${label}`,
        { field: "vocabulary" },
      );
    }
    for (const token of lacking) if (!found.has(token)) found.set(token, vocabulary.added.get(token) as AddedToken);
  }
  return found;
}

/** A member's row for a row of the common vocabulary; undefined if it lacks the token. */
function rowIn(member: Member, row: number, token: string | undefined): number | undefined {
  if (token !== undefined) return member.vocabulary.rows.get(token);
  return member.isPadding(row) ? row : undefined;
}

function alignOne(
  member: Member,
  order: readonly Member[],
  tokenAt: ReadonlyMap<number, string>,
  rows: number,
  rowsOf: ReadonlyMap<string, ChosenRow>,
): Checkpoint {
  const from = [member, ...order.filter((other) => other !== member)];
  const part = new Uint8Array(rows);
  const row = new Int32Array(rows);
  let isIdentity = rows === member.rows;
  for (let at = 0; at < rows; at++) {
    const token = tokenAt.get(at);
    const asked = token === undefined ? undefined : rowsOf.get(token);
    const isAsked = asked !== undefined && (asked.force || rowIn(member, at, token) === undefined);
    const owner = isAsked
      ? from.indexOf(asked.owner as Member)
      : from.findIndex((other) => rowIn(other, at, token) !== undefined);
    part[at] = owner < 0 ? NO_PART : owner;
    row[at] = isAsked ? asked.row : owner < 0 ? 0 : (rowIn(from[owner] as Member, at, token) ?? 0);
    isIdentity &&= owner === 0 && row[at] === at;
  }
  if (isIdentity) return member.checkpoint;
  const tensors = new Map(
    [...member.checkpoint.tensors].map(([name, tensor]): [string, CheckpointTensor] => {
      if (!isVocabularyTensor(tensor) || tensor.shape[0] !== member.rows) return [name, tensor];
      const parts = from.map(({ label, checkpoint }) => {
        const twin = checkpoint.tensors.get(name);
        if (
          twin &&
          !twin.lowRank &&
          !twin.gathered &&
          !twin.coded &&
          storedType(twin) === storedType(tensor) &&
          sameShape(twin.shape.slice(1), tensor.shape.slice(1))
        ) {
          return { file: twin.file, offset: twin.offset };
        }
        throw new MismatchError("These vocabularies cannot be aligned:", [
          `${name} of ${label} and ${member.label} cannot exchange rows: they differ in dtype or width, or an adapter or a transplant changes them`,
        ]);
      });
      const shape = [rows, ...tensor.shape.slice(1)];
      const bytes = (tensor.bytes / member.rows) * rows;
      return [name, { ...tensor, shape, bytes, gathered: { parts, part, row } }];
    }),
  );
  return { ...member.checkpoint, tensors };
}

function alignmentNotes(
  leader: Member,
  members: readonly Member[],
  tokenAt: ReadonlyMap<number, string>,
  added: readonly AddedToken[],
  rows: number,
): string[] {
  const tokens = [...tokenAt.values()];
  const everywhere = tokens.filter((token) => members.every(({ vocabulary }) => vocabulary.rows.has(token))).length;
  const known = new Set(tokens);
  const notes = [
    `vocabulary of ${leader.label}${added.length > 0 ? ` and ${plural(added.length, "added token")} of others (${formatSome(added.map(({ content }) => content))})` : ""}: ` +
      `${plural(rows, "row")}; ${plural(everywhere, "token")} in all sources, ${tokens.length - everywhere} only in some (models lacking a token borrow its row), ` +
      `${rows - tokens.length} padding`,
  ];
  for (const { label, vocabulary } of members) {
    const dropped = [...vocabulary.rows.keys()].filter((token) => !known.has(token));
    if (dropped.length > 0) {
      notes.push(`${plural(dropped.length, "token")} of ${label} left out: ${formatSome(dropped)}`);
    }
  }
  return notes;
}
