// Word problems of one step in English, Spanish and Swahili, by templates. data.js in smollm2/ and in gemma/ write them.

import { writeFileSync } from "node:fs";

/** @typedef {"+" | "-" | "*" | "/"} Operation */
/** @typedef {"english" | "spanish" | "swahili"} Language */
/** @typedef {readonly [english: string, spanish: string, swahili: string]} Words */
/** @typedef {{ english: string, operation: Operation, options: string[], answer: number } & Partial<Record<Language, string>>} Problem */

/** @type {readonly Language[]} */
const LANGUAGES = ["english", "spanish", "swahili"];

const NAMES = ["Ana", "Marta", "Lucas", "Elena", "Pablo", "Sara", "Diego", "Laura", "Mario", "Clara", "Hugo", "Julia"];

/**
 * Plural nouns.
 *
 * @type {readonly Words[]}
 */
const THINGS = [
  ["apples", "manzanas", "matufaha"],
  ["oranges", "naranjas", "machungwa"],
  ["books", "libros", "vitabu"],
  ["pencils", "lápices", "penseli"],
  ["coins", "monedas", "sarafu"],
  ["stamps", "sellos", "stempu"],
  ["flowers", "flores", "maua"],
  ["cards", "cartas", "kadi"],
  ["eggs", "huevos", "mayai"],
  ["stones", "piedras", "mawe"],
  ["candles", "velas", "mishumaa"],
  ["buttons", "botones", "vifungo"],
];

