// Every command by group and name, in the order of the help: its line there, and the module that adds it.
import type { Command } from "commander";

/** A command as the help lists it; its module is loaded when it runs, with the libraries that it needs. */
export interface CommandEntry {
  readonly group: string;
  readonly summary: string;
  readonly load: () => Promise<(program: Command) => void>;
}

const GROUPS: Readonly<Record<string, Readonly<Record<string, readonly [string, CommandEntry["load"]]>>>> = {
  Merge: {
    swap: [
      "combine layers of a language expert and a task expert",
      async () => (await import("./commands/swap-command.js")).addSwapCommand,
    ],
    soup: ["average several models", async () => (await import("./commands/soup-command.js")).addSoupCommand],
    revert: [
      "restore layers or parts of an expert to its base",
      async () => (await import("./commands/revert-command.js")).addRevertCommand,
    ],
    merge: [
      "run a recipe or a mergekit configuration",
      async () => (await import("./commands/merge-command.js")).addMergeCommand,
    ],
    moe: [
      "build a mixture of experts from several models",
      async () => (await import("./commands/moe-command.js")).addMoeCommand,
    ],
    transplant: [
      "give a model the tokenizer of another",
      async () => (await import("./commands/transplant-command.js")).addTransplantCommand,
    ],
    convert: [
      "convert a mergekit configuration to a recipe",
      async () => (await import("./commands/convert-command.js")).addConvertCommand,
    ],
    extract: [
      "write a model's change from its base as a LoRA adapter",
      async () => (await import("./commands/extract-command.js")).addExtractCommand,
    ],
    export: [
      "write a model or a recipe for llama.cpp (GGUF) or transformers.js (ONNX)",
      async () => (await import("./commands/export-command.js")).addExportCommand,
    ],
    verify: [
      "recompute a merge and list tensors that differ",
      async () => (await import("./commands/verify-command.js")).addVerifyCommand,
    ],
    push: [
      "push a model or adapter to the Hugging Face hub",
      async () => (await import("./commands/push-command.js")).addPushCommand,
    ],
    methods: [
      "list the merge methods, or explain one",
      async () => (await import("./commands/methods-command.js")).addMethodsCommand,
    ],
  },
  Look: {
    studio: [
      "see, choose and try merges in the browser",
      async () => (await import("./commands/studio-command.js")).addStudioCommand,
    ],
    inspect: [
      "show architecture, layers, parameters and shards of a model",
      async () => (await import("./commands/inspect-command.js")).addInspectCommand,
    ],
    diff: [
      "show which layers and parts of two models differ, and how much",
      async () => (await import("./commands/diff-command.js")).addDiffCommand,
    ],
    explain: [
      "find the recipe that a merged model was made with",
      async () => (await import("./commands/explain-command.js")).addExplainCommand,
    ],
    analyze: [
      "show which layers each expert changed",
      async () => (await import("./commands/analyze-command.js")).addAnalyzeCommand,
    ],
    suggest: [
      "write recipes to try for two experts",
      async () => (await import("./commands/suggest-command.js")).addSuggestCommand,
    ],
  },
  Train: {
    train: [
      "fine-tune all weights, some layers, or a LoRA adapter",
      async () => (await import("./commands/train-command.js")).addTrainCommand,
    ],
  },
  Run: {
    generate: [
      "generate text from a model or a recipe",
      async () => (await import("./commands/generate-command.js")).addGenerateCommand,
    ],
    chat: ["chat with a model or a recipe", async () => (await import("./commands/chat-command.js")).addChatCommand],
    serve: [
      "serve models and recipes over the OpenAI API",
      async () => (await import("./commands/serve-command.js")).addServeCommand,
    ],
    score: [
      "print log-probabilities of tokens or continuations",
      async () => (await import("./commands/score-command.js")).addScoreCommand,
    ],
  },
  Evaluate: {
    eval: [
      "evaluate on MGSM, Belebele, FLORES, MBPP, MMLU or own tasks",
      async () => (await import("./commands/eval-command.js")).addEvalCommand,
    ],
    compare: [
      "compare evaluations item by item, also those of lm-eval",
      async () => (await import("./commands/compare-command.js")).addCompareCommand,
    ],
  },
  Experiment: {
    experiment: [
      "run experts, merges and evaluations from one plan",
      async () => (await import("./commands/experiment-command.js")).addExperimentCommand,
    ],
    tune: [
      "search the best merge of two experts by your own task",
      async () => (await import("./commands/tune-command.js")).addTuneCommand,
    ],
    example: [
      "write small models, tasks and plans to practice on",
      async () => (await import("./commands/example-command.js")).addExampleCommand,
    ],
    demo: [
      "merge and evaluate small models offline",
      async () => (await import("./commands/demo-command.js")).addDemoCommand,
    ],
  },
  Setup: {
    init: [
      "write a commented recipe, run, plan or task to start from",
      async () => (await import("./commands/init-command.js")).addInitCommand,
    ],
    doctor: [
      "print what is installed, what it enables and how to add the rest",
      async () => (await import("./commands/doctor-command.js")).addDoctorCommand,
    ],
    completion: [
      "complete commands, flags and names in bash, zsh and fish",
      async () => (await import("./completion-command.js")).addCompletionCommand,
    ],
  },
};

export const COMMANDS: ReadonlyMap<string, CommandEntry> = new Map(
  Object.entries(GROUPS).flatMap(([group, commands]) =>
    Object.entries(commands).map(([name, [summary, load]]) => [name, { group, summary, load }] as const),
  ),
);
