// Data of smollm2.yaml: Spanish text from Debian's packages, and word problems of one step in English and in Spanish.
//
//   apt-get download debian-handbook installation-guide-amd64 sword-text-sparv
//   for file in *.deb; do dpkg -x $file debian; done
//   node data.js debian
//
// Writes spanish.jsonl, problems.jsonl (English, for training), english.jsonl and spanish-problems.jsonl (for tests).

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { inflateSync } from "node:zlib";

const SEED = 1;
const TRAINING_PROBLEMS = 6000;
const TEST_PROBLEMS = 600;
const PASSAGE_CHARACTERS = 1200;

const [debian = "debian"] = process.argv.slice(2);
const random = generator(SEED);

const documents = join(debian, "usr/share/doc");
const scripture = join(debian, "usr/share/sword/modules/texts/ztext/spaRV1909eb");
const passages = [
  ...pagesIn(join(documents, "debian-handbook/html/es-ES")),
  ...pagesIn(join(documents, "installation-guide-amd64/es")),
  ...["ot.bzz", "nt.bzz"].map((name) => booksOf(join(scripture, name))),
].flatMap(cut);
writeRows(
  "spanish.jsonl",
  shuffled(passages).map((text) => ({ text })),
);

const NAMES = ["Ana", "Marta", "Lucas", "Elena", "Pablo", "Sara", "Diego", "Laura", "Mario", "Clara", "Hugo", "Julia"];

/**
 * English and Spanish nouns: plural.
 *
 * @type {readonly (readonly [english: string, spanish: string])[]}
 */
const THINGS = [
  ["apples", "manzanas"],
  ["oranges", "naranjas"],
  ["books", "libros"],
  ["pencils", "lápices"],
  ["coins", "monedas"],
  ["stamps", "sellos"],
  ["flowers", "flores"],
  ["cards", "cartas"],
  ["eggs", "huevos"],
  ["stones", "piedras"],
  ["candles", "velas"],
  ["buttons", "botones"],
];

