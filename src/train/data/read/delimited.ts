import { readRecords } from "./records.js";
import { checkColumnCount, DataError, type FilePart, type FileReader, NOT_UTF8, type Row } from "./row.js";

export interface DelimitedOptions {
  /** One ASCII character between fields. */
  readonly delimiter: string;
  /** Whether the first record names the columns, or else their names. */
  readonly header: boolean | readonly string[];
  /** Whether fields may be in double quotes (RFC 4180). */
  readonly quotes: boolean;
  /** Whether a row may have fewer fields than there are columns; the missing ones are null. */
  readonly allowShort: boolean;
}

/**
 * Rows of a delimited file; every value is a string. Without a header, columns are `column1`, `column2` and so on.
 * @throws DataError for a header that is missing or names a column twice, and for too many columns
 */
export async function* readDelimited(
  bytes: AsyncIterable<Buffer>,
  file: string,
  { delimiter, header, quotes, allowShort }: DelimitedOptions,
): FileReader {
  let columns = typeof header === "boolean" ? undefined : checkedColumns(header, file);
  const rowOf = (fields: readonly string[]): Row | string => {
    columns ??= checkedColumns(
      fields.map((_, i) => `column${i + 1}`),
      file,
    );
    if (fields.length > columns.length || (fields.length < columns.length && !allowShort)) {
      return `it has ${fields.length} fields where there are ${columns.length} columns`;
    }
    return Object.fromEntries(columns.map((name, i) => [name, fields[i] ?? null]));
  };
  for await (const records of readRecords(bytes, file, quotes ? delimiter : undefined)) {
    const found: FilePart["found"][number][] = [];
    for (const { text, line } of records) {
      const fields = text === undefined ? undefined : quotes ? splitQuoted(text, delimiter) : text.split(delimiter);
      if (columns === undefined && header === true) {
        if (!fields) throw new DataError(`${file}: the header line cannot be read`, { file, line });
        columns = checkedColumns(fields, file);
      } else if (fields) found.push({ line, row: rowOf(fields) });
      else found.push({ line, row: text === undefined ? NOT_UTF8 : BAD_QUOTES });
    }
    yield { found, columns };
  }
}

const BAD_QUOTES = "a quoted field is not closed, or text follows its closing mark";

function checkedColumns(names: readonly string[], file: string): readonly string[] {
  checkColumnCount(names.length, file);
  const seen = new Set<string>();
  const repeated = names.find((name) => seen.size === seen.add(name).size);
  if (repeated !== undefined) {
    throw new DataError(
      `${file}: two columns are named ${JSON.stringify(repeated)}. If the file has no header line, list the names (header: [NAME, ...]).`,
      { file },
    );
  }
  return names;
}

/** Fields of a record, or undefined if its quotation marks do not fit. */
export function splitQuoted(record: string, delimiter: string): string[] | undefined {
  const fields: string[] = [];
  let at = 0;
  for (;;) {
    if (record[at] === '"') {
      let field = "";
      for (;;) {
        const mark = record.indexOf('"', at + 1);
        if (mark < 0) return undefined;
        field += record.slice(at + 1, mark);
        at = mark + 1;
        if (record[at] !== '"') break;
        field += '"';
      }
      fields.push(field);
      if (at === record.length) return fields;
      if (record[at] !== delimiter) return undefined;
      at++;
    } else {
      const end = record.indexOf(delimiter, at);
      if (end < 0) {
        fields.push(record.slice(at));
        return fields;
      }
      fields.push(record.slice(at, end));
      at = end + 1;
    }
  }
}
