export { badgeOf, sectionOf } from "./card-report.js";
export type { CardCheck, CardPlan } from "./check-card.js";
export { checkCard, hasCard, planCard } from "./open-check.js";
export { cardSentences, isTrue, planSentences } from "./sentences.js";
