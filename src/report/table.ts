// A plain table for the terminal: columns as wide as they need to be, numbers to the right.

/** Length of a text on the screen, colour codes not counted. */
function visibleLength(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what a colour code begins with
  return text.replace(/\u001b\[[0-9;]*m/g, "").length;
}

/**
 * Lines of a table.
 * @param header column titles; those that begin with `>` are right-aligned, the sign is dropped
 */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const right = header.map((title) => title.startsWith(">"));
  const titles = header.map((title) => title.replace(/^>/, ""));
  const all = [titles, ...rows];
  const widths = titles.map((_, column) =>
    all.reduce((most, row) => Math.max(most, visibleLength(row[column] ?? "")), 0),
  );
  return all.map((row) =>
    widths
      .map((width, column) => {
        const cell = row[column] ?? "";
        const space = " ".repeat(width - visibleLength(cell));
        return right[column] ? space + cell : cell + space;
      })
      .join("  ")
      .trimEnd(),
  );
}
