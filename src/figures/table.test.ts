// Exact output of the table renderers.
import { expect, it } from "vitest";
import { csvLines, latexText, markdownLines, terminalLines } from "./render.js";
import { count, formatNumber, formatSpan, right, type Table } from "./table.js";

const TABLE: Table = {
  ...{ id: "table-1", title: "100% of {a_b}", note: "x^2 ~ $5 & <" },
  columns: [{ label: "task", isGroup: true }, "model", "score", right("size"), "items"],
  rows: [
    ["MGSM", "=base|1", { value: 0.31249, scale: "share" }, "2 GB", count(1250)],
    ["MGSM", "\u001b[32mswap\u001b[39m", { value: 0.5, scale: "share", isBest: true }, "12 GB", count(null)],
    ["FLORES", 'a, "b"', { value: undefined, scale: "points" }, "", count(3)],
  ],
};

it("rounds a number once, when it is written", () => {
  const numbers = [
    { value: 0.3249, scale: "share" as const },
    { value: 31.456, scale: "points" as const },
    { value: 31.456, scale: "points" as const, digits: 1 },
    { value: 0.0004, scale: "probability" as const },
    { value: 1234567, scale: "count" as const },
    { value: 200, scale: "seconds" as const },
    { value: null, scale: "share" as const },
    { value: Number.NaN, scale: "share" as const },
  ];
  expect(numbers.map(formatNumber)).toEqual(["32.5", "31.46", "31.5", "< 0.001", "1,234,567", "3 min 20 s", "–", "…"]);
  const signed = [0.05, -0.051, 0.0001, -0.0004].map((value) =>
    formatNumber({ value, scale: "share", isSigned: true }),
  );
  expect(signed).toEqual(["+5.0", "-5.1", "0.0", "0.0"]);
  expect(formatSpan({ low: -0.01, high: 0.07 }, { scale: "share" })).toBe("-1.0 to 7.0");
  expect(formatSpan(undefined, { scale: "share" })).toBe("–");
});

it("aligns columns on a terminal, colours not counted, and stars the best", () => {
  const lines = terminalLines(TABLE).map((line) => line.replaceAll("\u001b", ""));
  expect(lines).toEqual([
    "task    model    score     size  items",
    "MGSM    =base|1   31.2     2 GB  1,250",
    "        [32mswap[39m      50.0 *  12 GB      –",
    'FLORES  a, "b"       …               3',
  ]);
});

it("repeats groups in Markdown, and escapes", () => {
  expect(markdownLines(TABLE).slice(0, 4)).toEqual([
    "| task | model | score | size | items |",
    "| --- | --- | ---: | ---: | ---: |",
    "| MGSM | =base\\|1 | 31.2 | 2 GB | 1,250 |",
    "| MGSM | ␛\\[32mswap␛\\[39m | **50.0** | 12 GB | – |",
  ]);
});

it("keeps every digit in CSV, and gives spreadsheets no formulas", () => {
  expect(csvLines(TABLE)).toEqual([
    "task,model,score,size,items",
    "MGSM,'=base|1,0.31249,2 GB,1250",
    "MGSM,\u001b[32mswap\u001b[39m,0.5,12 GB,",
    'FLORES,"a, ""b""",,,3',
  ]);
});

it("escapes LaTeX", () => {
  const text = latexText(TABLE);
  expect(text).toContain("\\caption{100\\% of \\{a\\_b\\}. x\\textasciicircum{}2 \\textasciitilde{} \\$5 \\& $<$}");
  expect(text).toContain("\\begin{tabular}{llrrr}");
  expect(text).toContain("\\label{tab:table-1}");
  expect(text).toContain(" & 31.2 & ");
  expect(text).toContain(" & \\textbf{50.0} & ");
});

it("keeps names with signs of Markdown and LaTeX in one line, as they are", () => {
  const name = "a|b &amp; $x$\n\n\\end";
  const table = { title: name, columns: ["model"], rows: [[name]] };
  expect(markdownLines(table)[2]).toBe("| a\\|b \\&amp; \\$x\\$ \\\\end |");
  const line = "a$|$b \\&amp; \\$x\\$ \\textbackslash{}end";
  const lines = latexText(table).split("\n");
  expect(lines).toContain(`${line} \\\\`);
  expect(lines).toContain(`\\caption{${line}. }`);
});

it("has marks of a number in words, and the number alone in CSV", () => {
  const marked = { value: 0.384, scale: "share", marks: ["default", "chosen"] } as const;
  const table: Table = { columns: ["bottom", "0"], rows: [["3", marked]] };
  expect(markdownLines(table).at(-1)).toBe("| 3 | 38.4 (default, chosen) |");
  expect(csvLines(table)).toEqual(["bottom,0", "3,0.384"]);
});

it("wraps columns of words to the width of a terminal, or makes records of rows", () => {
  const table = {
    columns: ["field", "default", right("n"), "meaning"],
    rows: [["density", "0.2", "12", "share of the changes to keep, largest first"]],
  };
  expect(terminalLines(table)).toEqual([
    "field    default   n  meaning",
    "density  0.2      12  share of the changes to keep, largest first",
  ]);
  expect(terminalLines(table, 44)).toEqual([
    "field    default   n  meaning",
    "density  0.2      12  share of the changes",
    "                      to keep, largest first",
  ]);
  expect(terminalLines(table, 30)).toEqual([
    "density",
    "    default 0.2; n 12; meaning",
    "    share of the changes to",
    "    keep, largest first",
  ]);
});
