import { Random, RecipeError } from "../../kit/index.js";
import type { Item, Task } from "./task.js";

export interface AnswerSettings {
  /** Most new tokens. Default: the protocol's. */
  readonly maxNewTokens?: number | undefined;
  /** Divides the logits. Default: 0, which takes the most likely token. */
  readonly temperature?: number | undefined;
  /** Only the most likely tokens that together reach this probability. Default: 1. */
  readonly topP?: number | undefined;
  /** Only the k most likely tokens. Default: all. */
  readonly topK?: number | undefined;
  /** Answers to each item; its verdict is their mean. Default: 1. */
  readonly repeats?: number | undefined;
}

/** The settings in words, for the title of a protocol: `temperature 1, top-p 0.95, 10 repeats`. */
export function answerWords(settings: AnswerSettings = {}): string[] {
  const { maxNewTokens, temperature, topP, topK, repeats } = settings;
  return [
    ...(maxNewTokens === undefined ? [] : [`at most ${maxNewTokens === 1 ? "1 token" : `${maxNewTokens} tokens`}`]),
    ...(temperature === undefined || temperature === 0 ? [] : [`temperature ${temperature}`]),
    ...(topP === undefined ? [] : [`top-p ${topP}`]),
    ...(topK === undefined ? [] : [`top-k ${topK}`]),
    ...(repeats === undefined || repeats === 1 ? [] : [`${repeats} repeats`]),
  ];
}

/**
 * The task with answers drawn in this way.
 * @throws RecipeError for sampling settings without a temperature
 */
export function withAnswers(task: Task, given: AnswerSettings = {}): Task {
  const answers = Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as AnswerSettings;
  const { temperature = 0, maxNewTokens, topP, topK, repeats = 1 } = answers;
  if (temperature === 0 && (topP !== undefined || topK !== undefined || repeats > 1)) {
    throw RecipeError.at(
      { field: "temperature" },
      "top-p, top-k and repeats need a temperature above 0, as greedy answers are all the same; set one, such as 0.7",
    );
  }
  if (Object.keys(answers).length === 0) return task;
  return {
    ...task,
    answers,
    ...(task.asChat ? { asChat: withAnswers(task.asChat, answers) } : {}),
    async load(data, options) {
      const { items, notes } = await task.load(data, options);
      const withLength = items.map((item) =>
        item.kind === "generate" && maxNewTokens !== undefined ? { ...item, maxNewTokens } : item,
      );
      const isChosen = items.every(({ kind }) => kind === "choose");
      return {
        items: withLength,
        notes: isChosen ? [...notes, "choices are weighed, so settings of answers in text have no effect"] : notes,
      };
    },
  };
}

/** The items as they are asked: each as often as it is answered, each time with a seed of its own. */
export function repeatItems(items: readonly Item[], answers: AnswerSettings | undefined, seed: number): Item[] {
  const { temperature = 0, topP, topK, repeats = 1 } = answers ?? {};
  return items.flatMap((item) =>
    item.kind === "choose" || temperature === 0
      ? [item]
      : Array.from({ length: repeats }, (_, i) => {
          const own = Random.of(seed, `answer ${i} to ${item.id}`).next() >>> 1;
          return { ...item, sampling: { temperature, topP, topK, seed: own, repeat: i + 1 } };
        }),
  );
}
