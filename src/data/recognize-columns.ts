// The mapping of a set that declares none, by common names of columns.
import { formatSome } from "../core/index.js";
import type { SetPlan } from "./declaration.js";
import { isPresent } from "./field.js";
import { compileFilters } from "./filter.js";
import { compileMapping, type Mapping, type MappingDeclaration, mappingSchema } from "./mapping.js";
import { type ReadOptions, readRows } from "./read/index.js";
import { DataError, type RowBatch } from "./read/row.js";

const CONVERSATIONS = ["messages", "conversations", "conversation"] as const;

/** Columns of a prompt and a response; the first that exist are read, with `input` if it exists. */
const PAIRS = [
  { prompt: "prompt", response: "response" },
  { prompt: "prompt", response: "completion" },
  { prompt: "instruction", input: "input", response: "output" },
  { prompt: "instruction", input: "context", response: "response" },
  { prompt: "question", response: "answer" },
] as const;

const SYSTEMS = ["system", "system_prompt"] as const;
const TEXT = "text";

const KNOWN_COLUMNS: readonly string[] = [
  ...new Set([...CONVERSATIONS, ...PAIRS.flatMap((pair) => Object.values(pair)), ...SYSTEMS, TEXT]),
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
 * The declared mapping, otherwise one by the names of the columns.
 * @param batch the first rows of a file
 * @throws DataError if nothing is declared, and no column has a known name
 */
export function mappingOf(declared: MappingDeclaration | undefined, batch: RowBatch): MappingDeclaration {
  if (declared) return declared;
  const columns = columnsOf(batch);
  const has = (column: string) => columns.has(column);
  const system = SYSTEMS.find(has);
  const rest = system === undefined ? {} : { system };
  const conversations = CONVERSATIONS.filter(has);
  const [only] = conversations;
  if (only !== undefined)
    return mappingSchema.parse({ messages: conversations.length === 1 ? only : conversations, ...rest });
  const pair = PAIRS.find(({ prompt, response }) => has(prompt) && has(response));
  if (pair) {
    const { prompt, response } = pair;
    const input = "input" in pair && has(pair.input) ? { input: pair.input } : {};
    return mappingSchema.parse({ prompt, response, ...input, ...rest });
  }
  if (has(TEXT)) return mappingSchema.parse({ text: TEXT });
  throw new DataError(
    `${batch.file}: no column has a known name, only ${formatSome([...columns], 40)}. Name those of prompt and response, as in { source: FILE, map: { prompt: COLUMN, response: COLUMN } }, or rename them to messages, prompt and response, instruction and output, question and answer, or text.`,
    { file: batch.file, field: "map" },
  );
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
  const system = map.system === undefined ? "" : `, system message from ${name(map.system)}`;
  if ("messages" in map) return `conversations from ${[map.messages].flat().join(" or ")}${system}`;
  if ("translation" in map) {
    const { english, other } = map.translation;
    return `translations from ${name(english)} and ${name(other)}${system}`;
  }
  if ("text" in map) return `text from ${name(map.text)}${system}`;
  if (map.prompt === undefined) return `text from ${name(map.response)}${system}`;
  const prompt = [map.prompt, ...(map.input === undefined ? [] : [map.input])].map(name).join(" and ");
  return `prompt from ${prompt}, response from ${name(map.response)}${system}`;
}
