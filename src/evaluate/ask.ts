// From items to a backend's answers: how an item becomes a request, and by which of the backend's abilities a choice is
// weighed. Reads and judges nothing.
import { LayergraftError } from "../core/index.js";
import { type Answer, type Backend, type Chosen, type Generated, isFault } from "./backends/index.js";
import type { ChooseItem, GenerateItem, Item, Output, Task } from "./tasks/index.js";

/** How an item was answered. `next token`: by the log-probabilities of the likeliest next tokens. */
export type AnsweredBy = "generation" | "log-likelihood" | "next token";

export interface ItemAnswer {
  readonly by: AnsweredBy;
  /** Undefined where there is no answer; `fault` says why. */
  readonly output: Output | undefined;
  readonly finish?: Generated["finish"];
  readonly fault?: string;
}

/** A text to ask with, and what groups it with others. */
interface Asked {
  readonly text: string;
  readonly prefix: string;
  readonly specialTokens: boolean;
}

/**
 * Checks that a backend can answer a task, before anything is asked.
 * @throws {LayergraftError} code `backend`, with the backend's reason
 */
export function checkAbilities(task: Task, items: readonly Item[], backend: Backend): void {
  const { loglikelihood, choose } = backend.incapacities;
  if (loglikelihood && choose && items.some(({ kind }) => kind === "choose")) {
    throw new LayergraftError(
      "backend",
      `${task.name} needs log-probabilities, which this server does not give. Of continuations: ${loglikelihood}. ` +
        `Of next tokens: ${choose}. Nothing is scored by chance; use another server, or the engine`,
    );
  }
  if (!backend.renderChat && items.some(({ prompt }) => prompt.form === "chat")) {
    throw new LayergraftError(
      "backend",
      `${task.name} asks chats, and the model's chat template is not known here; give the model's folder, or use a ` +
        "protocol without chat",
    );
  }
}

/**
 * Asks for all items.
 * @param onAnswer called once for each item, when its answer is there
 */
export async function askItems(
  task: Task,
  items: readonly Item[],
  backend: Backend,
  onAnswer: (index: number, answer: ItemAnswer) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  const asked = new Map<number, Asked>();
  for (const [index, item] of items.entries()) asked.set(index, await textOf(task, item, backend));
  const indicesOf = (kind: Item["kind"]): number[] => [...items.keys()].filter((index) => items[index]?.kind === kind);
  await generate(indicesOf("generate"), items, asked, backend, onAnswer, signal);
  await choose(indicesOf("choose"), items, asked, backend, onAnswer, signal);
}

async function textOf({ protocol }: Task, { prompt }: Item, backend: Backend): Promise<Asked> {
  if (prompt.form === "text") {
    return { text: prompt.shared + prompt.own, prefix: prompt.shared, specialTokens: protocol.specialTokens };
  }
  const text = (await backend.renderChat?.(prompt.messages)) ?? "";
  // A rendered chat has its special tokens in it.
  return { text, prefix: JSON.stringify(prompt.messages.slice(0, prompt.shared)), specialTokens: false };
}

async function generate(
  indices: readonly number[],
  items: readonly Item[],
  asked: ReadonlyMap<number, Asked>,
  backend: Backend,
  onAnswer: (index: number, answer: ItemAnswer) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (indices.length === 0) return;
  const requests = indices.map((index) => {
    const { stop, maxNewTokens } = items[index] as GenerateItem;
    const { text: prompt, prefix, specialTokens } = asked.get(index) as Asked;
    return { prompt, prefix, specialTokens, stop, maxNewTokens };
  });
  await backend.generate(requests, {
    signal,
    onResult: (i, answer) => {
      const by = "generation";
      if (isFault(answer)) onAnswer(indices[i] ?? 0, { by, output: undefined, fault: answer.fault });
      else onAnswer(indices[i] ?? 0, { by, output: answer.text, finish: answer.finish });
    },
  });
}

/**
 * Weighs choices. Where the choices are known to be single tokens, next-token log-probabilities are the same numbers as
 * log-likelihood and cost one request an item; what they cannot tell is asked as log-likelihood, all choices of the
 * item, so that numbers of two kinds are never compared.
 */
async function choose(
  indices: readonly number[],
  items: readonly Item[],
  asked: ReadonlyMap<number, Asked>,
  backend: Backend,
  onAnswer: (index: number, answer: ItemAnswer) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  if (indices.length === 0) return;
  const { loglikelihood, choose } = backend.incapacities;
  const canScore = loglikelihood === undefined;
  const isExact = backend.identity.backend === "engine";
  let left: readonly number[] = indices;
  if (choose === undefined && (backend.identity.bos === "tokenizer" || !canScore)) {
    const untold: number[] = [];
    const requests = indices.map((index) => {
      const { text: context, prefix, specialTokens } = asked.get(index) as Asked;
      return { context, prefix, specialTokens, choices: (items[index] as ChooseItem).choices };
    });
    await backend.choose(requests, {
      signal,
      onResult: (i, answer) => {
        const index = indices[i] ?? 0;
        const isTold = !isFault(answer) && answer.logprobs.every((logprob) => logprob !== null);
        if (!isTold && canScore && !isExact) untold.push(index);
        else onAnswer(index, answerOf(answer, isExact ? "log-likelihood" : "next token"));
      },
    });
    left = untold.sort((a, b) => a - b);
  }
  if (left.length > 0) await score(left, items, asked, backend, onAnswer, signal);
}

function answerOf(answer: Answer<Chosen>, by: AnsweredBy): ItemAnswer {
  if (isFault(answer)) return { by, output: undefined, fault: answer.fault };
  return { by, output: answer.logprobs };
}

async function score(
  indices: readonly number[],
  items: readonly Item[],
  asked: ReadonlyMap<number, Asked>,
  backend: Backend,
  onAnswer: (index: number, answer: ItemAnswer) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  const requests = indices.flatMap((index) => {
    const { text: context, prefix, specialTokens } = asked.get(index) as Asked;
    return (items[index] as ChooseItem).choices.map((continuation, choice) => ({
      index,
      choice,
      request: { context, continuation, prefix, specialTokens },
    }));
  });
  const open = new Map(indices.map((index) => [index, new Map<number, number>()]));
  const problems = new Map<number, string>();
  await backend.loglikelihood(
    requests.map(({ request }) => request),
    {
      signal,
      onResult: (i, answer) => {
        const { index = 0, choice = 0 } = requests[i] ?? {};
        const known = open.get(index);
        if (!known) return;
        if (isFault(answer)) problems.set(index, answer.fault);
        known.set(choice, isFault(answer) ? Number.NaN : answer.logprob);
        const { choices } = items[index] as ChooseItem;
        if (known.size < choices.length) return;
        const fault = problems.get(index);
        const by = "log-likelihood";
        if (fault !== undefined) onAnswer(index, { by, output: undefined, fault });
        else onAnswer(index, { by, output: choices.map((_, at) => known.get(at) ?? null) });
      },
    },
  );
}
