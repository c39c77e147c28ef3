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

/** MGSM's languages beside English. */
const MGSM = ["bn", "de", "es", "fr", "ja", "ru", "sw", "te", "th", "zh"];

/** Whether tasks are MGSM in all of its languages; with or without English, as the paper does not say. */
export function isWholeMgsm(tasks: readonly string[]): boolean {
  const others = tasks.filter((task) => !isMgsm(task, "en"));
  return others.length === MGSM.length && MGSM.every((language) => others.includes(`mgsm_${language}`));
}

/** The name of a language of the paper; the code of another. */
export function languageName(code: string): string {
  return Object.hasOwn(PAPER_LANGUAGES, code) ? PAPER_LANGUAGES[code as PaperLanguage] : code;
}
