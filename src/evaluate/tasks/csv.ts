// Comma-separated values as Python's csv module reads them, which the MMLU files were written for (RFC 4180).

/** Rows of fields. A quoted field may hold commas, line ends and doubled quotes. Empty lines are skipped. */
export function parseCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let field = "";
  let isQuoted = false;
  let hadQuotes = false;
  const endRow = () => {
    if (row.length > 0 || field !== "" || hadQuotes) rows.push([...row, field]);
    row = [];
    field = "";
    hadQuotes = false;
  };
  for (let i = 0; i < text.length; i++) {
    const sign = text[i] ?? "";
    if (isQuoted) {
      if (sign !== '"') field += sign;
      else if (text[i + 1] === '"') {
        field += '"';
        i++;
      } else isQuoted = false;
    } else if (sign === '"' && field === "" && !hadQuotes) {
      isQuoted = true;
      hadQuotes = true;
    } else if (sign === ",") {
      row.push(field);
      field = "";
      hadQuotes = false;
    } else if (sign === "\n" || sign === "\r") {
      if (sign === "\r" && text[i + 1] === "\n") i++;
      endRow();
    } else field += sign;
  }
  endRow();
  return rows;
}
