// Runs small experiments in this process.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { heldOutProblems, solveProblem, tellProblem } from "../../examples/miniature/world/problems.js";
import { ENGLISH, SWAHILI } from "../../examples/miniature/world/sentences.js";
import { writeInitialModel } from "../../examples/miniature/world/untrained-model.js";
import type { Executor, ExecutorEvents, ReadyStep } from "../../src/experiment/execute/executor.js";
import { openExperiment, type RunExperimentOptions, runOpened } from "../../src/experiment/experiment.js";
import { runStepFolder } from "../../src/experiment/steps/run-step.js";

/** Writes the models base and language, training data problems.jsonl, and the task problems_sw.yaml, of six problems. */
export async function writeSmallWorld(root: string): Promise<void> {
  const size = { layers: 3, width: 16, heads: 2, feedForward: 32 };
  await writeInitialModel(join(root, "base"), 1, size);
  await writeInitialModel(join(root, "language"), 2, size);
  const { test } = heldOutProblems(0, { test: 6, development: 0 });
  const lines = (of: (problem: (typeof test)[number]) => object) =>
    test.map((one) => `${JSON.stringify(of(one))}\n`).join("");
  writeFileSync(
    join(root, "problems.jsonl"),
    lines((one) => ({ prompt: `${tellProblem(one, ENGLISH)} Solve:`, response: solveProblem(one) })),
  );
  writeFileSync(
    join(root, "items.jsonl"),
    lines((one) => ({ text: tellProblem(one, SWAHILI), answer: String(one.start) })),
  );
  const task = [
    "task: problems_sw",
    "data: items.jsonl",
    'prompt: "{text} Solve:"',
    "answer: generate",
    'gold: "{answer}"',
  ];
  writeFileSync(join(root, "problems_sw.yaml"), [...task, "max_new_tokens: 4", "read: number", ""].join("\n"));
}

/** Runs each step in this process, one at a time. */
class HereExecutor implements Executor {
  readonly ran: string[] = [];
  readonly #events: ExecutorEvents;
  #isBusy = false;

  constructor(events: ExecutorEvents) {
    this.#events = events;
  }
  fitting({ length }: readonly unknown[]): number {
    return this.#isBusy ? 0 : Math.min(1, length);
  }
  async start([step]: readonly ReadyStep[]): Promise<void> {
    if (!step) return;
    this.#isBusy = true;
    this.ran.push(step.label);
    await this.#events.onStarted(step.key, { kind: "local", host: "here", pid: process.pid });
    const finish = (outcome: { outcome: "done" } | { outcome: "failed"; reason: string }) => {
      this.#isBusy = false;
      this.#events.onFinished({ ...outcome, key: step.key, seconds: 1 });
    };
    runStepFolder(step.folder).then(
      () => finish({ outcome: "done" }),
      (error: Error) => finish({ outcome: "failed", reason: error.message }),
    );
  }
  async adopt(): Promise<ReadonlySet<string>> {
    return new Set();
  }
  async stop(): Promise<void> {}
  async close(): Promise<void> {}
}

/** Runs an experiment to its end. @returns also the labels of the steps that ran */
export async function runHere(plan: string, options: RunExperimentOptions = {}) {
  const experiment = await openExperiment(plan);
  let executor: HereExecutor | undefined;
  const summary = await runOpened(experiment, {
    ...options,
    executor: (events) => {
      executor = new HereExecutor(events);
      return executor;
    },
  });
  return { experiment, summary, ran: executor?.ran ?? [] };
}

/** Gives a model's folder a tokenizer of whole words, to which others are unknown; llama.cpp has none of the kind. */
export function writeWordTokenizer(folder: string): void {
  const vocab = Object.fromEntries(["<unk>", "<bos>", "<eos>", "asha"].map((word, id) => [word, id]));
  const model = { type: "WordLevel", vocab, unk_token: "<unk>" };
  const tokenizer = { version: "1.0", added_tokens: [], pre_tokenizer: { type: "WhitespaceSplit" }, model };
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer));
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ eos_token: "<eos>", unk_token: "<unk>" }));
}
