// The functions of the Python module: what they take is in the schemas of the verbs, what they give and what they throw in the
// declarations of the library.
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const ROOT = resolve(import.meta.dirname, "..");
/** TypeScript with an API, which the compiler of the build has not; the reference of the docs brings it. */
const ts = createRequire(join(ROOT, "docs/reference/package.json"))("typescript");

/** @param {string} path below dist/ */
const load = (path) => import(pathToFileURL(join(ROOT, "dist", path)).href);

/** `maxNewTokens` is `max_new_tokens` in Python. @param {string} name */
const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
/** @param {string} name */
const pascal = (name) => `_${snake(name)}`.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());

const KEYWORDS =
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield";
/** What a result has as a mapping; a field of that name gets an underscore, as one of a keyword does. */
const MAPPING = "clear copy fromkeys get items keys pop popitem setdefault update values";
const TAKEN = new Set(`${KEYWORDS} ${MAPPING}`.split(" "));
/** @param {string} name */
const identifier = (name) => (TAKEN.has(snake(name)) ? `${snake(name)}_` : snake(name));

/** @param {string} text */
const quote = (text) => JSON.stringify(text);

/** @typedef {{ [field: string]: any }} Schema */

/**
 * The type of what a schema accepts.
 * @param {Schema} schema
 * @param {string} name of a type for its fields
 * @param {Map<string, string>} classes by name: such types
 * @returns {string}
 */
function typeOf(schema, name, classes) {
  const { const: only, enum: values, anyOf, oneOf, type, items, title, properties, additionalProperties } = schema;
  if (title === "source") return "Source";
  if (type === "string" && (title === "folder" || title === "file")) return "str | PathLike[str]";
  if (only !== undefined) return literal([only]);
  if (Array.isArray(values)) return literal(values);
  const variants = anyOf ?? oneOf;
  if (variants) return union(variants.map((one) => typeOf(one, name, classes)));
  if (Array.isArray(type)) return union(type.map((one) => typeOf({ ...schema, type: one }, name, classes)));
  switch (type) {
    case "string":
      return "str";
    case "integer":
      return "int";
    case "number":
      return "float";
    case "boolean":
      return "bool";
    case "null":
      return "None";
    case "array":
      return `Sequence[${items ? typeOf(items, name, classes) : "Any"}]`;
    case "object":
      if (properties) return fieldsOf(schema, name, classes);
      return `Mapping[str, ${additionalProperties && typeof additionalProperties === "object" ? typeOf(additionalProperties, name, classes) : "Any"}]`;
    default:
      return "Any";
  }
}

/** A type for a mapping with known fields. @param {Schema} schema @param {string} name @param {Map<string, string>} classes */
function fieldsOf({ properties, description }, name, classes) {
  let own = name;
  for (let i = 2; classes.has(own); i++) own = `${name}${i}`;
  classes.set(own, "");
  const fields = Object.entries(properties).map(([field, one]) => {
    const type = typeOf(/** @type {Schema} */ (one), `${name}${pascal(field)}`, classes);
    const words = wordsOf(/** @type {Schema} */ (one));
    return { field, type, words };
  });
  const isPlain = fields.every(({ field }) => /^[a-z_]\w*$/i.test(field) && !KEYWORDS.split(" ").includes(field));
  const body = isPlain
    ? [
        `class ${own}(TypedDict, total=False):`,
        ...(description ? [docstring(description, "    "), ""] : []),
        ...fields.flatMap(({ field, type, words }) => [
          `    ${field}: ${type}`,
          ...(words ? [docstring(words, "    ")] : []),
        ]),
      ].join("\n")
    : `${own} = TypedDict("${own}", {${fields.map(({ field, type }) => `${quote(field)}: ${quote(type)}`).join(", ")}}, total=False)`;
  classes.set(own, `${body}\n`);
  return own;
}

/** @param {unknown} value */
const constant = (value) => (typeof value === "boolean" ? (value ? "True" : "False") : JSON.stringify(value));

