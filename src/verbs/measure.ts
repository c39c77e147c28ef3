import { z } from "zod";
import { plural } from "../kit/printing/index.js";
import { namedField } from "../kit/settings/index.js";
import { STATISTICS, type StatisticsKind, sourceField } from "../merge/index.js";
import type { MeasureInput } from "./inputs.js";
import { callVerb, type Noted, type Verb, type VerbOptions, type WorkOptions } from "./verb.js";

export const measureSchema = z.strictObject({
  model: sourceField("model, or a recipe file (.yaml)"),
  kind: z.enum(STATISTICS).meta({ description: "statistics to measure" }),
  on: z.array(z.string()).meta({ description: "texts to measure on" }),
  samples: z.int().min(1).optional().meta({ description: "texts to draw", unset: "256" }),
  length: z.int().min(1).optional().meta({ description: "tokens to read of a text", unset: "512" }),
  seed: z.int().min(0).optional().meta({ description: "seed of the draw", unset: "0" }),
  out: namedField("folder", "folder to write"),
});

/** What `measure` wrote. */
export interface MeasureResult extends Noted {
  readonly kind: StatisticsKind;
  /** Absolute path of the folder. */
  readonly out: string;
  readonly texts: number;
  readonly tokens: number;
  readonly tensors: number;
}

export const measureVerb: Verb<typeof measureSchema, MeasureResult> = {
  name: "measure",
  description:
    "Measure a model on texts, and write what merges weigh by: the Fisher information of each weight (fisher, for the " +
    "method fisher), products of the inputs of each matrix (gram, for regmean), or their mean size (inputs, for aim); " +
    "or how often each neuron fires (activations, for the command neurons).",
  schema: measureSchema,
  fetch: "files",
  options: { threads: "physical cores", memory: "256MB", force: "replace earlier statistics" },
  async run({ model, on: texts, ...input }, controls) {
    const { measureStatistics } = await import("../engine/index.js");
    const summary = await measureStatistics(model as Parameters<typeof measureStatistics>[0], {
      ...input,
      texts,
      ...controls,
    });
    return { ...summary, notes: [], warnings: [] };
  },
  show: () => [],
  terminal: {
    positional: ["model"],
    groups: { Options: ["kind", "on", "samples", "length", "seed"], Output: ["out", "force"] },
    flags: { kind: { value: "kind" }, on: { value: "file", read: "texts", help: "text file, one text per line" } },
    waitsFor: "this text",
    json: ({ notes: _notes, warnings: _warnings, ...summary }) => summary,
    closing: ({ tensors, texts, tokens }, { out }, time) => [
      `Measured ${plural(tensors, "tensor")} on ${plural(texts, "text")} (${plural(tokens, "token")}) in ${time}: ${out}`,
    ],
  },
};

/** Options of `measure`. */
export interface MeasureOptions extends VerbOptions, Pick<WorkOptions, "threads" | "memory" | "force"> {}

/**
 * Measures statistics of a model on texts, by which merges weigh, and writes them as float32 tensors of the model's names.
 * @throws RecipeError if the input is not valid, with every problem; or if no text has two tokens
 * @throws OutputError if `out` exists and `force` is not set, or is the model
 * @throws CheckpointError if the model has no tokenizer or cannot be used
 * @throws LayergraftError with code `broken-model` if a statistic is not finite, or `memory` if too little is free
 * @throws RuntimeMissingError if ONNX Runtime is not installed
 * @throws CancelledError if the signal fires
 */
export function measure(input: MeasureInput, options: MeasureOptions = {}): Promise<MeasureResult> {
  return callVerb(measureVerb, input, options);
}
