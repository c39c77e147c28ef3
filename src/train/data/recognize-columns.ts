// The mapping of a set that declares none, by common names of columns and what these hold.

import type { z } from "zod";
import { isObject } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import type { SetPlan } from "./declaration.js";
import { isFilled, isPresent } from "./field.js";
import { compileFilters } from "./filter.js";
import { compileMapping, type Mapping, type MappingDeclaration, mappingSchema } from "./mapping.js";
import { type ReadOptions, readRows } from "./read/index.js";
import { DataError, type RowBatch } from "./read/row.js";

const CONVERSATIONS = ["messages", "conversations", "conversation"] as const;

/** Columns of a prompt and a response; the first that are filled are read, with `input` if it is. */
const PAIRS = [
  { prompt: "prompt", response: "response" },
  { prompt: "prompt", response: "completion" },
  { prompt: "instruction", input: "input", response: "output" },
  { prompt: "instruction", input: "context", response: "response" },
  { prompt: "question", response: "answer" },
  { prompt: "query", response: "response" },
  { prompt: "input", response: "output" },
] as const;

const SYSTEMS = ["system", "system_prompt"] as const;
const TEXT = "text";
const TOOLS = "tools";

/** Columns of lists that others read, and what to do about them, as they would be lost. */
const UNREAD: Readonly<Record<string, string>> = {
  history: "earlier turns, which are not read. Put them into a column messages",
  functions: "tools, which are read from a column tools. Rename it",
};

const KNOWN_COLUMNS: readonly string[] = [
  ...new Set([...CONVERSATIONS, ...PAIRS.flatMap((pair) => Object.values(pair)), ...SYSTEMS, TEXT, TOOLS]),
  ...Object.keys(UNREAD),
];

/**
 * The rows of a set, batch by batch, with the mapping that reads them: the same for all of its files.
 * @throws DataError if a file has none of the columns that are read, or cannot be read
 */
export async function* mappedRows(
  { name, map: declared, filter, format, header, quotes, allow_short: allowShort, field }: SetPlan,
  files: readonly string[],
  options: Pick<ReadOptions, "onBadRow" | "onBad" | "signal">,
) {
  const filtered = compileFilters(filter).columns;
  const columns = [...(declared ? compileMapping(declared).columns.flat() : KNOWN_COLUMNS), ...filtered];
  let map = declared;
  let mapping: Mapping | undefined;
  let checked: string | undefined;
  for await (const batch of readRows(files, { format, header, quotes, allowShort, field, columns, ...options })) {
    map ??= mappingOf(declared, batch);
    mapping ??= compileMapping(map);
    if (batch.file !== checked) requireColumns(name, batch, [...mapping.columns, ...filtered.map((one) => [one])]);
    checked = batch.file;
    yield { batch, map, mapping };
  }
}

/**
 * The declared mapping, otherwise one by the names of the columns. Columns that hold nothing do not count, unless all do.
 * @param batch the first rows of a file
 * @throws DataError if nothing is declared, and no column has a known name
 */
export function mappingOf(declared: MappingDeclaration | undefined, batch: RowBatch): MappingDeclaration {
  if (declared) return declared;
  const columns = columnsOf(batch);
  const filled = new Set([...columns].filter((column) => batch.rows.some((row) => isFilled(row[column]))));
  const hasTools = batch.rows.every((row) => !isFilled(row[TOOLS]) || isToolList(row[TOOLS]));
  const present = new Set([...columns].filter((column) => column !== TOOLS || hasTools));
  const found = mappingBy(filled, present) ?? mappingBy(columns, present);
  if (found) {
    for (const [column, advice] of Object.entries(UNREAD)) {
      const holds = ({ [column]: value }: RowBatch["rows"][number]) => Array.isArray(value) && value.length > 0;
      if (!batch.rows.some(holds)) continue;
      const message = `${batch.file}: ${column} holds ${advice}, or leave it out with map: ${JSON.stringify(found)}.`;
      throw new DataError(message, { file: batch.file, field: "map" });
    }
    return mappingSchema.parse(found);
  }
  const conversation = [...filled].find((column) => batch.rows.some((row) => isConversation(row[column])));
  const advice =
    conversation === undefined
      ? "Name those of prompt and response, as in { source: FILE, map: { prompt: COLUMN, response: COLUMN } }, or rename them to messages, prompt and response, instruction and output, question and answer, or text."
      : `${conversation} holds conversations: learn these with { source: FILE, map: { messages: ${conversation} } }.`;
  throw new DataError(`${batch.file}: no column has a known name, only ${formatSome([...columns], 40)}. ${advice}`, {
    file: batch.file,
    field: "map",
  });
}

