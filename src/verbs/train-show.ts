// What a training run shows: before it begins, and of its result.

import { describeNeed } from "../engine/memory/index.js";
import { right, type Shown } from "../figures/index.js";
import { describeFree, freeMemory } from "../kit/memory/index.js";
import { formatCount, formatDuration, formatRanges, plural } from "../kit/printing/index.js";
import type { SetCounts } from "../train/data/index.js";
import {
  describeKept,
  describeSchedule,
  keptNotes,
  type PreparedRun,
  type Run,
  type RunResult,
} from "../train/index.js";

/** A run that is prepared, and what it is expected to lose. */
export interface TrainPlan extends PreparedRun {
  readonly expected: readonly string[];
}

export function titleOf({ method, out, base }: Run): string {
  return `${method === "lora" ? "LoRA" : "Full"} fine-tuning of ${base} into ${out}`;
}

export function showPlan(prepared: TrainPlan, run: Run): Shown[] {
  const { settings, trained, lora, mask, memory, source, streams, notes, expected } = prepared;
  const parameters = [...trained].reduce((sum, name) => sum + sizeOf(source.tensors.get(name)?.shape ?? []), 0);
  const layers = [...new Set([...trained].flatMap((name) => source.tensors.get(name)?.layer ?? []))].sort(
    (a, b) => a - b,
  );
  const factors = lora?.modules.reduce(
    (sum, module) => sum + lora.settings.rank * (module.experts ?? 1) * (module.in + module.out),
    0,
  );
  const what = lora
    ? `rank ${lora.settings.rank} adapter for ${plural(lora.modules.length, "weight")}, ${formatCount(factors ?? 0)} trained parameters`
    : `${formatCount(parameters)} trained parameters`;
  const text = (lines: readonly string[]): Shown => ({ kind: "text", lines, isTight: true });
  return [
    text([
      `${what}, in layers ${formatRanges(layers) || "none"}`,
      ...(mask ? [`mask: the ${formatCount(mask.kept)} of them that ${run.mask?.from} changed most`] : []),
    ]),
    ...streams.flatMap(({ name, counts }): Shown[] => [
      ...(streams.length > 1 ? [text([`stream ${name}:`])] : []),
      {
        kind: "table",
        what: "set",
        isTight: true,
        columns: ["set", ...COUNT_COLUMNS.map(right)],
        rows: counts.map(countRow),
      },
      text(linesOfCounts(counts)),
    ]),
    text([
      `${plural(settings.steps, "step")} of ${settings.sequencesPerStep} sequences of ${run.packing ? "" : "at most "}${settings.sequenceLength} tokens${run.packing ? ", packed" : ""}`,
      `learning rate ${settings.learningRate}, ${describeSchedule(settings.schedule, settings.steps)}`,
      ...(memory ? [`needs ${describeNeed(memory)}; ${describeFree(freeMemory())}`] : []),
      ...[...notes, ...expected].map((note) => `note: ${note}`),
    ]),
  ];
}

/** Of the sets of a stream: how their texts were formatted, and what is not trained on. */
export const linesOfCounts = (counts: readonly SetCounts[]) => [...counts.map(formatOf), ...counts.flatMap(lossesOf)];

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

const COUNT_COLUMNS = ["rows", "examples", "training", "held out", "cut", "tokens", "learned"];

function countRow(counts: SetCounts): string[] {
  const { name, rows, examples, kept, heldOut, cut, tokens, lossTokens } = counts;
  return [
    name,
    ...[rows, examples, kept - heldOut, heldOut, cut].map((n) => n.toLocaleString("en-US")),
    formatCount(tokens),
    formatCount(lossTokens),
  ];
}

/** The fields and the template that gave the texts of a set. */
const formatOf = ({ name, fields, template }: SetCounts) =>
  `  ${name}: ${fields}; formatted ${template === "plain" ? "as plain text" : `with ${template}`}`;

/** What is not trained on, and why, and what may be a mistake in the file. */
function lossesOf(counts: SetCounts): string[] {
  const lost: [number, string][] = [
    [counts.badRows, "could not be read"],
    [counts.emptyRows, "without prompt or response"],
    [counts.duplicates, "duplicates"],
    [counts.notSampled, "over the cap"],
    [counts.tooLong, "too long"],
    [counts.nothingToLearn, "without tokens to learn"],
    [counts.refused, "rejected by the chat template"],
  ];
  for (const [filter, count] of Object.entries({ ...counts.filteredRows, ...counts.filtered }))
    lost.push([count, `not ${filter}`]);
  const reasons = lost.filter(([count]) => count > 0).map(([count, why]) => `${count.toLocaleString("en-US")} ${why}`);
  const first = ({ file, line }: { readonly file: string; readonly line: number }) => `first: ${file}, line ${line}`;
  return [
    ...(reasons.length > 0 ? [`  ${counts.name}: ${reasons.join("; ")}`] : []),
    ...(counts.firstEmpty
      ? [`  ${counts.name}: fill in or remove rows without prompt or response (${first(counts.firstEmpty)})`]
      : []),
    ...Object.entries(counts.leftOut).map(
      ([why, at]) =>
        `  ${counts.name}: ${plural(at.count, "turn")} of the assistant not learned: ${why} (${first(at)})`,
    ),
    ...Object.entries(counts.missing).map(
      ([cell, at]) =>
        `  ${counts.name}: note: ${plural(at.count, "row")} with the text ${cell}. Leave a missing value empty (${first(at)})`,
    ),
  ];
}

export function showResult(result: RunResult, seconds: number): Shown[] {
  const { last, best, bestLoss, kept, merged, reverted, steps, samples, tokens, loss, stoppedEarly, resumed } = result;
  const time = formatDuration(seconds);
  const lines = [
    `Trained ${plural(steps, "step")}, ${plural(samples, "sample")}, ${formatCount(tokens)} tokens${resumed ? " (resumed)" : ""} in ${time}${loss === null ? "" : `; loss ${loss.toFixed(4)}`}${stoppedEarly ? "; stopped early, as the held-out loss stopped improving" : ""}`,
    `last  ${last}`,
    ...(best ? [`best  ${best} (held-out loss ${bestLoss?.toFixed(4)})`] : []),
    ...(merged ? [`merged  ${merged}`] : []),
    ...(reverted ? [`reverted  ${reverted}`] : []),
    ...(keptNotes(kept).length > 0 || !kept ? [] : [`saved  ${describeKept(kept)}`]),
  ];
  return [{ kind: "text", lines }];
}