// {A} has, {a} and {b} are numbers, a > b, and {t} is a thing. All sentences of a template say the same. {ngapi} (how many), {s} (the
// subject of a verb) and {zima} (whole) agree with the Swahili noun.
/** @type {Record<Operation, readonly Words[]>} */
const TEMPLATES = {
  "+": [
    [
      "{A} has {a} {t} and buys {b} more. How many {t} does {A} have now?",
      "{A} tiene {a} {t} y compra {b} más. ¿Cuántos {t} tiene {A} ahora?",
      "{A} ana {t} {a} na ananunua {b} zaidi. Je, {A} ana {t} {ngapi} sasa?",
    ],
    [
      "{A} found {a} {t} in the morning and {b} in the afternoon. How many {t} did {A} find in total?",
      "{A} encontró {a} {t} por la mañana y {b} por la tarde. ¿Cuántos {t} encontró {A} en total?",
      "{A} alipata {t} {a} asubuhi na {b} alasiri. Je, {A} alipata {t} {ngapi} kwa jumla?",
    ],
    [
      "There are {a} {t} on the table. {A} puts {b} more {t} there. How many {t} are on the table?",
      "Hay {a} {t} en la mesa. {A} pone allí {b} {t} más. ¿Cuántos {t} hay en la mesa?",
      "Kuna {t} {a} mezani. {A} anaweka {t} {b} zaidi hapo. Je, kuna {t} {ngapi} mezani?",
    ],
    [
      "{A} had {a} {t}. A friend gave {A} {b} {t}. How many {t} does {A} have?",
      "{A} tenía {a} {t}. Un amigo le dio {b} {t} a {A}. ¿Cuántos {t} tiene {A}?",
      "{A} alikuwa na {t} {a}. Rafiki alimpa {A} {t} {b}. Je, {A} ana {t} {ngapi}?",
    ],
    [
      "{A} has {a} {t}, and {B} has {b}. How many {t} do they have together?",
      "{A} tiene {a} {t} y {B} tiene {b}. ¿Cuántos {t} tienen los dos juntos?",
      "{A} ana {t} {a}, na {B} ana {b}. Je, wote wawili wana {t} {ngapi} pamoja?",
    ],
    [
      "A box held {a} {t}. {A} added {b}. How many {t} are in the box?",
      "Una caja contenía {a} {t}. {A} añadió {b}. ¿Cuántos {t} hay en la caja?",
      "Sanduku lilikuwa na {t} {a}. {A} aliongeza {b}. Je, kuna {t} {ngapi} katika sanduku?",
    ],
  ],
  "-": [
    [
      "{A} has {a} {t} and sells {b} of them. How many {t} does {A} have now?",
      "{A} tiene {a} {t} y vende {b}. ¿Cuántos {t} tiene {A} ahora?",
      "{A} ana {t} {a} na anauza {b}. Je, {A} ana {t} {ngapi} sasa?",
    ],
    [
      "{A} had {a} {t} and lost {b}. How many {t} are left?",
      "{A} tenía {a} {t} y perdió {b}. ¿Cuántos {t} le quedan?",
      "{A} alikuwa na {t} {a} na alipoteza {b}. Je, {s}mebaki {t} {ngapi}?",
    ],
    [
      "There were {a} {t} on the table. {A} took {b} of them away. How many {t} are on the table?",
      "Había {a} {t} en la mesa. {A} se llevó {b}. ¿Cuántos {t} hay en la mesa?",
      "Kulikuwa na {t} {a} mezani. {A} aliondoa {b}. Je, kuna {t} {ngapi} mezani?",
    ],
    [
      "{A} has {a} {t} and gives {b} of them to {B}. How many {t} does {A} keep?",
      "{A} tiene {a} {t} y le regala {b} a {B}. ¿Cuántos {t} conserva {A}?",
      "{A} ana {t} {a} na anampa {B} {b}. Je, {A} anabaki na {t} {ngapi}?",
    ],
    [
      "{A} has {a} {t}, and {B} has {b}. How many more {t} does {A} have than {B}?",
      "{A} tiene {a} {t} y {B} tiene {b}. ¿Cuántos {t} más que {B} tiene {A}?",
      "{A} ana {t} {a}, na {B} ana {b}. Je, {A} ana {t} {ngapi} zaidi ya {B}?",
    ],
    [
      "Of {a} {t}, {b} broke. How many {t} are still whole?",
      "De {a} {t}, {b} se rompieron. ¿Cuántos {t} siguen enteros?",
      "Kati ya {t} {a}, {b} {s}livunjika. Je, {t} {ngapi} bado ni {zima}?",
    ],
  ],
  "*": [
    [
      "{A} has {b} boxes. Each box holds {a} {t}. How many {t} does {A} have?",
      "{A} tiene {b} cajas. Cada caja contiene {a} {t}. ¿Cuántos {t} tiene {A}?",
      "{A} ana masanduku {b}. Kila sanduku lina {t} {a}. Je, {A} ana {t} {ngapi}?",
    ],
    [
      "{b} children bring {a} {t} each. How many {t} do they bring in total?",
      "{b} niños traen {a} {t} cada uno. ¿Cuántos {t} traen en total?",
      "Watoto {b} wanaleta {t} {a} kila mmoja. Je, wanaleta {t} {ngapi} kwa jumla?",
    ],
    [
      "{A} buys {a} {t} every day. How many {t} does {A} buy in {b} days?",
      "{A} compra {a} {t} cada día. ¿Cuántos {t} compra {A} en {b} días?",
      "{A} ananunua {t} {a} kila siku. Je, {A} ananunua {t} {ngapi} kwa siku {b}?",
    ],
    [
      "There are {b} rows with {a} {t} in every row. How many {t} are there?",
      "Hay {b} filas con {a} {t} en cada fila. ¿Cuántos {t} hay?",
      "Kuna safu {b}, na kila safu ina {t} {a}. Je, kuna {t} {ngapi}?",
    ],
    [
      "{A} fills {b} bags with {a} {t} each. How many {t} are in the bags?",
      "{A} llena {b} bolsas con {a} {t} cada una. ¿Cuántos {t} hay en las bolsas?",
      "{A} anajaza mifuko {b} kwa {t} {a} kila mmoja. Je, kuna {t} {ngapi} katika mifuko?",
    ],
    [
      "{A} has {a} {t}. {B} has {b} times as many. How many {t} does {B} have?",
      "{A} tiene {a} {t}. {B} tiene {b} veces más. ¿Cuántos {t} tiene {B}?",
      "{A} ana {t} {a}. {B} ana mara {b} zaidi. Je, {B} ana {t} {ngapi}?",
    ],
  ],
  "/": [
    [
      "{A} shares {a} {t} equally among {b} friends. How many {t} does each friend get?",
      "{A} reparte {a} {t} a partes iguales entre {b} amigos. ¿Cuántos {t} recibe cada amigo?",
      "{A} anagawa {t} {a} sawasawa kwa marafiki {b}. Je, kila rafiki anapata {t} {ngapi}?",
    ],
    [
      "{A} puts {a} {t} into {b} boxes, the same number into each. How many {t} are in each box?",
      "{A} pone {a} {t} en {b} cajas, el mismo número en cada una. ¿Cuántos {t} hay en cada caja?",
      "{A} anaweka {t} {a} katika masanduku {b}, idadi sawa katika kila sanduku. Je, kuna {t} {ngapi} katika kila sanduku?",
    ],
    [
      "{A} uses {a} {t} in {b} days, the same number every day. How many {t} does {A} use each day?",
      "{A} usa {a} {t} en {b} días, el mismo número cada día. ¿Cuántos {t} usa {A} al día?",
      "{A} anatumia {t} {a} kwa siku {b}, idadi sawa kila siku. Je, {A} anatumia {t} {ngapi} kila siku?",
    ],
    [
      "{a} {t} are divided into {b} equal groups. How many {t} are in each group?",
      "Se dividen {a} {t} en {b} grupos iguales. ¿Cuántos {t} hay en cada grupo?",
      "Tunagawa {t} {a} katika vikundi {b} sawa. Je, kuna {t} {ngapi} katika kila kikundi?",
    ],
    [
      "{A} arranges {a} {t} in {b} equal rows. How many {t} are in each row?",
      "{A} ordena {a} {t} en {b} filas iguales. ¿Cuántos {t} hay en cada fila?",
      "{A} anapanga {t} {a} katika safu {b} sawa. Je, kuna {t} {ngapi} katika kila safu?",
    ],
    [
      "{A} has {a} {t}, which is {b} times as many as {B} has. How many {t} does {B} have?",
      "{A} tiene {a} {t}, {b} veces más que {B}. ¿Cuántos {t} tiene {B}?",
      "{A} ana {t} {a}, mara {b} zaidi ya {B}. Je, {B} ana {t} {ngapi}?",
    ],
  ],
};

