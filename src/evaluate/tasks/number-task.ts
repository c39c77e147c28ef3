// What tasks share whose problems are answered by a number at the end of some text.
import type { Language } from "../../core/index.js";
import { flexibleExtract, matchesAsGsm8k, matchesWithoutPunctuation, strictMatch } from "../answers/lm-eval-filters.js";
import { parseDecimal, sameNumber } from "../answers/numbers.js";
import { type MgsmAnswerOptions, readMgsmAnswer } from "../answers/read-mgsm-answer.js";
import type { TaskDeclaration } from "./declare-task.js";
import { type Metric, type Task, textItems } from "./task.js";
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

/** Stops that lm-eval's declarations have after the one of the question. */
const LM_EVAL_STOPS = ["</s>", "<|im_end|>"];
/** lm-eval's default, `max_gen_toks`. */
export const LM_EVAL_TOKENS = 256;

export const lmEvalStops = (question: string): string[] => [question, ...LM_EVAL_STOPS];

/**
 * The filters and metrics of lm-eval.
 * @param strict pattern of `strict-match`; without one, the whole text is the strict answer (`remove_whitespace`)
 */
export function lmEvalReader(strict: RegExp | undefined, compares: "gsm8k" | "without punctuation"): NumberReader {
  return numberReader(
    [strict ? "strict-match" : "remove_whitespace", "flexible-extract"],
    (text) => ({ strict: strict ? strictMatch(text, strict) : text.trim(), flexible: flexibleExtract(text) }),
    compares === "gsm8k" ? matchesAsGsm8k : matchesWithoutPunctuation,
  );
}

export interface Problem {
  readonly question: string;
  /** In canonical decimal form. */
  readonly answer: string;
}

export interface NumberTask extends Pick<TaskDeclaration, "benchmark"> {
  readonly name: string;
  readonly title: string;
  readonly published: NonNullable<TaskDeclaration["published"]>;
  readonly answersIn: Language | undefined;
  readonly reader: NumberReader;
  readonly shots: number;
  /** What a problem is asked with. */
  readonly ask: (question: string) => string;
  readonly stop: readonly string[];
  readonly maxNewTokens: number;
  problems(data: OpenData): Promise<readonly Problem[]>;
  /** All solved examples: prompt and answer, without what separates them. */
  examples(data: OpenData): Promise<readonly string[]>;
}

export function declareNumberTask(task: NumberTask): TaskDeclaration {
  const { name, title, published, benchmark, answersIn, reader, shots, ask, stop, maxNewTokens } = task;
  return {
    name,
    title,
    published,
    benchmark,
    answersIn,
    ...reader,
    async load(data) {
      const problems = await task.problems(data);
      const examples = shots === 0 ? [] : await task.examples(data);
      if (examples.length < shots) {
        throw dataError(`${name} has ${examples.length} solved examples here, too few for ${shots} shots`);
      }
      const shared = examples
        .slice(0, shots)
        .map((example) => `${example}\n\n`)
        .join("");
      const asked = problems.map(({ question, answer: gold }) => {
        return { prompt: { form: "text" as const, shared, own: ask(question) }, gold };
      });
      return { items: textItems(asked, { stop, maxNewTokens }) };
    },
  };
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
