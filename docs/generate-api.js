// Lists what the package exports, with the first sentence of each description, from its type declarations.
import { readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** @typedef {{ subpath: string, name: string, kind: string, summary: string }} ExportedName */

/** Every exported name: where it is imported from, what it is, and the first sentence of its description. */
export function exportedNames() {
  const { exports: subpaths } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  return Object.entries(/** @type {Record<string, { types?: string }>} */ (subpaths)).flatMap(([subpath, { types }]) =>
    types === undefined
      ? []
      : namesOf(join(ROOT, types)).map(({ name, file, original }) => {
          return { subpath: subpath.replace(".", "layergraft"), name, ...declarationOf(original, file) };
        }),
  );
}

/** Names that a module exports, each with the module and the name there that declare it. @param {string} file */
function namesOf(file) {
  const text = readFileSync(file, "utf8");
  /** @type {{ name: string, original: string, file: string }[]} */
  const names = [];
  for (const [, from = ""] of text.matchAll(/^export \* from "(\.[^"]+)";/gm))
    names.push(...namesOf(moduleOf(file, from)));
  for (const [, list = "", from] of text.matchAll(/^export (?:type )?\{([^}]*)\}(?: from "(\.[^"]+)")?;/gm)) {
    for (const entry of list.split(",")) {
      const [original = "", name = original] = entry
        .trim()
        .replace(/^type /, "")
        .split(" as ");
      if (name === "" || from === undefined) continue;
      names.push({ ...resolved(original, moduleOf(file, from)), name });
    }
  }
  for (const [, name = ""] of text.matchAll(
    /^export (?:declare )?(?:abstract )?(?:async )?(?:class|function|const|interface|type) (\w+)/gm,
  )) {
    if (!names.some((known) => known.name === name)) names.push({ name, original: name, file });
  }
  return names;
}

/** Follows a name through re-exports. @param {string} name @param {string} file */
function resolved(name, file) {
  const found = namesOf(file).find((one) => one.name === name);
  if (!found) throw new Error(`${file} does not export ${name}`);
  return found;
}

/** @param {string} file @param {string} from */
function moduleOf(file, from) {
  return resolve(dirname(file), from.replace(/\.js$/, ".d.ts"));
}

const KINDS = new Map([
  ["const", "value"],
  ["interface", "type"],
]);

/** @param {string} name @param {string} file */
function declarationOf(name, file) {
  const text = readFileSync(file, "utf8");
  const declared = new RegExp(
    `(?:/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\\s*)?^export (?:declare )?(?:abstract )?(class|function|const|interface|type) ${name}\\b`,
    "m",
  ).exec(text);
  if (!declared) throw new Error(`${file} does not declare ${name}`);
  const [, comment = "", kind = ""] = declared;
  const description = comment
    .replace(/^\s*\* ?/gm, "")
    .split(/^@/m)[0]
    ?.replace(/\s+/g, " ")
    .trim();
  return {
    kind: KINDS.get(kind) ?? kind,
    summary: /^.*?[.:](?= |$)/.exec(description ?? "")?.[0] ?? description ?? "",
  };
}

/** docs/api.md. */
export function apiIndex() {
  const names = exportedNames();
  const subpaths = [...new Set(names.map(({ subpath }) => subpath))];
  const tables = subpaths.map((subpath) => {
    const rows = names
      .filter((one) => one.subpath === subpath)
      .sort((a, b) => (a.name < b.name ? -1 : 1))
      .map(({ name, kind, summary }) => `| \`${name}\` | ${kind} | ${summary.replaceAll("|", "\\|")} |`);
    return [`## ${subpath}`, "", "| name | kind | description |", "| --- | --- | --- |", ...rows].join("\n");
  });
  return [
    "# Every exported name",
    "",
    "Written by `npm run docs` from the type declarations. [library.md](library.md) is the guide.",
    "",
    tables.join("\n\n"),
    "",
  ].join("\n");
}