// {A} has, {a} and {b} are numbers, a > b, and {t} is a thing. The Spanish sentences say the same as the English ones.
/** @typedef {"+" | "-" | "*" | "/"} Operation */
/** @type {Record<Operation, readonly (readonly [english: string, spanish: string])[]>} */
const TEMPLATES = {
  "+": [
    [
      "{A} has {a} {t} and buys {b} more. How many {t} does {A} have now?",
      "{A} tiene {a} {t} y compra {b} más. ¿Cuántos {t} tiene {A} ahora?",
    ],
    [
      "{A} found {a} {t} in the morning and {b} in the afternoon. How many {t} did {A} find in total?",
      "{A} encontró {a} {t} por la mañana y {b} por la tarde. ¿Cuántos {t} encontró {A} en total?",
    ],
    [
      "There are {a} {t} on the table. {A} puts {b} more {t} there. How many {t} are on the table?",
      "Hay {a} {t} en la mesa. {A} pone allí {b} {t} más. ¿Cuántos {t} hay en la mesa?",
    ],
    [
      "{A} had {a} {t}. A friend gave {A} {b} {t}. How many {t} does {A} have?",
      "{A} tenía {a} {t}. Un amigo le dio {b} {t} a {A}. ¿Cuántos {t} tiene {A}?",
    ],
    [
      "{A} has {a} {t}, and {B} has {b}. How many {t} do they have together?",
      "{A} tiene {a} {t} y {B} tiene {b}. ¿Cuántos {t} tienen los dos juntos?",
    ],
    [
      "A box held {a} {t}. {A} added {b}. How many {t} are in the box?",
      "Una caja contenía {a} {t}. {A} añadió {b}. ¿Cuántos {t} hay en la caja?",
    ],
  ],
  "-": [
    [
      "{A} has {a} {t} and sells {b} of them. How many {t} does {A} have now?",
      "{A} tiene {a} {t} y vende {b}. ¿Cuántos {t} tiene {A} ahora?",
    ],
    ["{A} had {a} {t} and lost {b}. How many {t} are left?", "{A} tenía {a} {t} y perdió {b}. ¿Cuántos {t} le quedan?"],
    [
      "There were {a} {t} on the table. {A} took {b} of them away. How many {t} are on the table?",
      "Había {a} {t} en la mesa. {A} se llevó {b}. ¿Cuántos {t} hay en la mesa?",
    ],
    [
      "{A} has {a} {t} and gives {b} of them to {B}. How many {t} does {A} keep?",
      "{A} tiene {a} {t} y le regala {b} a {B}. ¿Cuántos {t} conserva {A}?",
    ],
    [
      "{A} has {a} {t}, and {B} has {b}. How many more {t} does {A} have than {B}?",
      "{A} tiene {a} {t} y {B} tiene {b}. ¿Cuántos {t} más que {B} tiene {A}?",
    ],
    [
      "Of {a} {t}, {b} broke. How many {t} are still whole?",
      "De {a} {t}, {b} se rompieron. ¿Cuántos {t} siguen enteros?",
    ],
  ],
  "*": [
    [
      "{A} has {b} boxes. Each box holds {a} {t}. How many {t} does {A} have?",
      "{A} tiene {b} cajas. Cada caja contiene {a} {t}. ¿Cuántos {t} tiene {A}?",
    ],
    [
      "{b} children bring {a} {t} each. How many {t} do they bring in total?",
      "{b} niños traen {a} {t} cada uno. ¿Cuántos {t} traen en total?",
    ],
    [
      "{A} buys {a} {t} every day. How many {t} does {A} buy in {b} days?",
      "{A} compra {a} {t} cada día. ¿Cuántos {t} compra {A} en {b} días?",
    ],
    [
      "There are {b} rows with {a} {t} in every row. How many {t} are there?",
      "Hay {b} filas con {a} {t} en cada fila. ¿Cuántos {t} hay?",
    ],
    [
      "{A} fills {b} bags with {a} {t} each. How many {t} are in the bags?",
      "{A} llena {b} bolsas con {a} {t} cada una. ¿Cuántos {t} hay en las bolsas?",
    ],
    [
      "{A} has {a} {t}. {B} has {b} times as many. How many {t} does {B} have?",
      "{A} tiene {a} {t}. {B} tiene {b} veces más. ¿Cuántos {t} tiene {B}?",
    ],
  ],
  "/": [
    [
      "{A} shares {a} {t} equally among {b} friends. How many {t} does each friend get?",
      "{A} reparte {a} {t} a partes iguales entre {b} amigos. ¿Cuántos {t} recibe cada amigo?",
    ],
    [
      "{A} puts {a} {t} into {b} boxes, the same number into each. How many {t} are in each box?",
      "{A} pone {a} {t} en {b} cajas, el mismo número en cada una. ¿Cuántos {t} hay en cada caja?",
    ],
    [
      "{A} uses {a} {t} in {b} days, the same number every day. How many {t} does {A} use each day?",
      "{A} usa {a} {t} en {b} días, el mismo número cada día. ¿Cuántos {t} usa {A} al día?",
    ],
    [
      "{a} {t} are divided into {b} equal groups. How many {t} are in each group?",
      "Se dividen {a} {t} en {b} grupos iguales. ¿Cuántos {t} hay en cada grupo?",
    ],
    [
      "{A} arranges {a} {t} in {b} equal rows. How many {t} are in each row?",
      "{A} ordena {a} {t} en {b} filas iguales. ¿Cuántos {t} hay en cada fila?",
    ],
    [
      "{A} has {a} {t}, which is {b} times as many as {B} has. How many {t} does {B} have?",
      "{A} tiene {a} {t}, {b} veces más que {B}. ¿Cuántos {t} tiene {B}?",
    ],
  ],
};

