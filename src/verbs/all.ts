// Every verb, in the order of the help and the docs. Each is loaded when it is asked for, with the libraries that it needs.
import type { Verb } from "./verb.js";

/** A verb as the help lists it. */
export interface ListedVerb {
  readonly name: string;
  /** Its heading in the help. */
  readonly group: string;
  readonly summary: string;
  readonly load: () => Promise<Verb>;
}

type Entries = Readonly<Record<string, readonly [summary: string, load: () => Promise<unknown>]>>;

/** Verbs of a group by their names. */
export const listed = (group: string, entries: Entries): ListedVerb[] =>
  Object.entries(entries).map(([name, [summary, load]]) => ({
    name,
    group,
    summary,
    load: load as ListedVerb["load"],
  }));

export const VERBS: readonly ListedVerb[] = [
  ...listed("Merge", {
    swap: ["combine layers of a language expert and a task expert", async () => (await import("./swap.js")).swapVerb],
    soup: ["average several models", async () => (await import("./soup.js")).soupVerb],
    revert: ["restore layers or parts of an expert to its base", async () => (await import("./revert.js")).revertVerb],
    merge: ["run a recipe or a mergekit configuration", async () => (await import("./merge.js")).mergeVerb],
    transplant: ["give a model the tokenizer of another", async () => (await import("./transplant.js")).transplantVerb],
    extract: [
      "write a model's change from its base as a LoRA adapter",
      async () => (await import("./extract.js")).extractVerb,
    ],
    export: [
      "write a model or a recipe for llama.cpp (GGUF) or transformers.js (ONNX)",
      async () => (await import("./export.js")).exportVerb,
    ],
    verify: ["recompute a merge and list tensors that differ", async () => (await import("./verify.js")).verifyVerb],
    push: ["push a model or adapter to the Hugging Face hub", async () => (await import("./push.js")).pushVerb],
  }),
  ...listed("Look", {
    inspect: [
      "show architecture, layers, parameters and shards of a model",
      async () => (await import("./inspect.js")).inspectVerb,
    ],
    diff: [
      "show which layers and parts of two models differ, and how much",
      async () => (await import("./diff.js")).diffVerb,
    ],
    analyze: ["show which layers each expert changed", async () => (await import("./analyze.js")).analyzeVerb],
    measure: [
      "measure a model on texts, for merges that need it",
      async () => (await import("./measure.js")).measureVerb,
    ],
    neurons: ["find neurons that fire for few languages", async () => (await import("./neurons.js")).neuronsVerb],
    suggest: ["write recipes to try for two experts", async () => (await import("./suggest.js")).suggestVerb],
  }),
  ...listed("Train", {
    train: [
      "fine-tune all weights, some layers, or a LoRA adapter",
      async () => (await import("./train.js")).trainVerb,
    ],
  }),
  ...listed("Run", {
    generate: ["generate text from a model or a recipe", async () => (await import("./generate.js")).generateVerb],
    score: ["print log-probabilities of tokens or continuations", async () => (await import("./score.js")).scoreVerb],
  }),
  ...listed("Evaluate", {
    eval: [
      "evaluate on MGSM, Belebele, FLORES, MBPP, MMLU or own tasks",
      async () => (await import("./evaluate.js")).evalVerb,
    ],
    compare: [
      "compare evaluations item by item, also those of lm-eval",
      async () => (await import("./compare.js")).compareVerb,
    ],
  }),
];
