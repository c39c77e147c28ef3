// Writes the tables of fields and the JSON Schemas of docs/ from the schemas themselves: npm run docs. A test compares.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { stringify } from "yaml";
import { taskFields, taskJsonSchema } from "#evaluate";
import { planFields, planJsonSchema } from "#experiment";
import { methodReferences, outputReferences, recipeJsonSchema } from "#merge";
import { dataFields, runFields, runJsonSchema } from "#train";

/** @param {string} name */
const path = (name) => fileURLToPath(new URL(name, import.meta.url));

/** @param {readonly ReturnType<typeof runFields>[number][]} fields */
function table(fields) {
  const rows = fields.map(({ name, type, required, default: value, description }) => {
    const fallback = required ? "required" : value === undefined ? "" : `\`${JSON.stringify(value)}\``;
    return `| \`${name}\` | ${type} | ${fallback} | ${description.replaceAll("|", "\\|")} |`;
  });
  return ["| field | type | default | meaning |", "| --- | --- | --- | --- |", ...rows].join("\n");
}

/** @param {import("#merge").MethodReference} method */
function section({ name, title, summary, formula, reference, fields, entryFields, example }) {
  return [
    `## ${name}`,
    `**${title}.** ${summary}`,
    `\`\`\`text\n${formula}\n\`\`\``,
    `${reference}.`,
    `\`\`\`yaml\n${stringify(example).trimEnd()}\n\`\`\``,
    table(fields),
    ...(entryFields.length > 0
      ? ["An entry of the list is a source, or a mapping of `model` and", table(entryFields)]
      : []),
  ].join("\n\n");
}

function methods() {
  const all = methodReferences();
  const index = all.map(({ name, summary }) => `| [\`${name}\`](#${name}) | ${summary} |`).join("\n");
  return [
    `| method | what it does |\n| --- | --- |\n${index}`,
    ...all.map(section),
    `## Output\n\nSet these fields at the top level of a recipe, with any method. Command-line options override them.\n\n${table(outputReferences())}`,
  ].join("\n\n");
}

/** What is generated, by its name in the marks around it: `<!-- generated: run -->` to `<!-- end: run -->`. */
const GENERATED = {
  methods,
  run: () => table(runFields()),
  data: () =>
    dataFields()
      .map(({ title, fields }) => `### ${title}\n\n${table(fields)}`)
      .join("\n\n"),
  plan: () => table(planFields()),
  task: () => table(taskFields()),
};

/** A page with its generated parts renewed. @param {string} page */
export function renewed(page) {
  return Object.entries(GENERATED).reduce((text, [name, write]) => {
    const [begin, end] = [`<!-- generated: ${name} -->`, `<!-- end: ${name} -->`];
    const [head = "", rest] = text.split(begin);
    return rest === undefined ? text : `${head}${begin}\n\n${write()}\n\n${end}${rest.split(end)[1] ?? ""}`;
  }, page);
}

export const PAGES = ["fields.md", "methods.md"];

/** The JSON Schemas, by the files that hold them. */
export function schemas() {
  const all = { recipe: recipeJsonSchema(), run: runJsonSchema(), plan: planJsonSchema(), task: taskJsonSchema() };
  return Object.entries(all).map(([name, json]) => ({
    file: `${name}.schema.json`,
    text: `${JSON.stringify(json, null, 1)}\n`,
  }));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  for (const page of PAGES) writeFileSync(path(page), renewed(readFileSync(path(page), "utf8")));
  for (const { file, text } of schemas()) writeFileSync(path(file), text);
}
