// Text that a model writes to itself before its answer, between tags such as <think> and </think>.

/** Opening and closing tags by model: those that chat templates of published models use. */
const TAGS: readonly (readonly [open: string, close: string])[] = [
  ["<think>", "</think>"], // DeepSeek R1, Qwen3 and most others
  ["<thinking>", "</thinking>"],
  ["<thought>", "</thought>"],
  ["<reasoning>", "</reasoning>"],
  ["<seed:think>", "</seed:think>"], // Seed-OSS
  ["[THINK]", "[/THINK]"], // Magistral
  ["◁think▷", "◁/think▷"], // Kimi-VL
  ["<|START_THINKING|>", "<|END_THINKING|>"], // Command A Reasoning
  ["<|channel|>analysis<|message|>", "<|channel|>final<|message|>"], // gpt-oss
];

export interface SplitAnswer {
  /** The text without reasoning and tags. */
  readonly answer: string;
  /** Undefined without tags. */
  readonly reasoning: string | undefined;
}

/**
 * Splits reasoning from the answer. A closing tag without an opening one ends reasoning that began in the prompt, as some
 * chat templates write the opening tag. Reasoning that never ends has no answer.
 */
export function splitReasoning(text: string): SplitAnswer {
  const tags = TAGS.find(([open, close]) => text.includes(open) || text.includes(close));
  if (!tags) return { answer: text, reasoning: undefined };
  const [open, close] = tags;
  const [answers, reasons]: [string[], string[]] = [[], []];
  let isReasoning = true;
  const first = text.indexOf(open);
  const end = text.indexOf(close);
  if (first >= 0 && (end < 0 || first < end)) isReasoning = false;
  for (let at = 0; at <= text.length; ) {
    const tag = isReasoning ? close : open;
    const found = text.indexOf(tag, at);
    (isReasoning ? reasons : answers).push(text.slice(at, found < 0 ? text.length : found));
    if (found < 0) break;
    at = found + tag.length;
    isReasoning = !isReasoning;
  }
  return { answer: answers.join(""), reasoning: reasons.join("\n") };
}

/** A server's answer whose reasoning came beside it, as one text. */
export function joinReasoning(reasoning: string, answer: string): string {
  return `<think>${reasoning}</think>${answer}`;
}
