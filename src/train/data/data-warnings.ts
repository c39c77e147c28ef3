// What is wrong with a whole set of examples, in sentences.
import { formatSome, plural } from "../../kit/printing/index.js";
import type { Tokenizer } from "../../text/index.js";
import type { SetCounts } from "./counts.js";

/** A share of a set that is worth a warning. */
const MANY = 0.1;

const count = (n: number) => n.toLocaleString("en-US");

/** Why a set has no example at all; undefined if it has one. @param sequenceLength most tokens of an example */
export function whyNone(counts: SetCounts, sequenceLength: number): string | undefined {
  const { name, rows, emptyRows, firstEmpty, examples, promptTooLong, tooLong, nineTenths, longest, kept } = counts;
  if (kept > 0) return undefined;
  const most = nineTenths === longest ? "" : `, or to ${nineTenths} for nine of ten`;
  const enough = `Set sequence_length to ${longest}${most}`;
  if (rows === 0) return `${name} is empty: it has no rows. Name a file with examples.`;
  if (emptyRows === rows) {
    const first = firstEmpty ? ` (first: ${firstEmpty.file}, line ${firstEmpty.line})` : "";
    return `all ${plural(rows, "row")} of ${name} lack a prompt or a response${first}. Fill them in, or name other columns with map.`;
  }
  if (examples > 0 && promptTooLong === examples) {
    return `the prompts of all ${plural(examples, "example")} of ${name} fill the ${sequenceLength} tokens of a sequence, so no reply is learned. ${enough}.`;
  }
  if (examples > 0 && tooLong === examples) {
    return `all ${plural(examples, "example")} of ${name} are longer than ${sequenceLength} tokens, and too_long: drop leaves them out. ${enough}.`;
  }
  return `no example of ${name} is left to train on. Check its filters and columns.`;
}

/** What of a set keeps a model from learning it. */
export function dataWarnings(
  counts: SetCounts,
  {
    sequenceLength,
    tokenizer,
    endIds,
  }: {
    readonly sequenceLength: number;
    readonly tokenizer: Tokenizer;
    readonly endIds: readonly number[];
  },
): string[] {
  const { name, kept, cut, tooLong, promptTooLong, nineTenths, longest, endless } = counts;
  const longer = cut + tooLong + promptTooLong;
  const all = kept + tooLong + promptTooLong;
  const warnings: string[] = [];
  if (longer > all * MANY) {
    warnings.push(
      `${name}: ${count(longer)} of ${count(all)} examples are longer than ${sequenceLength} tokens and lose their end, or are left out. ` +
        `sequence_length: ${nineTenths} keeps nine of ten whole, and ${longest} all.`,
    );
  }
  const whole = kept - cut;
  if (endless > whole * MANY) {
    const ends = formatSome(endIds.map((id) => tokenizer.tokenOf(id) ?? String(id)));
    warnings.push(
      `${name}: ${count(endless)} of ${count(whole)} replies end in no end token of the model (${ends || "it names none"}), so programs do not know ` +
        "where its answers end. Add the token that ends them to eos_token_id in the base's generation_config.json.",
    );
  }
  return warnings;
}
