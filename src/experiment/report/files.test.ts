import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { reportOf } from "../../../test/support/report-of.js";
import { writeReport } from "./files.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-report-"));
afterAll(() => rmSync(folder, { recursive: true }));

const plan = (more: string, name = "graft") => `
name: small
base: base
experts:
  math: { role: task, folders: [m1] }
  swahili: { role: language, language: sw, folders: [s1] }
merges: [{ name: "${name}", recipe: { method: swap, task: math, language: swahili }, grid: { bottom: [1, 2] } }]
evaluate: { tasks: ["mgsm_{language}"${more}] }
`;
const write = (text: string) => writeReport(folder, reportOf(text, () => 5).report);
const textOf = (name: string) => readFileSync(join(folder, name), "utf8");

it("removes tables of earlier reports and nothing else", async () => {
  writeFileSync(join(folder, "own.csv"), "mine\n");
  await write(plan(", mgsm_en"));
  const before = readdirSync(folder);
  expect(before).toContain("main-mgsm_en.tex");
  await write(plan(""));
  const after = readdirSync(folder);
  expect(before.filter((name) => !after.includes(name)).sort()).toEqual(["main-mgsm_en.csv", "main-mgsm_en.tex"]);
  expect(after).toContain("own.csv");

  // A file that somebody wrote to names nothing outside of the folder.
  writeFileSync(
    join(folder, "report.json"),
    JSON.stringify({ files: ["../own.csv", "own/../own.csv", "recipes", "..", 3], variants: [{ id: ".." }, 3] }),
  );
  await write(plan(""));
  writeFileSync(join(folder, "report.json"), "{");
  await write(plan(""));
  expect(readdirSync(folder)).toEqual(after);
});

it("writes the recipe of each reported merge, and removes those that are no longer reported", async () => {
  await write(plan(""));
  const [file = ""] = readdirSync(join(folder, "recipes"));
  expect(file).toBe("graft-math-1-x-swahili-1-bottom-1.yaml");
  expect(textOf(join("recipes", file))).toBe(
    "# layergraft experiment plan.yaml export graft-math-1-x-swahili-1-bottom-1 --out graft-math-1-x-swahili-1-bottom-1\n" +
      '# graft, math-1 x swahili-1, bottom 1\nmethod: "swap"\ntask: "../../../../models/m1"\n' +
      'language: "../../../../models/s1"\nbottom: 1\n',
  );
  writeFileSync(join(folder, "recipes", "own.yaml"), "mine\n");
  await write(plan("", "other"));
  expect(readdirSync(join(folder, "recipes")).sort()).toEqual(["other-math-1-x-swahili-1-bottom-1.yaml", "own.yaml"]);
});

it("has its tables on the page as an author copies them into a paper", async () => {
  await write(plan(""));
  const data = /<script[^>]*id="data"[^>]*>([\s\S]*?)<\/script>/.exec(textOf("index.html"))?.[1] ?? "{}";
  const sections = (JSON.parse(data) as { sections: { id: string; figures: { commands: Command[] }[] }[] }).sections;
  type Command = { command: string; file: { text: string } };
  const shown = sections.at(-1)?.figures[0]?.commands ?? [];
  expect(sections.at(-1)?.id).toBe("paper");
  const files = readdirSync(folder).filter((name) => name.endsWith(".tex"));
  expect(shown.map(({ command }) => command).sort()).toEqual(files.map((name) => `\\input{${name}}`).sort());
  for (const { command, file } of shown) {
    expect(file.text).toBe(textOf(/\{(.*)\}/.exec(command)?.[1] ?? ""));
  }
});

it("writes names that a spreadsheet would compute as text", async () => {
  await write(plan("", "=HYPERLINK(1)"));
  const rows = textOf("scores.csv").split("\n");
  expect(rows.some((row) => row.startsWith("\"'=HYPERLINK(1), m1") || row.startsWith("\"'=HYPERLINK(1), math-1"))).toBe(
    true,
  );
  for (const name of readdirSync(folder).filter((one) => one.endsWith(".csv")))
    expect(textOf(name)).not.toMatch(/(^|,)"?=/m);
  await write(plan("", "@SUM(1)"));
  expect(textOf("gained-lost.csv")).toMatch(/^"'@SUM\(1\), math-1 x swahili-1, bottom 1",base,mgsm_sw,/m);
});
