// Passages of text to train language experts: pages of Debian's packages, modules of the SWORD project, storybooks.

import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { inflateSync } from "node:zlib";

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
  if (books.join("").length < 100_000) throw new Error(`${basename(path)} is not a SWORD module with a block per book`);
  return plain(books.join("\n"));
}

/**
 * The stories in a folder of Global African Storybook whose licence is CC-BY, by name.
 *
 * @param {string} folder
 */
export function storiesIn(folder) {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .filter((text) => /^\* License: \[CC-BY\]$/m.test(text))
    .map((text) =>
      text
        .replace(/^(#.*|\* \w.*)$/gm, " ")
        .replace(/\s+/g, " ")
        .trim(),
    );
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
 * Passages of about so many characters, cut after sentences.
 *
 * @param {string} text @param {number} characters
 */
export function cut(text, characters) {
  /** @type {string[]} */
  const found = [];
  let passage = "";
  for (const sentence of text.split(/(?<=[.!?])\s+/)) {
    passage += `${passage === "" ? "" : " "}${sentence.trim()}`;
    if (passage.length < characters) continue;
    found.push(passage);
    passage = "";
  }
  return passage.length > characters / 6 ? [...found, passage] : found;
}

/**
 * Spanish texts from what `dpkg -x` made of debian-handbook, installation-guide-amd64 and sword-text-sparv.
 *
 * @param {string} debian
 */
export function spanishTexts(debian) {
  const documents = join(debian, "usr/share/doc");
  const scripture = join(debian, "usr/share/sword/modules/texts/ztext/spaRV1909eb");
  return [
    ...pagesIn(join(documents, "debian-handbook/html/es-ES")),
    ...pagesIn(join(documents, "installation-guide-amd64/es")),
    ...["ot.bzz", "nt.bzz"].map((name) => booksOf(join(scripture, name))),
  ];
}
