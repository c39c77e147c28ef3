// Adapters from the changes of models.
import { resolve } from "node:path";
import { z } from "zod";
import { right } from "../figures/index.js";
import type { Progress } from "../kit/index.js";
import { formatBytes, formatPercent, formatSome, plural } from "../kit/printing/index.js";
import { namedField } from "../kit/settings/index.js";
import { columnName } from "../merge/analysis/index.js";
import {
  DEFAULT_RANK,
  type ExtractedPart,
  type Extraction,
  type ExtractionPlan,
  extractAdapter,
  planExtraction,
} from "../merge/extract/index.js";
import { sourceField } from "../merge/index.js";
import type { ExtractInput } from "./inputs.js";
import { callVerb, type Noted, type Verb, type VerbOptions, type WorkOptions } from "./verb.js";

const patterns = z.array(z.string());
const SHARE = "must be a number above 0 and at most 1";

export const extractSchema = z.strictObject({
  base: namedField("source", "model to add the adapter to"),
  model: sourceField("fine-tune or merge: a model or a recipe file (.yaml)"),
  rank: z
    .int()
    .min(1)
    .optional()
    .meta({ description: "largest rank", unset: `${DEFAULT_RANK}, or no limit with \`energy\`` }),
  energy: z
    .number()
    .gt(0, SHARE)
    .max(1, SHARE)
    .optional()
    .meta({ description: "use the smallest ranks that keep this share of the squared change" }),
  linearOnly: z.boolean().optional().meta({ description: "leave norms, biases and embeddings at the base's" }),
  include: patterns.optional().meta({ description: "tensors to extract, such as *.self_attn.*", unset: "all" }),
  exclude: patterns.optional().meta({ description: "tensors to leave at the base's" }),
  embedLora: z
    .boolean()
    .optional()
    .meta({ description: "give the embedding factors, too, in place of saving it whole" }),
  saveModules: patterns.optional().meta({ description: "module to save whole, such as lm_head" }),
  seed: z.int().min(0).optional().meta({ description: "random seed", unset: "0" }),
  out: namedField("folder", "folder to write; it appears when it is complete"),
});

/** What an adapter keeps of a model's change. */
export interface ExtractResult extends Extraction, Noted {}

export const extractVerb: Verb<typeof extractSchema, ExtractResult, Progress, ExtractionPlan> = {
  name: "extract",
  description:
    "Write the change of a fine-tune or merge as a PEFT LoRA adapter: the best low-rank approximation of each linear " +
    "weight, by randomised singular value decomposition (arXiv 0909.4061). Prints the share of the squared change " +
    "that each rank keeps. Norms and embeddings that changed are saved whole.",
  schema: extractSchema,
  // Each weight is read several times, and not in the order of the files.
  fetch: "files",
  options: {
    threads: "physical cores",
    memory: "1GB",
    force: "replace an existing adapter that extract wrote",
  },
  async run({ out, ...input }, controls) {
    const { folder, force } = controls;
    const at = folder === undefined ? out : resolve(folder, out);
    const extraction = await extractAdapter({ ...input, ...controls }, { out: at, force });
    return { ...extraction, notes: notesOf(extraction) };
  },
  show({ parts, total, ranks }) {
    const row = (name: string, { weights, smallestRank, largestRank, shares }: Omit<ExtractedPart, "part">) => [
      name,
      String(weights),
      smallestRank === largestRank ? String(largestRank) : `${smallestRank}-${largestRank}`,
      ...shares.map(formatPercent),
    ];
    return [
      { kind: "text", lines: ["Share of the squared change kept, by rank:"] },
      {
        kind: "table",
        what: "part",
        columns: ["part", ...["weights", "rank", ...ranks.map((rank) => `at ${rank}`)].map(right)],
        rows: [...parts.map((part) => row(columnName(part.part), part)), row("all", total)],
      },
    ];
  },
  plan: {
    description: "print the plan and exit; reads headers and a sample of weights",
    run: (input, controls) => planExtraction({ ...input, ...controls }),
    show({ base, model, linear, others, bytes }) {
      const lines = [
        `Extract ${model} as an adapter of ${base}`,
        `${plural(linear.length, "linear weight")} can get factors; ${plural(others.length, "other tensor")} can be saved whole`,
        bytes === null
          ? "the ranks, and so the size, follow from the change"
          : `factors: at most ${formatBytes(bytes)}`,
      ];
      return [{ kind: "text", lines }];
    },
  },
  terminal: {
    groups: {
      Models: ["base", "model"],
      Adapter: ["rank", "energy", "linearOnly", "include", "exclude", "embedLora", "saveModules", "seed"],
      Output: ["out", "dryRun", "force", "push"],
    },
    flags: {
      energy: { value: "share" },
      include: { value: "pattern" },
      exclude: { value: "pattern" },
      saveModules: { flag: "save-module", value: "name" },
    },
    writes: "the adapter",
    json: (result, seconds) => ({ ...result, seconds }),
    closing: ({ bytes }, { base, out }, time) => [
      `Wrote ${out}: ${formatBytes(bytes)}, ${time}. Use it as ${base}+${out}`,
    ],
    pushed: (_, { out }) => out,
  },
};

function notesOf({ unchanged, saved, left, rows }: Extraction): string[] {
  return [
    ...(rows === null
      ? []
      : [
          `the vocabulary has ${rows} rows, not the base's: embedding and head are saved whole, with the tokenizer. In PEFT, call model.resize_token_embeddings(${rows}) before the adapter is loaded`,
        ]),
    ...(unchanged > 0 ? [`${plural(unchanged, "linear weight")} equal to the base's got no factors`] : []),
    ...(saved.length > 0 ? [`saved whole, as factors cannot hold them: ${formatSome(saved)}`] : []),
    ...(left.length > 0 ? [`changed, but left at the base's, as linear only was set: ${formatSome(left)}`] : []),
  ];
}

/** Options of `extract`. */
export interface ExtractOptions extends VerbOptions, Pick<WorkOptions, "threads" | "memory" | "force"> {}

/**
 * Writes the change of a model as a PEFT LoRA adapter: the best low-rank approximation of each linear weight, by
 * randomised singular value decomposition (arXiv 0909.4061).
 * @returns the share of the squared change that the adapter keeps, by rank, part and weight
 * @throws RecipeError if the input or a recipe is not valid, with every problem
 * @throws MismatchError if the models do not fit together, or an adapter cannot hold a change
 * @throws OutputError if `out` is one of the models, or exists and `force` is not set
 * @throws CheckpointError or FormatError if a model cannot be read, or nothing changed
 * @throws CancelledError if the signal fires
 */
export function extract(input: ExtractInput, options: ExtractOptions = {}): Promise<ExtractResult> {
  return callVerb(extractVerb, input, options);
}