/** @type {Record<Operation, (a: number, b: number) => number>} */
const RESULTS = { "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b };
const OPERATIONS = /** @type {Operation[]} */ (Object.keys(RESULTS));

/** @param {string} question */
const asked = (question) => `Question: ${question}\nAnswer:`;

/**
 * Writes problems.jsonl (English, for training) and a file of test problems for each language, english.jsonl and
 * LANGUAGE-problems.jsonl. No two problems are equal.
 *
 * @param {{ training: number, tests: number, languages: readonly Language[], random: () => number }} settings
 */
export function writeProblems({ training, tests, languages, random }) {
  /** @type {Set<string>} */
  const seen = new Set();
  const problems = Array.from({ length: training + tests }, () => newProblem(languages, seen, random));
  writeRows(
    "problems.jsonl",
    problems.slice(0, training).map(({ english, options, answer }) => ({
      prompt: asked(english),
      response: ` ${options[answer]}`,
    })),
  );
  for (const language of languages) {
    writeRows(
      language === "english" ? "english.jsonl" : `${language}-problems.jsonl`,
      problems.slice(training).map((problem) => ({
        ...problem,
        question: problem[language],
        result: problem.options[problem.answer]?.split("= ")[1],
      })),
    );
  }
}

/**
 * A problem that is not in `seen`: its four equations have the four operations of the same numbers.
 *
 * @param {readonly Language[]} languages @param {Set<string>} seen @param {() => number} random
 * @returns {Problem}
 */
function newProblem(languages, seen, random) {
  for (;;) {
    const operation = pick(OPERATIONS, random);
    const template = pick(TEMPLATES[operation], random);
    const thing = pick(THINGS, random);
    const [first, second] = shuffled(NAMES, random);
    const b = 2 + Math.floor(8 * random());
    const a = b * (2 + Math.floor(8 * random()));
    const fill = (/** @type {Language} */ language) => {
      const at = LANGUAGES.indexOf(language);
      const noun = thing[at] ?? "";
      const agreement = language === "swahili" ? concords(noun) : {};
      /** @type {Record<string, string | number | undefined>} */
      const values = { A: first, B: second, a, b, t: noun, ...agreement };
      const text = language === "spanish" ? agreeing(template[at] ?? "", noun) : (template[at] ?? "");
      return text.replace(/\{(\w+)\}/g, (_, field) => String(values[field]));
    };
    const texts = Object.fromEntries(languages.map((language) => [language, fill(language)]));
    const problem = { english: fill("english"), ...texts, operation };
    if (seen.has(problem.english)) continue;
    seen.add(problem.english);
    const operations = shuffled(OPERATIONS, random);
    return {
      ...problem,
      options: operations.map((sign) => `${a} ${sign} ${b} = ${RESULTS[sign](a, b)}`),
      answer: operations.indexOf(operation),
    };
  }
}

/**
 * Spanish articles and adjectives agree with nouns in -as, flores, cartas and the like.
 *
 * @param {string} text @param {string} noun
 */
function agreeing(text, noun) {
  const isFeminine = /as$|^flores$/.test(noun);
  return isFeminine ? text.replace("Cuántos", "Cuántas").replace("enteros", "enteras") : text;
}

/**
 * What agrees with a Swahili noun, by its class: ma-, vi-, mi-, otherwise n-, whose plurals look like singulars.
 *
 * @param {string} noun
 */
function concords(noun) {
  if (/^ma/.test(noun)) return { ngapi: "mangapi", s: "ya", zima: "mazima" };
  if (/^vi/.test(noun)) return { ngapi: "vingapi", s: "vi", zima: "vizima" };
  if (/^mi/.test(noun)) return { ngapi: "mingapi", s: "i", zima: "mizima" };
  return { ngapi: "ngapi", s: "zi", zima: "nzima" };
}

/** @param {string} name @param {readonly object[]} rows */
export function writeRows(name, rows) {
  writeFileSync(name, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  console.log(`${name}: ${rows.length} rows`);
}

/** @template T @param {readonly T[]} list @param {() => number} random */
function pick(list, random) {
  return /** @type {T} */ (list[Math.floor(random() * list.length)]);
}

/** @template T @param {readonly T[]} list @param {() => number} random */
export function shuffled(list, random) {
  const left = [...list];
  return list.map(() => /** @type {T} */ (left.splice(Math.floor(random() * left.length), 1)[0]));
}

/**
 * Numbers from 0 to 1: mulberry32.
 *
 * @param {number} seed
 */
export function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
