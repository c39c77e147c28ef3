export { badgeOf, sectionOf } from "./card-report.js";
export { type CardCheck, type CardPlan, checkCard, planCard } from "./check-card.js";
export { hasCard } from "./read-card.js";
export { cardSentences, isTrue, planSentences } from "./sentences.js";
