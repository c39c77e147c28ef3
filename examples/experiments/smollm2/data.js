// Data of smollm2.yaml: Spanish text from Debian's packages, and word problems of one step in English and in Spanish.
//
//   apt-get download debian-handbook installation-guide-amd64 sword-text-sparv
//   for file in *.deb; do dpkg -x $file debian; done
//   node data.js debian
//
// Writes spanish.jsonl, problems.jsonl (English, for training), english.jsonl and spanish-problems.jsonl (for tests).

import { cut, spanishTexts } from "../passages.js";
import { generator, shuffled, writeProblems, writeRows } from "../word-problems.js";

const [debian = "debian"] = process.argv.slice(2);
const random = generator(1);
const passages = spanishTexts(debian).flatMap((text) => cut(text, 1200));
writeRows(
  "spanish.jsonl",
  shuffled(passages, random).map((text) => ({ text })),
);
writeProblems({ training: 6000, tests: 600, languages: ["english", "spanish"], random });
