import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { readCard } from "./read-card.js";

const folder = temporaryFolder();
const RECIPE = `\`\`\`yaml
method: soup
models: [org/a, "hub:org/b@v1", org/c+org/lora]
\`\`\`
`;

async function read(text: string) {
  writeFileSync(join(folder, "README.md"), text);
  return readCard(folder, undefined);
}

it.each([
  ["dashes within the text are no front matter (huggingface_hub 1285)", "# A\n\n---\nbase_model: org/x\n---\n", []],
  ["white space may be before it (huggingface_hub 1285)", "\n \n---\nbase_model: org/x\n---\n", ["org/x"]],
  ["empty lines without an end (huggingface_hub 4526)", `---${"\n".repeat(500_000)}`, []],
  ["line ends and mark of Windows", "\uFEFF---\r\nbase_model: org/x\r\n---\r\n", ["org/x"]],
  ["names of which some are local", "---\nbase_model: [org/x, ./y, 3, ~/z]\n---\n", ["org/x"]],
  ["what is not valid YAML", "---\nbase_model: [org/x\n---\n", []],
])("of front matter, %s", async (_, front, bases) => {
  const recipe = front.includes("\r") ? RECIPE.replaceAll("\n", "\r\n") : RECIPE;
  const card = await read(front + recipe);
  expect(card.bases).toEqual(bases);
  expect(card.recipes).toHaveLength(1);
  expect(card.recipes[0]).toMatchObject({
    ...{ line: front.split("\n").length, from: "layergraft", notes: [] },
    recipe: { method: "soup", models: ["hub:org/a", "hub:org/b@v1", "hub:org/c+hub:org/lora"] },
  });
});

it.each([
  ["a page within the page", `\`\`\`\`markdown\n${RECIPE}\`\`\`\`\n`, 0],
  ["tildes", RECIPE.replaceAll("```", "~~~"), 1],
  ["an indented block of a list", `- here:\n${RECIPE.replace(/^(?=.)/gm, "  ")}`, 1],
  ["a block without an end", RECIPE.replace(/```\n$/, ""), 0],
  ["settings of something else", "```yaml\nmodels: 3\nmethod: [a]\n```\n", 0],
  ["a comment, which no reader sees", `<!-- one line -->\n<!--\n${RECIPE}-->\n`, 0],
  ["what follows a comment", `<!--\nhidden -->\n${RECIPE}`, 1],
  [
    "lines that would hold up a pattern with backtracking",
    `${"~".repeat(400_000)}\`\n\`\`\`${"a".repeat(400_000)}\`\n${RECIPE}`,
    1,
  ],
  ["a program", "```js\nmethod: () => 1\n```\n", 0],
])("of blocks, %s", async (_, text, recipes) => {
  const card = await read(text);
  expect([card.recipes.length, card.refused]).toEqual([recipes, []]);
});
