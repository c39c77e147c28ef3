// Which language a task is in, told by its name alone, and the same task in another. Where a name does not tell, nothing
// is guessed: a table then has no row.
import { PAPER_LANGUAGES, type PaperLanguage } from "../published.js";

/** The code at the end of a task's name: `sw` of `mgsm_sw` and of `own/problems_sw.yaml`. */
const CODE = /(?<=_)[a-z]{2,3}(?=(?:\.ya?ml)?$)/;

/** The language of a task, as far as its name says. */
export function languageOfTask(task: string): string | undefined {
  return CODE.exec(task)?.[0];
}

/**
 * A task in a language: `mgsm_sw` of `mgsm_{language}`, of `mgsm_sw` and of `mgsm_en`.
 * @returns undefined where the name does not say which language it is in
 */
export function taskIn(task: string, language: string): string | undefined {
  if (task.includes("{language}")) return task.replaceAll("{language}", language);
  const own = languageOfTask(task);
  if (own === undefined) return undefined;
  return own === language ? task : task.replace(CODE, language);
}

/** Whether the paper's numbers of MGSM in a language are of this task. */
export function isMgsm(task: string | undefined, language: string): boolean {
  return task === `mgsm_${language}`;
}

/** A language for people: by its name where the paper has it, else its code. */
export function languageName(code: string): string {
  return Object.hasOwn(PAPER_LANGUAGES, code) ? PAPER_LANGUAGES[code as PaperLanguage] : code;
}
