// Data of plan.yaml: text in Swahili and in Spanish, and word problems of one step in English, Swahili and Spanish. README.md has the
// commands that get the sources.
//
//   node data.js asp-source debian
//
// Writes swahili.jsonl, spanish.jsonl, problems.jsonl (English, for training), and english.jsonl, swahili-problems.jsonl and
// spanish-problems.jsonl (for tests).

import { join } from "node:path";
import { cut, spanishTexts, storiesIn } from "../passages.js";
import { generator, shuffled, writeProblems, writeRows } from "../word-problems.js";

const SEED = 2;
/** About 120 tokens: two passages and more in a sequence. */
const PASSAGE_CHARACTERS = 350;

const [storybooks = "asp-source", debian = "debian"] = process.argv.slice(2);
const texts = {
  "swahili.jsonl": storiesIn(join(storybooks, "sw")),
  "spanish.jsonl": spanishTexts(debian),
};
for (const [name, wholes] of Object.entries(texts)) {
  const passages = wholes.flatMap((text) => cut(text, PASSAGE_CHARACTERS));
  writeRows(
    name,
    shuffled(passages, generator(SEED)).map((text) => ({ text })),
  );
}
writeProblems({ training: 6000, tests: 600, languages: ["english", "swahili", "spanish"], random: generator(SEED) });
