// The public face of evaluate/answers: reading numbers out of what models write.
export { MGSM_LANGUAGES, type MgsmLanguage } from "./languages.js";
export { isMgsmLanguage, type MgsmAnswer, type MgsmAnswerOptions, readMgsmAnswer } from "./mgsm.js";
export { parseDecimal, sameNumber } from "./numbers.js";
