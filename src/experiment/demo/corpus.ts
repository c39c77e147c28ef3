// The miniature's examples as batches: drawn once for a training, encoded, packed into sequences of one length.
import { createHash } from "node:crypto";
import { type BatchPosition, BatchStream, type Encoded, type ExampleList } from "../../data/index.js";
import type { Tokenizer } from "../../text/index.js";
import { type BatchSource, batchSource } from "../../train/index.js";
import { drawExamples, type Mix } from "./tasks.js";

/** T: a little more than the longest text, so that packing wastes little. */
export const SEQUENCE_LENGTH = 128;
/** Sequences of a step: 1,024 tokens, as in the experiment that the recipe was found with. */
export const SEQUENCES_PER_STEP = 8;
/** Examples that fill a step, on average a little fewer than needed; more are drawn than steps use. */
const EXAMPLES_PER_STEP = 48;

/** Encodes an example: BOS, prompt, response, EOS; the response and EOS are learned. */
export function encodeExample(tokenizer: Tokenizer, prompt: string, response: string): Encoded {
  const before = [tokenizer.bos ?? 0, ...tokenizer.encode(prompt)];
  const after = [...tokenizer.encode(response), tokenizer.eos ?? 0];
  const loss = new Uint8Array(before.length + after.length).fill(1, before.length);
  return { ids: Int32Array.from([...before, ...after]), loss };
}

/**
 * The batches of a training.
 * @param label with the seed decides every example
 */
export function corpus(
  tokenizer: Tokenizer,
  mixes: readonly Mix[],
  options: { readonly seed: number; readonly label: string; readonly steps: number },
): { readonly batches: BatchSource; readonly digest: string } {
  const { seed, label, steps } = options;
  const hash = createHash("sha256");
  const sets = mixes.map((mix, set) => {
    const examples = drawExamples(mix, seed, `${label}, examples ${set}`);
    return Array.from({ length: Math.ceil((steps * EXAMPLES_PER_STEP) / mixes.length) }, () => {
      const { prompt, response } = examples.next().value;
      hash.update(`${prompt}\0${response}\0`);
      return encodeExample(tokenizer, prompt, response);
    });
  });
  const digest = hash.digest("hex");
  const list: ExampleList = {
    sets: sets.map((examples, set) => ({ name: `${label} ${set}`, size: examples.length })),
    digest,
    tokensOf: (set, index) => sets[set]?.[index]?.ids.length ?? 0,
    get: (set, index) => sets[set]?.[index] as Encoded,
  };
  const openAt = (from?: BatchPosition) =>
    new BatchStream({
      ...{ examples: list, batch: SEQUENCES_PER_STEP, sequenceLength: SEQUENCE_LENGTH, packing: true, seed, from },
    });
  return { batches: batchSource(label, openAt), digest };
}