/** @type {Record<Operation, (a: number, b: number) => number>} */
const RESULTS = { "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b };
const OPERATIONS = /** @type {Operation[]} */ (Object.keys(RESULTS));

/** @type {Set<string>} */
const seen = new Set();
const problems = Array.from({ length: TRAINING_PROBLEMS + TEST_PROBLEMS }, newProblem);
const training = problems.slice(0, TRAINING_PROBLEMS);
const tests = problems.slice(TRAINING_PROBLEMS);
/** @param {string} question */
const asked = (question) => `Question: ${question}\nAnswer:`;
writeRows(
  "problems.jsonl",
  training.map(({ english, options, answer }) => ({ prompt: asked(english), response: ` ${options[answer]}` })),
);
for (const [name, language] of /** @type {const} */ ([
  ["english.jsonl", "english"],
  ["spanish-problems.jsonl", "spanish"],
])) {
  writeRows(
    name,
    tests.map((problem) => ({
      ...problem,
      question: problem[language],
      result: problem.options[problem.answer]?.split("= ")[1],
    })),
  );
}

/** A problem that no other has: its four equations have the four operations of the same numbers. */
function newProblem() {
  for (;;) {
    const operation = pick(OPERATIONS);
    const [english, spanish] = pick(TEMPLATES[operation]);
    const [thing, cosa] = pick(THINGS);
    const [first, second] = shuffled(NAMES);
    const b = 2 + Math.floor(8 * random());
    const a = b * (2 + Math.floor(8 * random()));
    const fill = (/** @type {string} */ text, /** @type {string} */ noun) => {
      /** @type {Record<string, string | number | undefined>} */
      const values = { A: first, B: second, a, b, t: noun };
      return agreeing(text, noun).replace(/\{(\w)\}/g, (_, field) => String(values[field]));
    };
    const problem = { english: fill(english, thing), spanish: fill(spanish, cosa), operation };
    if (seen.has(problem.english)) continue;
    seen.add(problem.english);
    const operations = shuffled(OPERATIONS);
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
 * Paragraphs of the HTML pages in a folder, without programs and menus.
 *
 * @param {string} folder
 */
function pagesIn(folder) {
  const pages = readdirSync(folder).filter((name) => name.endsWith(".html") || name.endsWith(".html.es"));
  return pages.sort().map((name) => {
    const html = readFileSync(join(folder, name), "utf8").replace(/<(script|style|pre)[\s\S]*?<\/\1>/g, " ");
    const paragraphs = [...html.matchAll(/<p[\s>][\s\S]*?<\/p>|<div class="para">[\s\S]*?<\/div>/g)];
    return paragraphs
      .map(([paragraph]) => plain(paragraph))
      .filter((text) => text.length > 80)
      .join("\n\n");
  });
}

/**
 * The text of a compressed module of the SWORD project: zlib streams, whose places are in a table of 12 bytes each.
 *
 * @param {string} path
 */
function booksOf(path) {
  const [data, table] = [readFileSync(path), readFileSync(path.replace(/z$/, "s"))];
  const books = Array.from({ length: table.length / 12 }, (_, index) => {
    const [offset, size] = [table.readUInt32LE(12 * index), table.readUInt32LE(12 * index + 4)];
    return size === 0 ? "" : inflateSync(data.subarray(offset, offset + size)).toString("utf8");
  });
  if (books.join("").length < 100_000) throw new Error(`${basename(path)} is no SWORD module with a block per book`);
  return plain(books.join("\n"));
}

/** @param {string} html */
function plain(html) {
  /** @type {Record<string, string>} */
  const named = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: " " };
  return html
    .replace(/<[^>]*>/g, " ")
    .replace(/&#(\d+);/g, (_, code) => String.fromCodePoint(Number(code)))
    .replace(/&(\w+);/g, (whole, name) => named[name] ?? whole)
    .replace(/[^\S\n]+/g, " ")
    .replace(/ (?=[.,;:?!)])/g, "")
    .trim();
}

/**
 * Passages of about PASSAGE_CHARACTERS, cut after sentences.
 *
 * @param {string} text
 */
function cut(text) {
  /** @type {string[]} */
  const found = [];
  let passage = "";
  for (const sentence of text.split(/(?<=[.!?])\s+/)) {
    passage += `${passage === "" ? "" : " "}${sentence.trim()}`;
    if (passage.length < PASSAGE_CHARACTERS) continue;
    found.push(passage);
    passage = "";
  }
  return passage.length > 200 ? [...found, passage] : found;
}

/** @param {string} name @param {readonly object[]} rows */
function writeRows(name, rows) {
  writeFileSync(name, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  console.log(`${name}: ${rows.length} rows`);
}

/** @template T @param {readonly T[]} list */
function pick(list) {
  return /** @type {T} */ (list[Math.floor(random() * list.length)]);
}

/** @template T @param {readonly T[]} list */
function shuffled(list) {
  const left = [...list];
  return list.map(() => /** @type {T} */ (left.splice(Math.floor(random() * left.length), 1)[0]));
}

/**
 * Numbers from 0 to 1: mulberry32.
 *
 * @param {number} seed
 */
function generator(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