function isConversation(value: unknown): boolean {
  return Array.isArray(value) && isObject(value[0]) && ("role" in value[0] || "from" in value[0]);
}

/** Other columns may have this name. */
function isToolList(value: unknown): boolean {
  return typeof value === "string" ? value.trimStart().startsWith("[") : Array.isArray(value) && isObject(value[0]);
}

/** @param present columns that may be filled further on in the file */
function mappingBy(
  filled: ReadonlySet<string>,
  present: ReadonlySet<string>,
): z.input<typeof mappingSchema> | undefined {
  const system = SYSTEMS.find((column) => present.has(column));
  const rest = { ...(system === undefined ? {} : { system }), ...(present.has(TOOLS) ? { tools: TOOLS } : {}) };
  if (CONVERSATIONS.some((column) => filled.has(column))) {
    const [only = "", ...others] = CONVERSATIONS.filter((column) => present.has(column));
    return { messages: others.length === 0 ? only : [only, ...others], ...rest };
  }
  const pair = PAIRS.find(({ prompt, response }) => filled.has(prompt) && filled.has(response));
  if (!pair) return filled.has(TEXT) ? { text: TEXT } : undefined;
  const { prompt, response } = pair;
  return { prompt, response, ...("input" in pair && present.has(pair.input) ? { input: pair.input } : {}), ...rest };
}

function columnsOf({ columns, rows }: RowBatch): ReadonlySet<string> {
  return new Set(columns ?? rows.flatMap((row) => Object.keys(row)));
}

/**
 * @param set name of the set
 * @param wanted columns that are read, each as a list of alternatives
 * @throws DataError if the rows have none of the alternatives
 */
function requireColumns(set: string, batch: RowBatch, wanted: readonly (readonly string[])[]): void {
  const present = columnsOf(batch);
  const missing = wanted.filter((alternatives) => !alternatives.some((column) => isPresent(column, present)));
  if (missing.length === 0) return;
  const names = new Set(missing.flat());
  throw new DataError(
    `${set}: ${batch.file} has no column ${[...names].join(" or ")}; it has ${formatSome([...present], 40)}`,
    { file: batch.file, field: "map" },
  );
}

/** A mapping in words, such as "prompt and response from question and answer". */
export function describeMapping(map: MappingDeclaration): string {
  const name = (field: unknown): string =>
    typeof field === "string" ? field : String(Object.values(Object(field) as object)[0]);
  const tools = "tools" in map && map.tools !== undefined ? `, tools from ${map.tools}` : "";
  const system = map.system === undefined ? "" : `, system message from ${name(map.system)}`;
  if ("messages" in map) return `conversations from ${[map.messages].flat().join(" or ")}${system}${tools}`;
  if ("translation" in map) {
    const { english, other } = map.translation;
    return `translations from ${name(english)} and ${name(other)}${system}`;
  }
  if ("text" in map) return `text from ${name(map.text)}${system}`;
  if (map.prompt === undefined) return `text from ${name(map.response)}${system}`;
  const prompt = [map.prompt, ...(map.input === undefined ? [] : [map.input])].map(name).join(" and ");
  return `prompt from ${prompt}, response from ${name(map.response)}${system}${tools}`;
}
