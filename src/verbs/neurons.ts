import { resolve } from "node:path";
import { z } from "zod";
import { count } from "../figures/index.js";
import { commandLine, formatFixed } from "../kit/printing/index.js";
import { findLanguageNeurons, type LanguageNeurons } from "../merge/analysis/index.js";
import type { NeuronsInput } from "./inputs.js";
import { callVerb, type Noted, type Verb, type VerbOptions } from "./verb.js";

const SHARE = "must be a number from 0 to 1";

export const neuronsSchema = z.strictObject({
  language: z
    .record(z.string(), z.string().min(1))
    .meta({ title: "folders by name", description: "activations on texts of each language, by its name" }),
  share: z
    .number()
    .min(0, SHARE)
    .max(1, SHARE)
    .optional()
    .meta({ description: "share of all neurons to choose", unset: "0.01" }),
});

/** Neurons that fire for few languages. */
export interface NeuronsResult extends LanguageNeurons, Noted {}

export const neuronsVerb: Verb<typeof neuronsSchema, NeuronsResult> = {
  name: "neurons",
  description:
    "Find the feed-forward neurons that fire for few languages, by the entropy of their activation over languages (LAPE). " +
    `Measure the activations first: ${commandLine`measure MODEL --kind activations --on TEXTS --out FOLDER`}.`,
  schema: neuronsSchema,
  fetch: "files",
  options: {},
  async run({ language, share }, { folder = "" }) {
    const folders = Object.entries(language).map(([name, path]) => [
      name,
      folder === "" ? path : resolve(folder, path),
    ]);
    return { ...(await findLanguageNeurons(Object.fromEntries(folders), { share })), notes: [], warnings: [] };
  },
  show({ languages, layers, neurons, threshold, chosen }) {
    const numbersOf = (of: typeof chosen) =>
      languages.map((name) => count(of.filter((neuron) => neuron.languages.includes(name)).length));
    const rowOf = (layer: number) => [`${layer}`, ...numbersOf(chosen.filter((neuron) => neuron.layer === layer))];
    const percent = formatFixed(100 * threshold, 1);
    return [
      {
        kind: "text",
        lines: [`${chosen.length} of ${neurons} neurons, active at more than ${percent}% of a language's tokens:`],
      },
      {
        kind: "table",
        what: "layer",
        columns: ["layer", ...languages],
        rows: [...Array.from({ length: layers }, (_, layer) => rowOf(layer)), ["all", ...numbersOf(chosen)]],
      },
    ];
  },
  terminal: {
    groups: { Options: ["language", "share"] },
    flags: {
      language: { value: "name=folder", help: "activations on texts of a language; give two or more" },
      share: { value: "share" },
    },
    json: ({ notes: _notes, warnings: _warnings, ...found }) => found,
  },
};

/**
 * Finds the feed-forward neurons that fire for few languages, by the entropy of their activation over languages (Tang et
 * al., arXiv 2402.16438, section 2.2).
 * @throws RecipeError if the input is not valid, with every problem; if there are fewer than two languages, or a folder has
 *   other statistics
 * @throws CheckpointError if a folder cannot be opened or has other values than shares, or they are of different models
 */
export function neurons(input: NeuronsInput, options: VerbOptions = {}): Promise<NeuronsResult> {
  return callVerb(neuronsVerb, input, options);
}
