// Ready-made tokenizers on lines in many scripts, beside Hugging Face `tokenizers`: npm run tokenizers -- FOLDER LINES.json
// FOLDER holds NAME/tokenizer.json. lines.py writes LINES.json. LAYERGRAFT_PYTHON is a Python with tokenizers 0.23.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    expected: { type: "string" },
    only: { type: "string", default: "" },
    show: { type: "string", default: "0" },
  },
});
const [folder, linesFile] = positionals;
if (!folder || !linesFile) throw new Error("Pass a folder of tokenizers and a file of lines");
if (!existsSync(new URL("../../dist/index.js", import.meta.url))) throw new Error("build first: npm run build");
const { loadTokenizer } = await import("layergraft/engine");

// What the reference made is kept in `expected`, as it takes minutes.
const expected = values.expected ?? mkdtempSync(join(tmpdir(), "layergraft-tokenizers-"));
const reference = fileURLToPath(new URL("reference.py", import.meta.url));
const python = process.env.LAYERGRAFT_PYTHON ?? "python3";
if (spawnSync(python, [reference, folder, linesFile, expected], { stdio: "inherit" }).status !== 0) {
  throw new Error(`${python} does not run tokenizers`);
}

/** @type {string[]} */
const lines = JSON.parse(readFileSync(linesFile, "utf8"));
console.log("| tokenizer | tokens | lines | ids equal | texts equal |\n| --- | ---: | ---: | ---: | ---: |");
for (const name of readdirSync(folder).sort()) {
  if (!name.includes(values.only) || !existsSync(join(folder, name, "tokenizer.json"))) continue;
  const { ids, texts, error } = JSON.parse(readFileSync(join(expected, `${name}.json`), "utf8"));
  let [sameIds, sameTexts, tokens, shown] = [0, 0, 0, Number(values.show)];
  let refused = "";
  try {
    const tokenizer = await loadTokenizer(join(folder, name));
    if (error) throw new Error(`the reference refuses it (${error}), layergraft does not`);
    tokens = tokenizer.vocabularySize;
    for (const [i, line] of lines.entries()) {
      const own = tokenizer.encode(line, { specialTokens: true });
      const text = tokenizer.decode(ids[i]);
      const isSame = own.join() === ids[i].join();
      if (isSame) sameIds++;
      if (text === texts[i]) sameTexts++;
      if ((!isSame || text !== texts[i]) && shown-- > 0) console.log({ line, own, ids: ids[i], text, texts: texts[i] });
    }
  } catch (problem) {
    refused = problem instanceof Error ? problem.message : String(problem);
  }
  const result = refused ? `refused: ${refused} |` : `${sameIds} | ${sameTexts}`;
  console.log(`| ${name} | ${tokens} | ${lines.length} | ${result} |`);
}
