// Writes what docs/ has from the program itself: npm run docs. The tables of fields and the JSON Schemas come from what checks
// the files, the page of commands and the manual page from their help. Tests compare.

import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { stringify } from "yaml";
import { synonymRows } from "#command-line";
import { taskFields, taskJsonSchema } from "#evaluate/tasks";
import { planFields, planJsonSchema } from "#experiment";
import { FAMILIES } from "#families";
import { describeKnown, WRITERS } from "#formats/quantised";
import { methodReferences, outputReferences, recipeJsonSchema } from "#merge";
import { MERGEKIT_FLAGS } from "#mergekit-flags";
import { runFields, runJsonSchema } from "#train";
import { dataFields } from "#train/data";
import { verbFields } from "#verbs";
import { loadVerbs } from "#verbs/all";

/** @param {string} name */
const path = (name) => fileURLToPath(new URL(name, import.meta.url));

/** @param {readonly ReturnType<typeof runFields>[number][]} fields */
function table(fields) {
  const rows = fields.map(({ name, type, required, default: value, unset = "", description }) => {
    const fallback = required ? "required" : value === undefined ? unset : `\`${JSON.stringify(value)}\``;
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
    // Folded: the page has dozens of methods, and a phone shows little at a time.
    "<details><summary>Example and fields</summary>",
    `\`\`\`yaml\n${stringify(example).trimEnd()}\n\`\`\``,
    table(fields),
    ...(entryFields.length > 0
      ? ["An entry of the list is a source, or a mapping of `model` and", table(entryFields)]
      : []),
    "</details>",
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

/** @param {string} name */
const fixture = (name) => JSON.parse(readFileSync(path(`../test/fixtures/${name}`), "utf8"));

/** What a verb takes. @param {import("#verbs").Verb} verb */
export const verbSection = (verb) => `### ${verb.name}\n\n${table(verbFields(verb))}`;

/** The families that the engine runs, and what their cases in test/fixtures found. */
function families() {
  const differences = fixture("decoders/differences.json");
  const converted = fixture("gguf/converted.json");
  /** Of a model, and of its text part. @param {{ model_type?: string, text_config?: { model_type?: string } }} config */
  const typesOf = (config) => [config.text_config?.model_type, config.model_type].filter((type) => type !== undefined);
  /** @type {{ configs: Record<string, { model_type?: string }> }[]} */
  const census = fixture("census.json");
  const merged = new Set(census.flatMap(({ configs }) => Object.values(configs).flatMap(typesOf)));
  /** Cases by `model_type`. @type {Record<string, string[]>} */
  const cases = {};
  for (const name of Object.keys(differences)) {
    const [type = ""] = typesOf(fixture(`decoders/${name}/config.json`));
    cases[type] = [...(cases[type] ?? []), name];
  }
  const runnable = FAMILIES.filter(({ traits }) => traits);
  /** How files of a name in llama.cpp are read. */
  const readings = new Map();
  for (const { llamaCpp } of FAMILIES) {
    if (llamaCpp?.read && !readings.has(llamaCpp.name)) readings.set(llamaCpp.name, llamaCpp.read);
  }
  const rows = runnable.map(({ name, modelTypes, runs, llamaCpp, reference }) => {
    const own = modelTypes.flatMap((type) => cases[type] ?? []);
    const largest = (/** @type {string} */ of) =>
      own.length === 0 ? "" : Math.max(...own.map((one) => differences[one][of])).toExponential(0);
    return [
      name,
      modelTypes.map((type) => `\`${type}\``).join(", "),
      modelTypes.some((type) => merged.has(type)) ? "yes" : "",
      runs === false ? "no" : "yes",
      llamaCpp
        ? [llamaCpp, llamaCpp.other?.graph].flatMap((graph) => (graph ? [`\`${graph.name}\``] : [])).join(", ")
        : "no",
      readAs(name, llamaCpp?.read ?? readings.get(llamaCpp?.name ?? "")),
      own.length || "",
      largest("logits"),
      largest("gradients"),
      own.filter((one) => converted[one]).length || "",
      linesOf(name),
      reference,
    ];
  });
  const head = [
    ["family", "`model_type`", "merged", "run, trained", "GGUF", "read"],
    ["cases", "logits", "gradients", "as converted", "lines", "reference"],
  ].flat();
  return [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

/** What writers of quantised checkpoints may say in their settings, by their pages. */
function writers() {
  return WRITERS.map(({ names, reads, keys }) => {
    const groups = Object.entries(keys).filter(([key]) => key !== "quant_method");
    const free = groups.filter(([, known]) => known.is === "any").map(([key]) => `\`${key}\``);
    const rows = groups
      .filter(([, known]) => known.is !== "any")
      .map(([key, known]) => `| \`${key}\` | ${describeKnown(known).replaceAll("|", "\\|")} |`);
    return [
      `### ${names.map((name) => `\`${name}\``).join(", ")}\n\nReads ${reads}.`,
      ...(rows.length > 0 ? [["| key | values |", "| --- | --- |", ...rows].join("\n")] : []),
      `Keys that do not change what stored weights mean: ${free.join(", ")}.`,
    ].join("\n\n");
  }).join("\n\n");
}

/** The flags of mergekit's programs, and what they are here. */
function mergekitFlags() {
  const rows = MERGEKIT_FLAGS.map(({ flags, here, refused = [] }) => {
    const refusal = refused.map((flag) => `; \`${flag}\` is refused`).join("");
    return `| ${flags.map((flag) => `\`${flag}\``).join(", ")} | ${here}${refusal} |`;
  });
  return ["| flag of mergekit | here |", "| --- | --- |", ...rows].join("\n");
}

/** As what files of a family come back. @param {string} name @param {{ className: string } | undefined} reading */
function readAs(name, reading) {
  const family = reading && FAMILIES.find(({ reference }) => reference?.endsWith(` ${reading.className}`));
  return family ? (family.name === name ? "yes" : `as ${family.name}`) : "no";
}

const PAGES_OF_FAMILIES = readdirSync(path("../src/families")).flatMap((file) =>
  file.endsWith(".ts") ? [readFileSync(path(`../src/families/${file}`), "utf8")] : [],
);

/** Lines of a family's entry in its page. @param {string} name */
function linesOf(name) {
  for (const page of PAGES_OF_FAMILIES) {
    const [, after] = page.split(`\n    name: "${name}",`);
    const [rest] = after?.split("\n  },") ?? [];
    if (rest !== undefined) return rest.split("\n").length + 2;
  }
  return "";
}

const verbs = await loadVerbs();

/** What is generated, by its name in the marks around it: `<!-- generated: run -->` to `<!-- end: run -->`. */
const GENERATED = {
  methods,
  families,
  writers,
  "mergekit flags": mergekitFlags,
  verbs: () => verbs.flatMap((verb) => (verb.file ? [] : [verbSection(verb)])).join("\n\n"),
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

export const PAGES = ["coming-from-mergekit.md", "families.md", "fields.md", "methods.md"];

/** Words of other programs, and what they are here. */
function synonyms() {
  const rows = synonymRows().map(([word, meaning]) => `| \`${word}\` | ${meaning} |`);
  const lead =
    "These commands, flags and values of other programs are taken, or answered with the sentence. Case does not count.";
  return ["## Words of other programs", lead, ["| word | here |", "| --- | --- |", ...rows].join("\n")].join("\n\n");
}

/** What the program prints. @param {string[]} args */
const printed = (args) => execFileSync(process.execPath, [path("../dist/cli/main.js"), ...args], { encoding: "utf8" });

/**
 * The page of all commands, and the manual page: the help of each command, as it is printed.
 * @param {(args: string[]) => string | Promise<string>} run what the program prints with these arguments
 */
export async function commandPages(run = printed) {
  /** @param {string[]} command */
  const helpOf = async (...command) =>
    // The number of cores is that of this machine.
    (await run([...command, "--help"])).replace(/, \d+ here\)/g, ")");
  const overview = await helpOf();
  const names = [...overview.matchAll(/^ {2}([a-z]+)(?: \*)? {2,}\S/gm)].flatMap(([, name]) =>
    name === "help" ? [] : (name ?? []),
  );
  const helps = [];
  for (const name of names) helps.push({ name, help: (await helpOf(name)).trimEnd() });
  const page = helps.map(({ name, help }) => `## ${name}\n\n\`\`\`text\n${help}\n\`\`\``);
  /** @param {string} text */
  const verbatim = (text) =>
    `.nf\n${text
      .replaceAll("\\", "\\e")
      .replace(/^([.'])/gm, "\\&$1")
      .replaceAll("-", "\\-")}\n.fi`;
  return [
    {
      file: "commands.md",
      text: `# Commands\n\nThe help of every command, as \`layergraft COMMAND --help\` prints it.\n\n${page.join("\n\n")}\n\n${synonyms()}\n`,
    },
    {
      file: "layergraft.1",
      text: [
        '.TH LAYERGRAFT 1 "" "layergraft" "User Commands"',
        ".SH NAME\nlayergraft \\- merge fine\\-tuned language models",
        `.SH SYNOPSIS\n.B layergraft\n.I command\n.RI [ options ]`,
        `.SH DESCRIPTION\n${verbatim(overview.trimEnd())}`,
        ...helps.map(({ name, help }) => `.SH ${name.toUpperCase()}\n${verbatim(help)}`),
        "",
      ].join("\n"),
    },
  ];
}

/** CITATION.cff with the version, its date and the address of the repository. @param {string} citation */
export function renewedCitation(citation) {
  const { version, repository } = JSON.parse(readFileSync(path("../package.json"), "utf8"));
  const changelog = readFileSync(path("../CHANGELOG.md"), "utf8");
  const date = changelog.split(`## ${version} - `)[1]?.slice(0, "2026-01-01".length);
  const fields = [
    `version: ${version}`,
    ...(date === undefined ? [] : [`date-released: "${date}"`]),
    `repository-code: ${repository.url.replace(/^git\+|\.git$/g, "")}`,
  ];
  return citation.replace(/^license: .*\n((version|date-released|repository-code): .*\n)*/m, (match) =>
    [match.split("\n")[0], ...fields, ""].join("\n"),
  );
}

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
  for (const { file, text } of [...schemas(), ...(await commandPages())]) writeFileSync(path(file), text);
  writeFileSync(path("../CITATION.cff"), renewedCitation(readFileSync(path("../CITATION.cff"), "utf8")));
}
