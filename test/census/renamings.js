// Writes how transformers renames tensors of each family in memory, from the results of the census.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Python } from "./python.js";
import { readRows } from "./rows.js";

const python = new Python(process.env.LAYERGRAFT_PYTHON ?? "python3");
/** Families by their rules. @type {Map<string, string[]>} */
const groups = new Map();
for (const { id, family, class: kind, tensors = [] } of readRows(process.argv[2])) {
  if (tensors.length === 0) continue;
  try {
    /** @type {{ type: string, renamings: [string, string][] }} */
    const { type, renamings } = await python.ask("names", { family, kind });
    const rules = renamings.map(([pattern, to]) => [pattern, to.replace(/\\(\d)/g, "$$$1")]);
    const used = new Set();
    for (let [name] of tensors) {
      for (const rule of rules) {
        const next = name.replace(new RegExp(rule[0] ?? ""), rule[1] ?? "");
        if (next !== name) used.add(rule);
        name = next;
      }
    }
    const key = JSON.stringify(rules.filter((rule) => used.has(rule)));
    if (used.size > 0) groups.set(key, [...new Set([...(groups.get(key) ?? []), type])]);
  } catch (error) {
    console.log(`${id}: ${error instanceof Error ? error.message : error}`);
  }
}
python.close();
const lines = [...groups].map(([rules, families]) => `{"families":${JSON.stringify(families)},"rules":${rules}}`);
const out = fileURLToPath(new URL("../../src/formats/checkpoint/renamings.json", import.meta.url));
writeFileSync(out, `[\n${lines.join(",\n")}\n]\n`);
console.log(`${groups.size} groups; ${out}`);
