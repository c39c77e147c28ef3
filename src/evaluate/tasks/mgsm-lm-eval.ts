// MGSM as lm-evaluation-harness asks and reads it, its slips included: another answer prefix in Japanese, Chinese and
// Russian, an English phrase in Bengali, and examples that lose the first character of unspaced scripts.
import { findLanguage } from "../../core/index.js";
import type { MgsmLanguage } from "../answers/mgsm-announcements.js";
import type { TaskDeclaration } from "./declare-task.js";
import { MGSM_EXEMPLARS, type MgsmEdition, mgsmTask, readMgsmExemplars } from "./mgsm-data.js";
import { MGSM_WORDS } from "./mgsm-language.js";
import { declareNumberTask, LM_EVAL_TOKENS, lmEvalReader, lmEvalStops } from "./number-task.js";
import type { Protocol } from "./protocol.js";

interface LmEvalProtocol extends Protocol {
  readonly kind: "direct" | "native" | "english";
}

const declared = (kind: LmEvalProtocol["kind"], folder: string, version: number, what: string): LmEvalProtocol => ({
  name: `lm-eval/mgsm-${folder.replace("_", "-")}`,
  version,
  summary: `As in lm-evaluation-harness: ${what}; shots are the first exemplars, which it draws at random.`,
  reference: `lm-evaluation-harness 0.4.13, tasks/mgsm/${folder}, version ${version}.0`,
  shots: { default: 0, most: MGSM_EXEMPLARS },
  kind,
});

export const LM_EVAL_MGSM: readonly LmEvalProtocol[] = [
  declared("native", "native_cot", 4, "steps in the language, its own filters"),
  declared("english", "en_cot", 3, "steps in English, questions and examples in the language"),
  declared("direct", "direct", 4, "the number alone"),
];

export const isLmEvalMgsm = (protocol: Protocol): protocol is LmEvalProtocol =>
  (LM_EVAL_MGSM as readonly Protocol[]).includes(protocol);

/** Prefixes of steps and answers that differ from those of the exemplars. Source: tasks/mgsm/utils.py. */
const STEPS: Partial<Record<MgsmLanguage, string>> = {
  ja: "ステップごとの答え:",
  ru: "Пошаговоерешение:",
  zh: "逐步解答:",
};
const DIRECT: Partial<Record<MgsmLanguage, string>> = { de: "Antwort:", es: "Respuesta:", fr: "Réponse :" };

const NUMBER = "(-?[0-9.,]+)";
const STRICT: Readonly<Record<MgsmLanguage, string>> = {
  bn: `The answer is ${NUMBER}`,
  de: `Die Antwort lautet ${NUMBER}`,
  en: `The answer is ${NUMBER}`,
  es: `La respuesta es ${NUMBER}`,
  fr: `La réponse est ${NUMBER}`,
  ja: `答えは${NUMBER}です。`,
  ru: `Ответ — ${NUMBER}`,
  sw: `Jibu ni ${NUMBER}`,
  te: `సమాధానం ${NUMBER}`,
  th: `คำตอบคือ ${NUMBER}`,
  zh: `答案是 ${NUMBER}。`,
};

export function declareLmEvalMgsm(
  { kind }: LmEvalProtocol,
  edition: MgsmEdition,
  language: MgsmLanguage,
  shots: number,
): TaskDeclaration {
  const words = MGSM_WORDS[language];
  const native = STEPS[language] ?? words.steps;
  const prefix = { native, english: MGSM_WORDS.en.steps, direct: DIRECT[language] ?? "Answer:" }[kind];
  const strict = { native: STRICT[language], english: STRICT.en, direct: undefined }[kind];
  // An example's answer begins after its own prefix and the space that lm-eval takes to be there.
  const skipped = [...native].length + 1;
  return declareNumberTask({
    ...mgsmTask(edition, language),
    shots,
    answersIn: kind === "direct" ? undefined : findLanguage(kind === "native" ? language : "en"),
    reader: lmEvalReader(strict === undefined ? undefined : new RegExp(strict), "without punctuation"),
    ask: (question) => `${words.question} ${question}\n${prefix}`,
    stop: lmEvalStops(words.question),
    maxNewTokens: LM_EVAL_TOKENS,
    examples: async (data) =>
      (await readMgsmExemplars(data, language)).map(({ question, answer, number }) => {
        const target = kind === "direct" ? number : ` ${[...answer].slice(skipped).join("")}`;
        return `${question}\n${prefix}${target}`;
      }),
  });
}
