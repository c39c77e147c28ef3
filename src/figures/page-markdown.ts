import { plural } from "../kit/printing/index.js";
import { type Figure, type Page, type Section, tableOf } from "./figures.js";
import { escapeMarkdown, markdownLines } from "./render.js";

/** Rows of a long table. */
const MAX_ROWS = 60;

/** A page as Markdown, with the numbers of its figures as tables. Without a title it is a part of another page. */
export function pageMarkdown({ title, lead, verdicts, state, notes, sections, footer }: Page): string {
  const stateText = escapeMarkdown(state?.text ?? "");
  const concluded = verdicts.map(({ title: of, text, more = "" }) => {
    const said = [text, more].filter((part) => part !== "").join(" ");
    return [of, said].filter((part) => part !== "").join(": ");
  });
  const blocks = [
    title === "" ? "" : `# ${escapeMarkdown(title)}`,
    ...[lead, ...concluded].map(escapeMarkdown),
    state?.isOpen === true ? `**${stateText}**` : stateText,
    ...notes.map(escapeMarkdown),
    ...sections.flatMap(sectionBlocks),
    escapeMarkdown(footer),
  ];
  return `${blocks.filter((block) => block !== "").join("\n\n")}\n`;
}

function sectionBlocks({ title, lead = "", figures }: Section): string[] {
  return [`## ${escapeMarkdown(title)}`, escapeMarkdown(lead), ...figures.flatMap(figureBlocks)];
}

function figureBlocks(figure: Figure): string[] {
  if (figure.kind === "commands") return figure.commands.flatMap(commandBlocks);
  const table = tableOf(figure);
  if (!table) return [];
  const { id, title, note, rows } = table;
  const isWhole = figure.kind === "table" ? figure.isWhole === true : figure.kind !== "lines";
  const shown = isWhole ? rows : rows.slice(0, MAX_ROWS);
  const more = rows.length - shown.length;
  return [
    title === "" ? "" : `### ${escapeMarkdown(title)}`,
    escapeMarkdown([note, figure.kind === "bars" ? (figure.next ?? "") : ""].filter((text) => text !== "").join(" ")),
    rows.length > 0 ? markdownLines({ ...table, rows: shown }).join("\n") : "",
    more > 0 ? `${plural(more, "more row")} ${id === "" ? "on the page" : `in ${escapeMarkdown(`${id}.csv`)}`}.` : "",
  ];
}

function commandBlocks({ what, command, file }: Extract<Figure, { kind: "commands" }>["commands"][number]): string[] {
  const fenced = (language: string, text: string) => {
    // A fence longer than any in the text.
    const ticks = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
    const fence = "`".repeat(ticks + 1);
    return `${fence}${language}\n${text.trimEnd()}\n${fence}`;
  };
  const ofFile = file ? [escapeMarkdown(file.about), fenced("yaml", file.text)] : [];
  return [`### ${escapeMarkdown(what)}`, ...ofFile, fenced("sh", command)];
}
