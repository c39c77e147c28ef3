import { LayergraftError } from "../kit/index.js";
import type { PromptTokenizer } from "../text/index.js";
import { type Backend, type Generated, isError } from "./backends/backend.js";
import type { ChooseItem, GenerateItem, Item, Output, Task } from "./tasks/open-tasks.js";

/** How an item was answered. `next token`: by the log-probabilities of the likeliest next tokens. */
export type AnsweredBy = "generation" | "log-likelihood" | "next token";

export interface ItemAnswer {
  readonly by: AnsweredBy;
  /** Undefined if there is no answer; `error` says why. */
  readonly output: Output | undefined;
  readonly finish?: Generated["finish"];
  readonly error?: string;
}

/** An item, its place among the items, and the fields of a request that asks for it. */
interface Asked<I extends Item> {
  readonly index: number;
  readonly item: I;
  readonly context: string;
  readonly common: { readonly prefix: string; readonly specialTokens: boolean };
}

/** Whom to ask, and who takes the answers. */
export interface Asking {
  readonly backend: Backend;
  /** Time that chat templates write. */
  readonly now: Date;
  /** Called once for each item, with its index, when its answer is there. */
  readonly onAnswer: (index: number, answer: ItemAnswer) => void;
  readonly signal: AbortSignal | undefined;
}

/**
 * Checks that a backend can answer a task, before anything is asked.
 * @throws LayergraftError code `backend`, with the backend's reason
 */
export function checkAbilities(task: Task, items: readonly Item[], backend: Backend): void {
  const { loglikelihood, choose } = backend.incapacities;
  if (loglikelihood && choose && items.some(({ kind }) => kind === "choose")) {
    throw new LayergraftError(
      "backend",
      `${task.name} needs log-probabilities, which this server does not give. Of continuations: ${loglikelihood}. ` +
        `Of next tokens: ${choose}. Use another server, or the engine`,
    );
  }
  if (!backend.renderChat && items.some(({ prompt }) => prompt.form === "chat")) {
    throw new LayergraftError(
      "backend",
      `${task.name} needs the model's chat template; name its folder, or ask without it: choose a protocol without chat, or remove chat from the task's file`,
      { option: "tokenizer" },
    );
  }
}

export async function askItems(task: Task, items: readonly Item[], asking: Asking): Promise<void> {
  const toGenerate: Asked<GenerateItem>[] = [];
  const toChoose: Asked<ChooseItem>[] = [];
  for (const [index, item] of items.entries()) {
    const asked = { index, ...(await requestOf(task, item, asking)) };
    if (item.kind === "generate") toGenerate.push({ ...asked, item });
    else toChoose.push({ ...asked, item });
  }
  if (toGenerate.length > 0) await generate(toGenerate, asking);
  if (toChoose.length > 0) await choose(toChoose, asking);
}

async function requestOf({ protocol }: Task, { prompt }: Item, { backend, now }: Asking) {
  if (prompt.form === "text") {
    const { specialTokens } = protocol;
    return { context: prompt.shared + prompt.own, common: { prefix: prompt.shared, specialTokens } };
  }
  const context = (await backend.renderChat?.(prompt.messages, now)) ?? "";
  // A rendered chat already has its special tokens.
  const prefix = JSON.stringify(prompt.messages.slice(0, prompt.shared));
  return { context, common: { prefix, specialTokens: false } };
}

async function generate(asked: readonly Asked<GenerateItem>[], { backend, onAnswer, signal }: Asking): Promise<void> {
  const requests = asked.map(({ context, common, item: { stop, maxNewTokens, sampling } }) => {
    return { prompt: context, ...common, stop, maxNewTokens, ...(sampling ? { sampling } : {}) };
  });
  await backend.generate(requests, {
    signal,
    onResult: (i, answer) => {
      const found = isError(answer) ? answer : { output: answer.text, finish: answer.finish };
      onAnswer(asked[i]?.index ?? 0, { by: "generation", output: undefined, ...found });
    },
  });
}

/**
 * Weighs choices. Where choices are known to be single tokens, next-token log-probabilities equal log-likelihood and cost
 * one request an item. If they lack a choice, all choices of the item are asked again as log-likelihood, so that numbers
 * of two kinds are never compared.
 */
