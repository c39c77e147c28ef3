// The exact match of a model of the miniature on word problems, in Swahili or English: greedy answers, last number.
import type { Engine } from "../../engine/index.js";
import { readMgsmAnswer } from "../../evaluate/index.js";
import type { Language } from "./lexicon.js";
import { answerOf, type Problem, tellProblem } from "./problems.js";
import { speakerOf } from "./sentences.js";

/** Longer than any solution: two lines of arithmetic and a sentence. */
export const MOST_TOKENS = 40;
/** What stands after a problem that is to be solved. */
export const ASKED = "[solve] :";
/** Prompts answered at once; models so small are bound by what a pass costs, not by its arithmetic. */
const BATCH = 128;

/** What a model said to a problem. */
export interface Answered {
  readonly problem: string;
  readonly answer: string;
  readonly gold: number;
  readonly isRight: boolean;
}

/** Asks a model for the answers of problems. */
export async function answerProblems(
  engine: Engine,
  problems: readonly Problem[],
  language: Language,
  options: { readonly signal?: AbortSignal | undefined } = {},
): Promise<Answered[]> {
  const tokenizer = await engine.tokenizer();
  const texts = problems.map((problem) => tellProblem(problem, speakerOf(language)));
  const prompts = texts.map((text) => [tokenizer.bos ?? 0, ...tokenizer.encode(`${text} ${ASKED}`)]);
  const { signal } = options;
  const answers = await engine.generate(prompts, {
    ...{ maxNewTokens: MOST_TOKENS, batch: BATCH },
    ...(signal ? { signal } : {}),
  });
  return problems.map((problem, i) => {
    const answer = answers[i]?.text ?? "";
    const gold = answerOf(problem);
    // The chain of thought is arithmetic in any language, so its last number is the answer.
    const read = readMgsmAnswer(answer, "en").flexible;
    return { problem: texts[i] ?? "", answer, gold, isRight: read !== undefined && Number(read) === gold };
  });
}

/** Share of right answers, in percent. */
export function exactMatch(answers: readonly Pick<Answered, "isRight">[]): number {
  return (100 * answers.filter(({ isRight }) => isRight).length) / answers.length;
}
