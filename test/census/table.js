// Writes what docs/families.md says of merging, from the results of the census, and the frozen set that the default tests read.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { readRows } from "./rows.js";

const rows = readRows(process.argv[2]);
const COLUMNS = ["inspect", "swap", "transitions", "soup", "ties", "analyze", "stack"];
const VARIANTS = ["wrapper", "prediction", "experts", "lora", "heads"];
const MARKS = /** @type {Record<string, string>} */ ({
  works: "yes",
  refused: "refused",
  wrong: "**wrong**",
  unmade: "",
});

const made = rows.filter(({ outcomes }) => outcomes.soup);
const count = (/** @type {string} */ state, names = [...COLUMNS, ...VARIANTS]) =>
  made.reduce((sum, { outcomes }) => sum + names.filter((name) => outcomes[name]?.state === state).length, 0);

/** @param {string} text */
const plain = (text) =>
  text
    .replace(/\S*\/layergraft-census-\w+\/[^/ ]+\//g, "")
    .replace(/[|\n]+/g, " ")
    .replace(/\s+/g, " ");

const table = made.map(({ id: family, outcomes }) => {
  const cell = (/** @type {string} */ name) => MARKS[outcomes[name]?.state] ?? "";
  return `| \`${family}\` | ${[...COLUMNS, ...VARIANTS].map(cell).join(" | ")} |`;
});
/** Reasons, with the families and merges that have them. @type {Map<string, Map<string, string[]>>} */
const reasons = new Map();
for (const { id: family, outcomes } of made) {
  for (const name of [...COLUMNS, ...VARIANTS]) {
    const { state, details = [] } = outcomes[name] ?? {};
    if (state !== "refused" && state !== "wrong") continue;
    const reason = `${state}: ${plain(details.join("; ")).slice(0, 600)}`;
    const families = reasons.get(reason) ?? new Map();
    families.set(family, [...(families.get(family) ?? []), name]);
    reasons.set(reason, families);
  }
}
const explained = [...reasons].map(([reason, families]) => {
  const who = [...families].map(([family, names]) => `\`${family}\` (${names.join(", ")})`).join(", ");
  return `- ${who}: ${reason.replace(/([<>*_])/g, "\\$1")}`;
});
const unmade = rows
  .filter(({ made }) => !made)
  .map(
    ({ id, error }) =>
      `- \`${id}\`: ${plain(error)
        .slice(0, 160)
        .replace(/([<>*_])/g, "\\$1")}`,
  );

const page = fileURLToPath(new URL("../../docs/families.md", import.meta.url));
const [before] = readFileSync(page, "utf8").split("## What merges\n");

writeFileSync(
  page,
  `${before}## What merges

Merging needs no entry for a family. The census checks that: it makes tiny random checkpoints of every
text-generation family of transformers 5.24, merges them, and compares the results with PyTorch.
\`npm run census\` runs it again and needs a Python with torch, transformers 5 and peft in \`LAYERGRAFT_PYTHON\`;
\`node test/census/table.js\` writes this part. [Head to head](head-to-head.md) has mergekit and fusion_bench on the same models.

| | |
| --- | --- |
| families merged | ${made.length} |
| merges and analyses that work | ${count("works")} |
| refused, with the reason | ${count("refused")} |
| wrong | ${count("wrong")} |
| families that the census could not make | ${unmade.length} |

A merge works if no tensor is lost or added, copies are equal bit for bit, averages are PyTorch's, the result opens in transformers
without missing or unexpected keys that the sources do not have, and the logits of a soup equal those of PyTorch's own average
within 1e-5 of the largest. Logits are not compared where transformers opens no model twice alike: it draws Youtu's embedding again,
and DiffusionGemma draws noise. On 16 cores a run takes 82 s.

| column | what is merged |
| --- | --- |
| inspect | layers and parameters |
| swap, transitions | two experts; the language expert gives the first and the last layer, and in the second one more is averaged |
| soup, ties, analyze | two experts, and their base |
| stack | layers 0 to 2 of one expert, then 1 to 3 of the other |
| wrapper | a multimodal model and a fine-tune of its text part alone |
| prediction | models with a block that predicts further tokens |
| experts | all experts of a layer in one tensor, and one by one |
| lora | a LoRA adapter on all linear layers, and a whole model |
| heads | a head tied to the embedding, and a head of its own |

An empty cell has no such case.

| family | ${[...COLUMNS, ...VARIANTS].join(" | ")} |
| --- | ${[...COLUMNS, ...VARIANTS].map(() => "---").join(" | ")} |
${table.join("\n")}

## What is refused or wrong, and why

${explained.join("\n") || "Nothing."}

## Families that the census could not make

${unmade.join("\n") || "None."}

All guides: [Documentation](README.md).
`,
);

/** Fields that say where the layers are. */
const READ =
  /^(model_type|num_hidden_layers|n_layers?|num_layers|is_encoder_decoder|num_nextn_predict_layers|tie_word_embeddings)$/;
/** @param {any} config @returns {any} */
const briefly = (config) =>
  Object.fromEntries(
    Object.entries(config).flatMap(([key, value]) => {
      if (key === "text_config" || key === "llm_config") return [[key, briefly(value)]];
      return READ.test(key) ? [[key, value]] : [];
    }),
  );
/**
 * Tensors without most of those that repeat: experts after the second, and blocks of towers beyond one tensor each.
 * @param {[string, number | null, string][]} tensors
 */
function fewer(tensors) {
  /** By list of a tower, the tensor that shows its length. @type {Map<string, string>} */
  const shown = new Map();
  const seen = new Set();
  return tensors.filter(([name, layer, part]) => {
    if (/experts\.[2-9]/.test(name)) return false;
    if (layer !== null || !/\.\d+\./.test(name)) return true;
    const [, list = "", rest = ""] = /^(.*?)\.\d+\.(.*)$/.exec(name) ?? [];
    if (!shown.has(list)) shown.set(list, rest);
    const pattern = name.replace(/\.\d+(?=\.)/g, ".N");
    if (shown.get(list) === rest) return true;
    if (part === "vision" || seen.has(pattern)) return false;
    seen.add(pattern);
    return true;
  });
}

/** Families by the place of their tensors. @type {Map<string, any>} */
const groups = new Map();
for (const { id: family, made, tensors } of rows) {
  if (!tensors) continue;
  const config = briefly(made.config);
  /** By layer and part, "4 q_proj"; names with `*` for the layer. @type {Record<string, Set<string>>} */
  const places = {};
  for (const [name, layer, part] of fewer(tensors)) {
    const pattern = layer === null ? name : name.replace(new RegExp(`(?<=\\.|^)${layer}(?=\\.)`), "*");
    places[pattern] = (places[pattern] ?? new Set()).add(layer === null ? part : `${layer} ${part}`);
  }
  const written = Object.fromEntries(
    Object.entries(places).map(([pattern, found]) => {
      const parts = new Set([...found].map((one) => one.replace(/^\d+ /, "")));
      const layers = [...found].map((one) => /^\d+/.exec(one)?.[0] ?? "").join("");
      return [pattern, `${layers} ${[...parts].join()}`.trim()];
    }),
  );
  const key = JSON.stringify(written);
  const group = groups.get(key) ?? { configs: {}, places: written };
  group.configs[family] = config;
  groups.set(key, group);
}
const frozen = [...groups.values()].map((group) => JSON.stringify(group));
writeFileSync(fileURLToPath(new URL("../fixtures/census.json", import.meta.url)), `[\n${frozen.join(",\n")}\n]\n`);
console.log(`${made.length} families, ${frozen.length} groups`);
