// Checks whether checkpoints can be combined tensor by tensor, and reports every reason if not.
import { formatShape, MismatchError, sameShape } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import type { Checkpoint, CheckpointTensor } from "../checkpoint/checkpoint.js";
import { quantisationSettings, unquantise } from "../checkpoint/config.js";
import { isConverted, namesInMemory } from "../checkpoint/renamings.js";
import { conflicts, missing, parseVocabulary, tokenizerBytes, type Vocabulary } from "./vocabulary.js";

/** A checkpoint with its label in messages, such as `task`. */
export interface Labelled {
  readonly label: string;
  readonly checkpoint: Checkpoint;
  /** Whether only single layers of it are used, so that its depth may be another. */
  readonly isSliced?: boolean;
}

function distinct(checkpoints: readonly Labelled[]): Labelled[] {
  const seen = new Set<Checkpoint>();
  return checkpoints.filter(({ checkpoint }) => !seen.has(checkpoint) && seen.add(checkpoint));
}

/** What is done to checkpoints. What is extracted keeps its vocabulary: an adapter can hold the whole embedding. */
export type Purpose = "merged" | "compared" | "extracted";

const canAlign = (purpose: Purpose) => purpose !== "extracted";

const called = ({ label, checkpoint }: Labelled) => `${label} (${checkpoint.name})`;

/**
 * Checks that every checkpoint has the depth, tensors and shapes of the first. Those of another family must have the same.
 * @param more problems found elsewhere, to report together with these
 * @param mayLack whether a checkpoint may lack a tensor that others have
 * @returns notes on families that differ
 * @throws MismatchError with all problems of all checkpoints
 */
export function requireCompatible(
  checkpoints: readonly Labelled[],
  more: readonly string[] = [],
  purpose: Purpose = "merged",
  mayLack: (tensor: string) => boolean = () => false,
): string[] {
  const [first, ...others] = distinct(checkpoints);
  if (!first) return [];
  const problems = [...others.flatMap((other) => compare(first, other, purpose, mayLack)), ...more];
  if (problems.length > 0) {
    throw new MismatchError(`These checkpoints cannot be ${purpose}; all must be fine-tuned from one model:`, problems);
  }
  return others.flatMap((other) => familyNote(first, other) ?? []);
}

/**
 * Whether checkpoints are of different families and have different tensors: tokenizers, which take seconds to read, then tell
 * nothing more.
 */
export function areForeign(
  checkpoints: readonly Labelled[],
  purpose: Purpose,
  mayLack: (tensor: string) => boolean,
): boolean {
  const [first, ...others] = distinct(checkpoints);
  if (!first) return false;
  return others.some(
    (other) => familyNote(first, other) !== undefined && compare(first, other, purpose, mayLack).length > 0,
  );
}

function familyNote(a: Labelled, b: Labelled): string | undefined {
  const [mine, theirs] = [a.checkpoint.config.modelType, b.checkpoint.config.modelType];
  return mine === theirs ? undefined : `${called(a)} is of the family "${mine}", ${called(b)} of "${theirs}"`;
}

/**
 * Compares the tokenizers of checkpoints with the first's, if both list their tokens. Different tokens in one row are a
 * problem, as rows are averaged by number; missing tokens are a note.
 */
export async function compareVocabularies(
  checkpoints: readonly Labelled[],
  purpose: Purpose = "merged",
): Promise<{ problems: readonly string[]; notes: readonly string[] }> {
  const [first, ...others] = distinct(checkpoints);
  const bytes = first && (await tokenizerBytes(first.checkpoint));
  const problems: string[] = [];
  const notes: string[] = [];
  let own: Vocabulary | undefined;
  for (const other of bytes ? others : []) {
    const theirs = await tokenizerBytes(other.checkpoint);
    if (!first || !bytes || !theirs || bytes.equals(theirs)) continue;
    own ??= parseVocabulary(bytes, first.checkpoint.name);
    const vocabulary = parseVocabulary(theirs, other.checkpoint.name);
    if (!own || !vocabulary) continue;
    const clashes = conflicts(own, vocabulary);
    if (clashes.length > 0) {
      problems.push(
        `the tokenizers of ${called(first)} and ${called(other)} give ${plural(clashes.length, "row")} to different tokens: ${formatSome(clashes)}` +
          (canAlign(purpose) ? "; set vocabulary to align them by token" : ""),
      );
    }
    const [more, less] = [missing(vocabulary, own), missing(own, vocabulary)];
    const lacks = (who: Labelled, tokens: string[]) =>
      tokens.length > 0 ? [`${who.label} lacks ${plural(tokens.length, "token")}: ${formatSome(tokens)}`] : [];
    const different = [...lacks(first, more), ...lacks(other, less)];
    const isResized = rowsOf(first.checkpoint) !== rowsOf(other.checkpoint);
    if (different.length > 0 && isResized && canAlign(purpose)) problems.push(different.join("; "));
    else if (different.length > 0 && clashes.length === 0) {
      notes.push(`${different.join("; ")}${canAlign(purpose) ? "; a vocabulary aligns rows by token" : ""}`);
    }
  }
  return { problems, notes };
}

