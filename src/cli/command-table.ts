// Every command in the order of the help: its line there, and the module that adds it.
import { type ListedVerb, VERBS } from "../experiment/verbs/index.js";

/** A command as the help lists it; its module is loaded when it runs, with the libraries that it needs. */
export interface CommandEntry {
  readonly group: string;
  readonly summary: string;
  /** Whether it is one of the five that most people need. */
  readonly isFirst: boolean;
  readonly load: () => Promise<{ add(program: never): void }>;
}

type Load = CommandEntry["load"];

/** Verbs whose commands do more than the verb. */
const OWN: Readonly<Record<string, Load>> = {
  merge: () => import("./commands/merge-command.js"),
  train: () => import("./commands/train-command.js"),
  generate: () => import("./commands/generate-command.js"),
  score: () => import("./commands/score-command.js"),
  eval: () => import("./commands/eval-command.js"),
  compare: () => import("./commands/compare-command.js"),
};

/** Commands that are no verbs, above and below the verbs of their group. */
const GROUPS: Readonly<Record<string, readonly (readonly [name: string, summary: string, load: Load] | "verbs")[]>> = {
  Merge: [
    "verbs",
    ["convert", "convert a mergekit configuration to a recipe", () => import("./commands/convert-command.js")],
    ["methods", "list the merge methods, or explain one", () => import("./commands/methods-command.js")],
  ],
  Look: [
    ["studio", "see, choose and try merges in the browser", () => import("./commands/studio-command.js")],
    "verbs",
    ["explain", "find the recipe that a merged model was made with", () => import("./commands/explain-command.js")],
  ],
  Train: ["verbs"],
  Run: [
    "verbs",
    ["chat", "chat with a model or a recipe", () => import("./commands/chat-command.js")],
    ["serve", "serve models and recipes over the OpenAI API", () => import("./commands/serve-command.js")],
  ],
  Evaluate: ["verbs"],
  Experiment: [
    [
      "experiment",
      "run experts, merges and evaluations from one plan",
      () => import("./commands/experiment-command.js"),
    ],
    "verbs",
    ["example", "write small models, tasks and plans to practice on", () => import("./commands/example-command.js")],
    ["demo", "merge and evaluate small models offline", () => import("./commands/demo-command.js")],
  ],
  Setup: [
    ["init", "write a commented recipe, run, plan or task to start from", () => import("./commands/init-command.js")],
    [
      "doctor",
      "print what is installed, what it enables and how to add the rest",
      () => import("./commands/doctor-command.js"),
    ],
    ["cache", "list or delete models that were prepared to run", () => import("./commands/cache-command.js")],
    ["completion", "complete commands, flags and names in bash, zsh and fish", () => import("./completion-command.js")],
  ],
};

const FIRST = ["example", "swap", "generate", "eval", "analyze"];

/** The command of a verb that does nothing beside it. */
const commandOf =
  ({ load }: ListedVerb): Load =>
  async () => {
    const [{ verbCommand }, verb] = await Promise.all([import("./shared/verb-command.js"), load()]);
    return { add: verbCommand(verb) };
  };

const verbsOf = (group: string) =>
  VERBS.filter((verb) => verb.group === group).map(
    (verb) => [verb.name, verb.summary, OWN[verb.name] ?? commandOf(verb)] as const,
  );

export const COMMANDS: ReadonlyMap<string, CommandEntry> = new Map(
  Object.entries(GROUPS).flatMap(([group, commands]) =>
    commands
      .flatMap((one) => (one === "verbs" ? verbsOf(group) : [one]))
      .map(([name, summary, load]) => [name, { group, summary, load, isFirst: FIRST.includes(name) }] as const),
  ),
);
