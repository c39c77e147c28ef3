// Protocols: exact ways of asking a data set, with a name and a version that every score carries.
import { createHash } from "node:crypto";
import { digestOfJson } from "../../kit/files/index.js";
import { RecipeError } from "../../kit/index.js";
import { didYouMean } from "../../kit/printing/index.js";
import { answerWords } from "./answer-settings.js";
import TABLE from "./protocols.json" with { type: "json" };
import type { Item, Task } from "./task.js";

/** A way of asking. Any change of a prompt, a stop or a reading makes a new version. */
export interface Protocol {
  /** Such as `layergraft/mgsm-native-cot`; the part before the slash says whose it is. */
  readonly name: string;
  readonly version: number;
  readonly summary: string;
  /** Where it comes from: paper and section, or program and version. */
  readonly reference: string;
  /** Solved examples before each item: the default, and the most that are possible. */
  readonly shots: { readonly default: number; readonly most: number };
  /** Whether prompts begin with the tokenizer's special tokens (BOS). Default: true. Chats have their own. */
  readonly specialTokens?: boolean;
  /** chat: messages, which the model's template writes out. Default: text. */
  readonly form?: string;
  /** first: the first of tied choices is the answer. Default: a tie of k choices is worth 1/k. */
  readonly ties?: "first";
}

/** The protocols of a family; the first is the default. */
export const protocolsOf = <P extends Protocol>(family: string) =>
  (TABLE as Readonly<Record<string, readonly unknown[]>>)[family] as readonly P[];

/** `layergraft/mgsm-native-cot@1`. */
export function protocolId({ name, version }: Protocol): string {
  return `${name}@${version}`;
}

/** `layergraft/mgsm-native-cot@2, 8-shot, temperature 1`. Scores share a column only if this is the same. */
export function protocolTitle({ protocol, shots, answers }: Pick<Task, "protocol" | "shots" | "answers">): string {
  return [protocolId(protocol), `${shots}-shot`, ...answerWords(answers)].join(", ");
}

/**
 * Finds a protocol of a family by its full name, with or without its version, or by the part before or after the slash.
 * @param asked may name protocols of several families
 * @returns undefined if none of them is of this family
 * @throws RecipeError if two of them are
 */
export function matchProtocol<P extends Protocol>(asked: readonly string[], protocols: readonly P[]): P | undefined {
  const found = new Set(asked.flatMap((name) => namedProtocol(name, protocols) ?? []));
  if (found.size > 1) {
    const names = [...found].map(protocolId).join(" and ");
    const message = `${names} are protocols of the same tasks; choose one of them for each run`;
    throw RecipeError.at({ field: "protocol" }, message);
  }
  return [...found][0];
}

function namedProtocol<P extends Protocol>(asked: string, protocols: readonly P[]): P | undefined {
  const parts = ({ name }: Protocol) => name.split("/");
  return (
    protocols.find((protocol) => asked === protocol.name || asked === protocolId(protocol)) ??
    // "mmlu" alone is layergraft's, which comes first.
    protocols.find((protocol) => parts(protocol).includes(asked))
  );
}

/**
 * Checks that every name is one of these protocols.
 * @throws RecipeError with those that are not
 */
export function checkProtocols(asked: readonly string[], protocols: readonly Protocol[]): void {
  const problems = asked
    .filter((name) => namedProtocol(name, protocols) === undefined)
    .map((name) => {
      const known = protocols.flatMap((one) => [protocolId(one), one.name, one.name.split("/")[1] ?? ""]);
      return `${name}${didYouMean(name, known)}`;
    });
  if (problems.length === 0) return;
  // Task files declare no protocols.
  if (protocols.length === 0) {
    throw RecipeError.at({ field: "protocol" }, `These tasks have no choice of protocols; remove ${asked.join(", ")}`);
  }
  const known = protocols.map(protocolId).join(", ");
  throw new RecipeError(`These tasks have no such protocol; their protocols are ${known}:`, problems, {
    field: "protocol",
  });
}

/**
 * The number of shots to use.
 * @throws RecipeError if the protocol does not allow it
 */
export function shotsOf(protocol: Protocol, asked: number | undefined): number {
  const { default: usual, most } = protocol.shots;
  if (asked === undefined) return usual;
  if (Number.isInteger(asked) && asked >= 0 && asked <= most) return asked;
  const range = most === 0 ? "has no shots" : `has from 0 to ${most} shots`;
  throw RecipeError.at({ field: "shots" }, `${protocolId(protocol)} ${range}, not ${asked}`);
}

/**
 * SHA-256 of everything that is asked and expected: prompts, choices, stops, gold answers, in their order. Two runs
 * with the same digest asked the same.
 */
export function promptsDigest(items: readonly Item[]): string {
  const hash = createHash("sha256");
  for (const item of items) {
    const { prompt } = item;
    const asked = prompt.form === "text" ? prompt.shared + prompt.own : prompt.messages.map((m) => [m.role, m.content]);
    const rest = item.kind === "generate" ? [item.stop, item.maxNewTokens] : [item.choices, item.correct];
    hash.update(`${JSON.stringify([item.id, item.kind, asked, ...rest, item.gold])}\n`);
  }
  return hash.digest("hex");
}

/**
 * SHA-256 of how answers are read and scored, and of what a prompt begins with. Two scores are comparable only where it is
 * the same.
 */
export function judgingDigest({ protocol, judging, metrics }: Pick<Task, "protocol" | "judging" | "metrics">): string {
  const measured = metrics.map(({ score: _, ...metric }) => metric);
  return digestOfJson([protocol.specialTokens, judging ?? null, measured]);
}
