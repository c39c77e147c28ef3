// A badge and a section for a model card, of what a check found.
import { escapeMarkdown } from "../../figures/index.js";
import { VERSION } from "../../kit/index.js";
import { commandLine } from "../../kit/printing/index.js";
import type { CardCheck } from "./check-card.js";
import { BADGES, cardSentences } from "./sentences.js";

/** Widths of letters of 11 px Verdana differ; a badge takes the mean, and fits its text by `textLength`. */
const LETTER = 6.5;

/** An SVG image of 20 px height. Its text is of a fixed list, so that nothing of a card gets into it. */
export function badgeOf({ verdict }: CardCheck): string {
  const [text, color] = BADGES[verdict];
  const label = "recipe";
  const [left, right] = [label, text].map((one) => Math.round(one.length * LETTER) + 12) as [number, number];
  const part = (one: string, x: number, width: number) =>
    `<text x="${x + width / 2}" y="14" textLength="${width - 12}">${one}</text>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${left + right}" height="20" role="img" aria-label="${label}: ${text}">
<title>${label}: ${text}</title>
<rect width="${left}" height="20" fill="#444"/>
<rect x="${left}" width="${right}" height="20" fill="${color}"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">${part(label, 0, left)}${part(text, left, right)}</g>
</svg>
`;
}

/**
 * Markdown for a model card: badge, verdict, sources with commits, and how to repeat the check.
 * @param badge where the image is, from the card
 */
export function sectionOf(check: CardCheck, badge = "recipe-badge.svg"): string {
  const { model, commit, sources, verdict, share, seed } = check;
  const lines = sources.map(
    ({ name, commits }) =>
      `- ${escapeMarkdown(name)}${commits.length > 0 ? ` at commit ${commits.map((one) => `\`${one.slice(0, 12)}\``).join(", ")}` : ""}`,
  );
  const pinned = commit === null ? "" : ` at commit \`${commit.slice(0, 12)}\``;
  const again =
    share >= 1
      ? commandLine`verify ${model} --all`
      : commandLine`verify ${model} --share ${String(share)} --seed ${String(seed)}`;
  return `## Is this recipe true?

![recipe: ${BADGES[verdict][0]}](${badge})

${cardSentences(check).map(escapeMarkdown).join("\n")}

Checked${pinned} with layergraft ${VERSION}${lines.length > 0 ? " against:" : "."}
${lines.length > 0 ? `\n${lines.join("\n")}\n` : ""}
Check it again with \`npx ${again}\`.
`;
}
