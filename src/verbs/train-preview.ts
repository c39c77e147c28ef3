// The first examples of a run, as the model sees them.
import { loadSourceTokenizer } from "../engine/index.js";
import { plural } from "../kit/printing/index.js";
import { previewOf } from "../train/data/index.js";
import { prepareRun, type Run } from "../train/index.js";
import { placed } from "./train.js";
import { linesOfCounts } from "./train-show.js";
import type { Controls } from "./verb.js";

/** A stream of data with its first examples: pieces of text, each learned or not. */
export interface PreviewedStream {
  /** How texts were formatted, and what is not trained on. */
  readonly lines: readonly string[];
  readonly examples: readonly { readonly title: string; readonly pieces: ReturnType<typeof previewOf> }[];
}

/** @param count examples of each stream */
export async function previewExamples(
  run: Run,
  count: number,
  controls: Controls,
): Promise<{ readonly streams: readonly PreviewedStream[]; readonly warnings: readonly string[] }> {
  const { source, streams, warnings } = await prepareRun(placed(run, controls));
  const tokenizer = await loadSourceTokenizer(source);
  return {
    warnings,
    streams: streams.map(({ name, counts, batches }) => ({
      lines: linesOfCounts(counts),
      examples: Array.from({ length: Math.min(count, batches.mixture.size) }, (_, i) => {
        const { set, encoded } = batches.exampleAt(i);
        const title = `${streams.length > 1 ? `${name}, ` : ""}example ${i + 1} of ${set}, ${plural(encoded.ids.length, "token")}`;
        return { title, pieces: previewOf(encoded, tokenizer) };
      }),
    })),
  };
}
