// Every command by group and name, in the order of the help: its line there, and the module that adds it.

/** A command as the help lists it; its module is loaded when it runs, with the libraries that it needs. */
export interface CommandEntry {
  readonly group: string;
  readonly summary: string;
  /** Whether it is one of the five that most people need. */
  readonly isFirst: boolean;
  readonly load: () => Promise<{ add(program: never): void }>;
}

const GROUPS: Readonly<Record<string, Readonly<Record<string, readonly [string, CommandEntry["load"]]>>>> = {
  Merge: {
    swap: ["combine layers of a language expert and a task expert", () => import("./commands/swap-command.js")],
    soup: ["average several models", () => import("./commands/soup-command.js")],
    revert: ["restore layers or parts of an expert to its base", () => import("./commands/revert-command.js")],
    merge: ["run a recipe or a mergekit configuration", () => import("./commands/merge-command.js")],
    transplant: ["give a model the tokenizer of another", () => import("./commands/transplant-command.js")],
    convert: ["convert a mergekit configuration to a recipe", () => import("./commands/convert-command.js")],
    extract: ["write a model's change from its base as a LoRA adapter", () => import("./commands/extract-command.js")],
    export: [
      "write a model or a recipe for llama.cpp (GGUF) or transformers.js (ONNX)",
      () => import("./commands/export-command.js"),
    ],
    verify: ["recompute a merge and list tensors that differ", () => import("./commands/verify-command.js")],
    push: ["push a model or adapter to the Hugging Face hub", () => import("./commands/push-command.js")],
    methods: ["list the merge methods, or explain one", () => import("./commands/methods-command.js")],
  },
  Look: {
    studio: ["see, choose and try merges in the browser", () => import("./commands/studio-command.js")],
    inspect: [
      "show architecture, layers, parameters and shards of a model",
      () => import("./commands/inspect-command.js"),
    ],
    diff: [
      "show which layers and parts of two models differ, and how much",
      () => import("./commands/diff-command.js"),
    ],
    explain: ["find the recipe that a merged model was made with", () => import("./commands/explain-command.js")],
    analyze: ["show which layers each expert changed", () => import("./commands/analyze-command.js")],
    measure: ["measure a model on texts, for merges that need it", () => import("./commands/measure-command.js")],
    neurons: ["find neurons that fire for few languages", () => import("./commands/neurons-command.js")],
    suggest: ["write recipes to try for two experts", () => import("./commands/suggest-command.js")],
  },
  Train: {
    train: ["fine-tune all weights, some layers, or a LoRA adapter", () => import("./commands/train-command.js")],
  },
  Run: {
    generate: ["generate text from a model or a recipe", () => import("./commands/generate-command.js")],
    chat: ["chat with a model or a recipe", () => import("./commands/chat-command.js")],
    serve: ["serve models and recipes over the OpenAI API", () => import("./commands/serve-command.js")],
    score: ["print log-probabilities of tokens or continuations", () => import("./commands/score-command.js")],
  },
  Evaluate: {
    eval: ["evaluate on MGSM, Belebele, FLORES, MBPP, MMLU or own tasks", () => import("./commands/eval-command.js")],
    compare: ["compare evaluations item by item, also those of lm-eval", () => import("./commands/compare-command.js")],
  },
  Experiment: {
    experiment: ["run experts, merges and evaluations from one plan", () => import("./commands/experiment-command.js")],
    tune: ["search the best merge of two experts by your own task", () => import("./commands/tune-command.js")],
    example: ["write small models, tasks and plans to practice on", () => import("./commands/example-command.js")],
    demo: ["merge and evaluate small models offline", () => import("./commands/demo-command.js")],
  },
  Setup: {
    init: ["write a commented recipe, run, plan or task to start from", () => import("./commands/init-command.js")],
    doctor: [
      "print what is installed, what it enables and how to add the rest",
      () => import("./commands/doctor-command.js"),
    ],
    cache: ["list or delete models that were prepared to run", () => import("./commands/cache-command.js")],
    completion: ["complete commands, flags and names in bash, zsh and fish", () => import("./completion-command.js")],
  },
};

const FIRST = ["example", "swap", "generate", "eval", "analyze"];

export const COMMANDS: ReadonlyMap<string, CommandEntry> = new Map(
  Object.entries(GROUPS).flatMap(([group, commands]) =>
    Object.entries(commands).map(
      ([name, [summary, load]]) => [name, { group, summary, load, isFirst: FIRST.includes(name) }] as const,
    ),
  ),
);