/** @param {readonly unknown[]} values */
const literal = (values) => union(values.map((value) => (value === null ? "None" : `Literal[${constant(value)}]`)));

/** Literals in one, None last. @param {readonly string[]} types */
function union(types) {
  const all = [...new Set(types.flatMap((type) => type.split(" | ")))];
  if (all.includes("Any")) return "Any";
  const literals = all.flatMap((type) => /^Literal\[(.*)\]$/.exec(type)?.[1] ?? []);
  const others = all.filter((type) => type !== "None" && !type.startsWith("Literal["));
  const values = literals.length > 0 ? [`Literal[${literals.join(", ")}]`] : [];
  return [...others, ...values, ...(all.includes("None") ? ["None"] : [])].join(" | ");
}

/** Lines of a docstring. @param {string} text @param {string} indent */
function docstring(text, indent) {
  const plain = text.replaceAll("\\", "\\\\").replaceAll('"""', "'''");
  const lines = plain.split("\n").map((line) => (line === "" ? "" : `${indent}${line}`));
  return `${indent}"""${lines.join("\n").trimStart()}${lines.length > 1 ? `\n${indent}` : ""}"""`;
}

/** Classes for results, from the declarations of the library. */
class Results {
  /** @param {any} checker */
  constructor(checker) {
    this.checker = checker;
    /** @type {Map<string, string>} by name: the class */
    this.classes = new Map();
  }

  /** @param {any} type @param {string} name of a class for it, where the type has none @returns {string} */
  typeOf(type, name) {
    const { checker } = this;
    if (type.isUnion()) {
      const parts = type.types.filter((/** @type {any} */ one) => !(one.flags & ts.TypeFlags.Undefined));
      return union(parts.map((/** @type {any} */ one) => this.typeOf(one, name)));
    }
    if (type.isStringLiteral() || type.isNumberLiteral()) return literal([type.value]);
    if (type.flags & ts.TypeFlags.BooleanLike) return "bool";
    if (type.flags & ts.TypeFlags.StringLike) return "str";
    if (type.flags & ts.TypeFlags.NumberLike) return "float";
    if (type.flags & ts.TypeFlags.Null) return "None";
    if (type.flags & (ts.TypeFlags.Any | ts.TypeFlags.Unknown)) return "Any";
    if (checker.isTupleType(type) || checker.isArrayType(type)) {
      const items = checker.getTypeArguments(type).map((/** @type {any} */ one) => this.typeOf(one, name));
      return `Sequence[${union(items) || "Any"}]`;
    }
    const index = type.getStringIndexType();
    if (index) return `Mapping[str, ${this.typeOf(index, name)}]`;
    if (type.getCallSignatures().length > 0) return "Any";
    const symbol = type.aliasSymbol ?? type.symbol;
    const own = symbol && !/^(__|Omit$|Pick$|Partial$|Required$|Readonly$)/.test(symbol.name) ? symbol.name : name;
    return this.add(own, type);
  }

  /** @param {string} name @param {any} type */
  add(name, type) {
    if (this.classes.has(name)) return name;
    this.classes.set(name, "");
    const fields = type.getProperties().flatMap((/** @type {any} */ property) => {
      const of = this.checker.getTypeOfSymbol(property);
      if (of.getCallSignatures().length > 0) return [];
      const isOptional = (property.flags & ts.SymbolFlags.Optional) !== 0;
      const written = this.typeOf(of, `${name}${pascal(property.name)}`);
      const words = ts.displayPartsToString(property.getDocumentationComment(this.checker));
      const annotation = `    ${identifier(property.name)}: ${isOptional && !/\bNone\b|\bAny\b/.test(written) ? `${written} | None` : written}`;
      return words ? [annotation, docstring(words, "    ")] : [annotation];
    });
    const symbol = type.aliasSymbol ?? type.symbol;
    const words = symbol?.name === name ? ts.displayPartsToString(symbol.getDocumentationComment(this.checker)) : "";
    const body = [...(words ? [docstring(words, "    ")] : []), ...(words && fields.length > 0 ? [""] : []), ...fields];
    this.classes.set(name, `class ${name}(Result):\n${body.join("\n") || "    pass"}\n`);
    return name;
  }
}

