// What layergraft 1 had and 2 does not, with what to use instead. docs/from-1-to-2.md explains each.

const SPARSE = "Train twice: first all weights, then with mask.from, the first run's checkpoint, and mask.share";
const WEIGHTS = "Leave it out for float32, or choose the backend llama with the type q8_0 or q4_k_m";

const REMOVED = {
  command: {
    moe: "Use merge, which runs configurations of mergekit-moe",
  },
  /** By the name in a recipe. */
  method: {
    core_space: "Merge the full model by ties, iso or tsv_m, then run layergraft extract",
    pcb: "Use consensus, sce or widen, which weigh changes by their size and agreement",
  },
  /** By the name in a run or a plan, with the field that it is in where others have the name. */
  field: {
    contamination: "Remove the texts of evaluations from the files before training",
    "evaluate.weights": WEIGHTS,
    sparse: SPARSE,
  },
  /** By the value of a flag that has choices. Removed after 2.0.0. */
  choice: {
    "lm-eval":
      "The results of an evaluation, results.json and samples-*.jsonl, have the same scores, prompts and answers",
  },
  /** By the name of the flag, without its dashes. */
  option: {
    "log-to": "Send log.jsonl of the run to a tracker, as docs/train-experts.md shows",
    "sparse.keep": SPARSE,
    weights: WEIGHTS,
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>;

/** `was removed in 2.0.0. Use ...`, for a name that 1 had. */
export function removedAdvice(kind: keyof typeof REMOVED, name: string): string | undefined {
  const table: Readonly<Record<string, string>> = REMOVED[kind];
  const since = kind === "choice" ? "after" : "in";
  return Object.hasOwn(table, name) ? `was removed ${since} 2.0.0. ${table[name]}` : undefined;
}
