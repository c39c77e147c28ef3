import { flexibleExtract, matchesAsGsm8k, matchesWithoutPunctuation, strictMatch } from "../answers/lm-eval-filters.js";
import { parseDecimal, sameNumber } from "../answers/numbers.js";
import { type MgsmAnswerOptions, readMgsmAnswer } from "../answers/read-mgsm-answer.js";
import type { TaskDeclaration } from "./declare-task.js";
import { type Metric, type Prompt, type Task, textItems } from "./task.js";
import { dataError, type LocatedRow, type OpenData, textField } from "./task-data.js";

export type NumberReader = Pick<Task, "metrics" | "read" | "score">;

/** A strict and a flexible reading of each answer, both judged in the same way. */
function numberReader(
  names: readonly [strict: string, flexible: string],
  read: (text: string) => { readonly strict: string | undefined; readonly flexible: string | undefined },
  isRight: (answer: string, gold: string) => boolean,
): NumberReader {
  return {
    metrics: (["strict", "flexible"] as const).map((name, i): Metric => {
      return { name, title: `exact match, ${names[i]}`, of: name, by: "mean", scale: "share" };
    }),
    read(_, output) {
      if (typeof output !== "string") return {};
      return Object.fromEntries(Object.entries(read(output)).filter(([, answer]) => answer !== undefined));
    },
    async score({ gold }, { strict, flexible }) {
      const verdict = (answer: unknown) => (typeof answer === "string" && isRight(answer, gold) ? 1 : 0);
      return { strict: verdict(strict), flexible: verdict(flexible) };
    },
  };
}

/** The number that is announced last, and the last number, both read as in MGSM. */
export function mgsmReader(language: string, options: MgsmAnswerOptions): NumberReader {
  return numberReader(["strict", "flexible"], (text) => readMgsmAnswer(text, language, options), sameNumber);
}

/** lm-eval's default, `max_gen_toks`. */
export const LM_EVAL_TOKENS = 256;

/** The stops of lm-eval's declarations. @param question what a question begins with */
export const lmEvalStops = (question: string): string[] => [question, "</s>", "<|im_end|>"];

/**
 * The filters and metrics of lm-eval.
 * @param strict pattern of `strict-match`; without one, the whole text is the strict answer (`remove_whitespace`)
 */
export function lmEvalReader(strict: string | undefined, compares: "gsm8k" | "without punctuation"): NumberReader {
  const pattern = strict === undefined ? undefined : new RegExp(strict);
  return numberReader(
    [pattern ? "strict-match" : "remove_whitespace", "flexible-extract"],
    (text) => ({ strict: pattern ? strictMatch(text, pattern) : text.trim(), flexible: flexibleExtract(text) }),
    compares === "gsm8k" ? matchesAsGsm8k : matchesWithoutPunctuation,
  );
}

export interface Problem {
  readonly question: string;
  /** In canonical decimal form. */
  readonly answer: string;
}

export interface NumberTask<E>
  extends Pick<TaskDeclaration, "name" | "title" | "published" | "benchmark" | "answersIn"> {
  readonly reader: NumberReader;
  readonly shots: number;
  readonly stop: readonly string[];
  readonly maxNewTokens: number;
  problems(data: OpenData): Promise<readonly Problem[]>;
  examples(data: OpenData): Promise<readonly E[]>;
  /** The function that makes the prompt of a question, after these examples. */
  prompter(examples: readonly E[]): (question: string) => Prompt;
}

export function declareNumberTask<E>(task: NumberTask<E>): TaskDeclaration {
  const { reader, shots, stop, maxNewTokens, problems, examples, prompter, ...named } = task;
  return {
    ...named,
    ...reader,
    async load(data) {
      const asked = await problems(data);
      const solved = shots === 0 ? [] : await examples(data);
      if (solved.length < shots) {
        throw dataError(`${named.name} has ${solved.length} solved examples here, too few for ${shots} shots`);
      }
      const ask = prompter(solved.slice(0, shots));
      const prompts = asked.map(({ question, answer: gold }) => ({ prompt: ask(question), gold }));
      return { items: textItems(prompts, { stop, maxNewTokens }) };
    },
  };
}

/** Prompts of text. @param ask what a problem is asked with @param examples with their answers */
export function textPrompter(ask: (question: string) => string, examples: readonly string[]) {
  const shared = examples.map((example) => `${example}\n\n`).join("");
  return (question: string): Prompt => ({ form: "text", shared, own: ask(question) });
}

/** A problem of a row whose answer must be a number. @param number takes the number out of the field */
export function problemOf(located: LocatedRow, field: string, number = (text: string): string => text): Problem {
  const written = textField(located, field);
  const answer = parseDecimal(number(written));
  if (answer === undefined) {
    throw dataError(`${located.where}: the answer ${JSON.stringify(written)} is not a number`, { field });
  }
  return { question: textField(located, "question"), answer };
}