/** @returns {Promise<Record<string, string>>} files by their paths in the wheel */
export async function pythonModule() {
  const [{ OPTION_FIELDS, verbJsonSchema }, { loadVerbs }, library] = await Promise.all(
    ["verbs/shared/index.js", "experiment/verbs/index.js", "index.js"].map(load),
  );
  const all = await loadVerbs();
  const entry = join(ROOT, "dist/index.d.ts");
  const program = ts.createProgram([entry], {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    strict: true,
    skipLibCheck: true,
    types: ["node"],
  });
  const checker = program.getTypeChecker();
  const file = program.getSourceFile(entry);
  const exported = new Map(
    checker
      .getExportsOfModule(checker.getSymbolAtLocation(file))
      .map((/** @type {any} */ one) => [
        one.name,
        one.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(one) : one,
      ]),
  );
  const results = new Results(checker);
  /** @type {Map<string, string>} */
  const inputs = new Map();
  const functions = all.map((/** @type {any} */ verb) =>
    functionOf(verb, verbJsonSchema(verb), exported.get(verb.function ?? verb.name), results, inputs, OPTION_FIELDS),
  );
  const names = all.flatMap((/** @type {any} */ verb) => {
    const name = snake(verb.function ?? verb.name);
    return verb.streams ? [name, `${name}_stream`] : [name];
  });
  const errors = errorClasses(library);
  const verbs = `"""The verbs of layergraft, as functions. Written by python/module.js from their schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, TypedDict, cast

from ._call import OnProgress, Result, call, stream

Source: TypeAlias = "str | PathLike[str] | Mapping[str, Any]"
"""A folder, FOLDER+ADAPTER, the name of a model on the hub, or a recipe."""


${[...inputs.values(), ...results.classes.values()].join("\n\n")}

${functions.join("\n\n")}`;
  const init = `"""Merge fine-tuned language models.

Every function is a verb of layergraft: what it takes are the fields of its command, what it gives those of its result.
"""

from ._call import LayergraftError, OnProgress, Progress, Result
from ._verbs import Source, ${[...inputs.keys(), ...results.classes.keys(), ...names].sort().join(", ")}
from .errors import ${errors
    .map(({ name }) => name)
    .sort()
    .join(", ")}

__all__ = [${["LayergraftError", "OnProgress", "Progress", "Result", "Source", ...inputs.keys(), ...results.classes.keys(), ...names, ...errors.map(({ name }) => name)].sort().map(quote).join(", ")}]
`;
  const classes = `"""Errors of layergraft by what they are about; each has a \`code\` and \`where\`."""

from ._call import LayergraftError

${errors.map(({ name, parent }) => `\nclass ${name}(${parent}):\n    pass\n`).join("\n")}`;
  return { "layergraft/__init__.py": init, "layergraft/_verbs.py": verbs, "layergraft/errors.py": classes };
}

/** Errors that the library exports, each after the one it is a kind of. @param {Record<string, any>} library */
function errorClasses({ LayergraftError, ...library }) {
  const all = Object.values(library).filter(
    (one) => typeof one === "function" && one.prototype instanceof LayergraftError,
  );
  const parentOf = (/** @type {any} */ one) => {
    const parent = Object.getPrototypeOf(one);
    return all.includes(parent) ? parent : LayergraftError;
  };
  const depthOf = (/** @type {any} */ one) => (one === LayergraftError ? 0 : 1 + depthOf(parentOf(one)));
  return all.sort((a, b) => depthOf(a) - depthOf(b)).map((one) => ({ name: one.name, parent: parentOf(one).name }));
}

/** Types of options, by those of their fields. */
const OPTION_TYPES = { "whole number": "int", "true or false": "bool", folder: "str | PathLike[str]" };

