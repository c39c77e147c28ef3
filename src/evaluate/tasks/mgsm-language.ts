// The words of MGSM prompts in its eleven languages.
import type { MgsmLanguage } from "../answers/mgsm-announcements.js";

export interface MgsmWords {
  readonly name: string;
  readonly question: string;
  /** Before an answer in steps. */
  readonly steps: string;
  /** Before an answer alone. */
  readonly direct: string;
  /** What a chat is asked after the problem. */
  readonly instruction: string;
}

// Prefixes of questions and steps: those of the exemplars of Shi et al. 2022 (arXiv 2210.03057), character by
// character. Chinese and Japanese have the full-width colon, and no space after it.
export const MGSM_WORDS: Readonly<Record<MgsmLanguage, MgsmWords>> = {
  bn: {
    name: "Bengali",
    question: "প্রশ্ন:",
    steps: "ধাপে ধাপে উত্তর:",
    direct: "উত্তর:",
    instruction: 'এই সমস্যাটি ধাপে ধাপে সমাধান করুন। শেষে লিখুন "উত্তর হল N।", যেখানে N হল সংখ্যাটি।',
  },
  de: {
    name: "German",
    question: "Frage:",
    steps: "Schritt-für-Schritt-Antwort:",
    direct: "Antwort:",
    instruction:
      "Löse diese Aufgabe Schritt für Schritt. Ende mit dem Satz „Die Antwort lautet N.“, wobei N die Zahl ist.",
  },
  en: {
    name: "English",
    question: "Question:",
    steps: "Step-by-Step Answer:",
    direct: "Answer:",
    instruction: 'Solve this problem step by step. End with the sentence "The answer is N.", where N is the number.',
  },
  es: {
    name: "Spanish",
    question: "Pregunta:",
    steps: "Respuesta paso a paso:",
    direct: "Respuesta:",
    instruction: "Resuelve este problema paso a paso. Termina con la frase «La respuesta es N.», donde N es el número.",
  },
  fr: {
    name: "French",
    question: "Question :",
    steps: "Réponse étape par étape :",
    direct: "Réponse :",
    instruction: "Résous ce problème étape par étape. Termine par la phrase « La réponse est N. », où N est le nombre.",
  },
  ja: {
    name: "Japanese",
    question: "問題：",
    steps: "ステップごとの答え：",
    direct: "答え：",
    instruction: "この問題を順を追って解いてください。最後は「答えはNです。」という文で終えてください。Nは数字です。",
  },
  ru: {
    name: "Russian",
    question: "Задача:",
    steps: "Пошаговое решение:",
    direct: "Ответ:",
    instruction: "Реши эту задачу пошагово. Закончи фразой «Ответ — N.», где N — число.",
  },
  sw: {
    name: "Swahili",
    question: "Swali:",
    steps: "Jibu la Hatua kwa Hatua:",
    direct: "Jibu:",
    instruction: 'Tatua swali hili hatua kwa hatua. Malizia kwa sentensi "Jibu ni N.", ambapo N ni namba.',
  },
  te: {
    name: "Telugu",
    question: "ప్రశ్న:",
    steps: "దశలవారీగా సమాధానం:",
    direct: "సమాధానం:",
    instruction: 'ఈ సమస్యను దశలవారీగా పరిష్కరించండి. చివర "సమాధానం N." అని రాయండి, ఇక్కడ N అంటే సంఖ్య.',
  },
  th: {
    name: "Thai",
    question: "โจทย์:",
    steps: "คำตอบทีละขั้นตอน:",
    direct: "คำตอบ:",
    instruction: 'แก้โจทย์นี้ทีละขั้นตอน และจบด้วยประโยค "คำตอบคือ N" โดย N คือตัวเลข',
  },
  zh: {
    name: "Chinese",
    question: "问题：",
    steps: "逐步解答：",
    direct: "答案：",
    instruction: "请逐步解答这道题，最后以“答案是 N。”结尾，其中 N 是数字。",
  },
};

/** A prefix before a text, with a space between them except after a full-width colon. */
export function prefixed(prefix: string, text: string): string {
  return prefix.endsWith("：") ? prefix + text : `${prefix} ${text}`;
}