async function choose(asked: readonly Asked<ChooseItem>[], asking: Asking): Promise<void> {
  const { backend, onAnswer, signal } = asking;
  const { incapacities, identity } = backend;
  const canScore = incapacities.loglikelihood === undefined;
  const isExact = identity.backend === "engine";
  if (incapacities.choose !== undefined || (identity.bos !== "tokenizer" && canScore)) {
    return score(asked, asking);
  }
  const unknown = new Set<number>();
  const by = isExact ? "log-likelihood" : "next token";
  await backend.choose(
    asked.map(({ context, common, item: { choices } }) => ({ context, ...common, choices })),
    {
      signal,
      onResult: (i, answer) => {
        const index = asked[i]?.index ?? 0;
        const isKnown = !isError(answer) && answer.logprobs.every((logprob) => logprob !== null);
        if (!isKnown && canScore && !isExact) unknown.add(index);
        else onAnswer(index, { by, output: undefined, ...(isError(answer) ? answer : { output: answer.logprobs }) });
      },
    },
  );
  const left = asked.filter(({ index }) => unknown.has(index));
  if (left.length > 0) await score(left, asking);
}

/** Asks for the log-likelihood of each choice. */
async function score(asked: readonly Asked<ChooseItem>[], { backend, onAnswer, signal }: Asking): Promise<void> {
  const requests = asked.flatMap(({ context, common, item }, i) =>
    item.choices.map((continuation, choice) => ({ i, choice, request: { context, continuation, ...common } })),
  );
  const known = asked.map(() => new Map<number, number>());
  const errors = new Map<number, string>();
  await backend.loglikelihood(
    requests.map(({ request }) => request),
    {
      signal,
      onResult: (at, answer) => {
        const { i = 0, choice = 0 } = requests[at] ?? {};
        const [logprobs, { index, item }] = [known[i], asked[i]] as [Map<number, number>, Asked<ChooseItem>];
        if (isError(answer)) errors.set(i, answer.error);
        logprobs.set(choice, isError(answer) ? Number.NaN : answer.logprob);
        if (logprobs.size < item.choices.length) return;
        const error = errors.get(i);
        const output = error === undefined ? item.choices.map((_, at) => logprobs.get(at) ?? null) : undefined;
        onAnswer(index, { by: "log-likelihood", output, ...(error === undefined ? {} : { error }) });
      },
    },
  );
}

/** Notes on the choices of a task's items, in sentences; none where the tokenizer has tokens for all. */
export function choiceNotes(
  items: readonly Pick<ChooseItem, "id" | "choices">[],
  tokenizer: Pick<PromptTokenizer, "encode" | "unknown">,
): string[] {
  const { unknown } = tokenizer;
  const known = new Map<string, readonly number[]>();
  const idsOf = (choice: string): readonly number[] => {
    const ids = known.get(choice) ?? tokenizer.encode(choice);
    known.set(choice, ids);
    return ids;
  };
  const alike = items.flatMap(({ id, choices }) => {
    const texts = choices.map((choice) => idsOf(choice).join(" "));
    const second = texts.findIndex((text, i) => texts.indexOf(text) < i);
    if (second < 0) return [];
    const [one, other] = [texts.indexOf(texts[second] ?? ""), second].map((i) => JSON.stringify(choices[i]?.trim()));
    return [`${one} and ${other} of item ${id}`];
  });
  const unclear = items.flatMap(({ id, choices }) => {
    const found = unknown === undefined ? undefined : choices.find((choice) => idsOf(choice).includes(unknown));
    return found === undefined ? [] : [`${JSON.stringify(found.trim())} of item ${id}`];
  });
  const share = ({ length }: readonly string[]) => `${length} of ${items.length} items`;
  return [
    ...(alike.length === 0
      ? []
      : [`choices with the same tokens in ${share(alike)}, such as ${alike[0]}; the model cannot tell them apart`]),
    ...(unclear.length === 0
      ? []
      : [`choices with unknown tokens in ${share(unclear)}, such as ${unclear[0]}; scores of such items mean little`]),
  ];
}
