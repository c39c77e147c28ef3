// The demo as a newcomer runs it, with a twentieth of its training: what it prints, and the page that it writes.
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "./support/checkpoints.js";
import { DONE, layergraft, type Outcome } from "./support/command.js";

const cwd = temporaryFolder();
const demo = (...more: string[]) => layergraft(["demo", "--quick", "--out", "demo", ...more], { cwd });

describe("the demo", { tags: ["slow"], timeout: 300_000 }, () => {
  let first: Outcome;
  beforeAll(async () => {
    first = await demo();
  }, 300_000);
  afterAll(() => rmSync(cwd, { recursive: true, force: true }));

  it("shows a problem and the answers to it while it runs", () => {
    expect(first.status).toBe(DONE);
    const [introduction, ...lines] = first.stderr.split("\n");
    expect(introduction).toMatch(/^Trains a small model, .* Each model is asked word problems in Swahili\.$/);
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}Swahili: .* \?$/));
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}English: .* \?$/));
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}Answer: {2}\d+$/));
    const answers = lines.flatMap((line) => /^(.*?): .* \((?:right|wrong)(;.*)?\)$/.exec(line) ?? []);
    expect(answers.filter((one) => /^base, \d+% trained$/.test(one ?? "")).length).toBeGreaterThanOrEqual(2);
    for (const model of ["base", "math expert", "Swahili expert", "soup", "both"]) expect(answers).toContain(model);
    // Evaluations are shown by their answers alone.
    expect(first.stderr).not.toMatch(/^done +evaluate/m);
    expect(first.stderr).toMatch(/^ {2}npx layergraft experiment demo\/plan\.yaml run$/m);
  });

  it("ends with a sentence, five rows, the layers and the page", () => {
    const [sentence, ...lines] = first.stdout.split("\n");
    expect(sentence).toMatch(
      /^A model made of layers from a math expert and a Swahili expert, without further training, solves \d+\.\d% of the Swahili word problems \(base .*\): .* \(standard error \d+\.\d, p [=<] \d\.\d{3}\)\.$/,
    );
    const rows = lines.filter((line) => /^(base|math expert|Swahili expert|best average|layer swap) {2,}/.test(line));
    expect(rows.map((row) => row.split(/ {2,}/).length)).toEqual([5, 5, 5, 5, 5]);
    expect(lines).toContain("The layer swap, from its input to its output:");
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}(?:██|░░|▒▒)+$/));
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}██ Swahili expert +layers? /));
    expect(lines.at(-2)).toMatch(/: demo\/index\.html$/);
  });

  it("resumes silently, with all rows as JSON", async () => {
    const page = readFileSync(join(cwd, "demo/index.html"), "utf8");
    const again = await demo("--resume", "--json");
    expect([again.status, again.stderr]).toEqual([DONE, ""]);
    const { rows, leads, answer, ...rest } = JSON.parse(again.stdout);
    expect(rest).toEqual({ seed: 0, pairs: 1, page: "demo/index.html" });
    expect(rows.length).toBeGreaterThan(7);
    expect(leads.map(({ against }: { against: string }) => against)).toContain("task arithmetic");
    expect(`${answer}\n`).toBe(first.stdout.slice(0, answer.length + 1));
    expect(readFileSync(join(cwd, "demo/index.html"), "utf8")).toBe(page);
  });

  it("writes a page that needs no network, and the swap as a recipe", async () => {
    const page = readFileSync(join(cwd, "demo/index.html"), "utf8");
    expect(page).not.toMatch(/https?:|src=|@import|url\(/);
    expect(page).not.toContain("__DATA__");
    const outcome = await layergraft(["merge", "demo/swap.yaml", "--dry-run"], { cwd });
    expect(outcome.stdout).toMatch(/^Layer swap: bottom \d, top \d/);
  });
});
