// The language of a task, by its name alone.
import { PAPER_LANGUAGES, type PaperLanguage } from "../published-scores.js";

/** The code at the end of a task's name: `sw` of `mgsm_sw` and of `own/problems_sw.yaml`. */
const CODE = /(?<=_)[a-z]{2,3}(?=(?:\.ya?ml)?$)/;

/**
 * A task in a language: `mgsm_sw` of `mgsm_{language}`, of `mgsm_sw` and of `mgsm_en`.
 * @returns undefined if the name does not end in a code
 */
export function taskIn(task: string, language: string): string | undefined {
  if (task.includes("{language}")) return task.replaceAll("{language}", language);
  const own = CODE.exec(task)?.[0];
  if (own === undefined) return undefined;
  return own === language ? task : task.replace(CODE, language);
}

/** Whether a task is MGSM in a language. */
export function isMgsm(task: string | undefined, language: string): boolean {
  return task === `mgsm_${language}`;
}

/** The name of a language of the paper; the code of another. */
export function languageName(code: string): string {
  return Object.hasOwn(PAPER_LANGUAGES, code) ? PAPER_LANGUAGES[code as PaperLanguage] : code;
}