/** @param {any} verb @param {Schema} schema @param {any} symbol @param {Results} results @param {Map<string, string>} inputs @param {any} known options by their names */
function functionOf(verb, { properties, required = [] }, symbol, results, inputs, known) {
  const name = verb.function ?? verb.name;
  if (!symbol) throw new Error(`the library exports no ${name}`);
  const [signature] = results.checker.getTypeOfSymbol(symbol).getCallSignatures();
  const promised = signature.getReturnType();
  const [result] = results.checker.getTypeArguments(promised);
  const type = results.typeOf(result, `${pascal(name)}Result`);
  const { positional = [] } = verb.terminal;
  const isRequired = (/** @type {string} */ field) => required.includes(field);
  const fields = Object.entries(properties).map(([field, one]) => {
    const written = typeOf(one, `${pascal(name)}${pascal(field)}`, inputs);
    return { field, python: identifier(field), isRequired: isRequired(field), written, words: wordsOf(one) };
  });
  const first = positional.flatMap((/** @type {string} */ one) => fields.filter(({ field }) => field === one));
  const rest = fields
    .filter(({ field }) => !positional.includes(field))
    .sort((a, b) => Number(b.isRequired) - Number(a.isRequired));
  const options = [
    ...Object.entries({ ...verb.options, folder: "" }).map(([option, help]) => {
      const { type: kind, description } = known[option];
      const unit = option === "memory" ? ", in bytes" : "";
      const unset = description !== "" && help !== "" ? `; default: ` : "";
      const written = OPTION_TYPES[/** @type {keyof typeof OPTION_TYPES} */ (kind)];
      return { field: option, python: option, written, words: `${description}${unit}${unset}${help}` };
    }),
  ];
  const parameter = (/** @type {any} */ { python, written, isRequired: needed }) =>
    needed
      ? `    ${python}: ${written},`
      : `    ${python}: ${/\bNone\b/.test(written) || written === "Any" ? written : `${written} | None`} = None,`;
  const entries = (/** @type {readonly any[]} */ list) =>
    list.map(({ field, python }) => `${quote(field)}: ${python}`).join(", ");
  const described = [...first, ...rest, ...options].map(({ python, words }) => `    ${python}: ${words}`);
  const text = `${ts.displayPartsToString(symbol.getDocumentationComment(results.checker))}

Args:
${described.join("\n")}
    on_progress: Called with the progress; True for bars of tqdm, False for none. Default: bars where tqdm is installed and
        a person watches.

Returns:
    ${type}
`;
  const stream = verb.streams
    ? `

def ${snake(name)}_stream(
${[...first.map(parameter), "    *,", ...[...rest, ...options].map(parameter)].join("\n")}
) -> Iterator[str]:
    """Parts of the text as they are made. Arguments are those of \`${snake(name)}\`; leaving the loop ends the work."""
    given = {${entries([...first, ...rest])}}
    options = {${entries(options)}}
    return stream(${quote(verb.name)}, given, options)
`
    : "";
  return `def ${snake(name)}(
${[...first.map(parameter), "    *,", ...[...rest, ...options].map(parameter), "    on_progress: OnProgress | bool | None = None,"].join("\n")}
) -> ${type}:
${docstring(text, "    ")}
    given = {${entries([...first, ...rest])}}
    options = {${entries(options)}}
    return cast(${quote(type)}, call(${quote(verb.name)}, given, options, on_progress))
${stream}`;
}

/** A field's meaning, with its default. @param {Schema} schema */
function wordsOf({ description = "", default: fallback, unset, title }) {
  const isEmpty = typeof fallback === "object" && fallback !== null && Object.keys(fallback).length === 0;
  const holds = isEmpty ? unset : (fallback ?? unset);
  const kind = title && title !== "source" ? ` (${title})` : "";
  return `${description}${kind}${holds === undefined ? "" : `; default: ${typeof holds === "string" ? holds : JSON.stringify(holds)}`}`;
}