function rowsOf({ tensors }: Checkpoint): number | undefined {
  return [...tensors.values()].find(({ part }) => part === "embed_tokens")?.shape[0];
}

/** How a checkpoint is quantised, by its configuration or else by its tensors; undefined if it is not. */
function quantisation({ config, tensors }: Checkpoint): string | undefined {
  return (
    config.quantized ??
    [...tensors.values()].find(({ dtype, part }) => /^F[468]_/.test(dtype) && part !== "other")?.dtype
  );
}

function compare(a: Labelled, b: Labelled, purpose: Purpose, mayLack: (tensor: string) => boolean): string[] {
  const [left, right] = [a.checkpoint, b.checkpoint];
  const family = familyNote(a, b);
  const problems: string[] = [];
  const [mine, theirs] = [quantisation(left), quantisation(right)];
  if (mine !== theirs) {
    const [packed, plain] = theirs ? [b, a] : [a, b];
    const { unread } = packed.checkpoint.config;
    const isRead = plain.checkpoint.asStored ? "is read as values" : `is ${(theirs && mine) ?? "not"}`;
    return [
      `${called(packed)} is quantised (${theirs ?? mine})${unread ? ` and only copied, as ${unread}` : ""}, ${called(plain)} ${isRead}; for ${packed.label}, ${unquantise(theirs ?? mine ?? "")}`,
    ];
  }
  const settingsOf = ({ config }: Checkpoint) => JSON.stringify(quantisationSettings(config.json) ?? null);
  if (left.config.unread !== undefined && settingsOf(left) !== settingsOf(right)) {
    return [
      `${called(a)} and ${called(b)} are quantised with different settings (${mine}) and only copied, as ${left.config.unread}; ${unquantise(mine ?? "")}`,
    ];
  }
  if (left.layers !== right.layers && !(a.isSliced && b.isSliced)) {
    problems.push(`${called(a)} has ${plural(left.layers, "layer")}, ${called(b)} has ${right.layers}`);
  } else for (const problem of compareTensors(a, b, purpose, mayLack)) problems.push(problem);
  // Different families or depths make every tensor differ; one problem is enough.
  return family !== undefined && problems.length > 0 ? [family] : problems;
}

function compareTensors(a: Labelled, b: Labelled, purpose: Purpose, mayLack: (tensor: string) => boolean): string[] {
  const problems: string[] = [];
  for (const [from, to] of [
    [a, b],
    [b, a],
  ] as const) {
    const missing = [...from.checkpoint.tensors.values()]
      .filter(({ name, layer }) => !to.checkpoint.tensors.has(name) && (layer === null || layer < to.checkpoint.layers))
      .filter(({ name }) => !mayLack(name))
      .map((tensor) => tensor.name);
    if (missing.length > 0) {
      problems.push(
        `${called(to)} lacks ${plural(missing.length, "tensor")} of ${called(from)}: ${formatSome(missing)}`,
      );
    }
    const inMemory = namesInMemory(from.checkpoint.config.json.model_type);
    const converted = missing.find((name) => inMemory && isConverted(inMemory(name)));
    if (converted !== undefined) {
      problems.push(
        `${called(from)} stores ${converted} as transformers does, ${called(to)} may have its values as they are in memory; save ${to.label} again with save_pretrained`,
      );
    }
  }
  return problems.concat(compareShapes(a, b, purpose));
}

function compareShapes(a: Labelled, b: Labelled, purpose: Purpose): string[] {
  const problems: string[] = [];
  const vocabulary: CheckpointTensor[] = [];
  const others: string[] = [];
  for (const tensor of a.checkpoint.tensors.values()) {
    const counterpart = b.checkpoint.tensors.get(tensor.name);
    if (!counterpart || sameShape(tensor.shape, counterpart.shape)) continue;
    const rowsOnly = sameShape(tensor.shape.slice(1), counterpart.shape.slice(1));
    if (rowsOnly && (tensor.part === "embed_tokens" || tensor.part === "lm_head")) vocabulary.push(tensor);
    else others.push(`${tensor.name} ${formatShape(tensor.shape)} against ${formatShape(counterpart.shape)}`);
  }
  const [row] = canAlign(purpose) ? vocabulary : [];
  if (row) {
    const [mine, theirs] = [row.shape[0] ?? 0, b.checkpoint.tensors.get(row.name)?.shape[0] ?? 0];
    const [larger, smaller] = mine > theirs ? [a, b] : [b, a];
    problems.push(
      `the vocabularies differ: ${called(a)} has ${mine} rows in ${formatSome(vocabulary.map((tensor) => tensor.name))}, ` +
        `${called(b)} has ${theirs}; ${larger.label} has ${Math.abs(mine - theirs)} more, from added tokens or padding` +
        // Rows of other widths are not aligned by any vocabulary.
        (others.length > 0
          ? ""
          : `. Set vocabulary to ${larger.label}, ${smaller.label} or union to align them by token`),
    );
  }
  if (others.length > 0) {
    problems.push(
      `${plural(others.length, "tensor")} of ${called(a)} and ${called(b)} differ in shape: ${formatSome(others)}`,
    );
  }
  return problems;
}
