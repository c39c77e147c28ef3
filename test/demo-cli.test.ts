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

  it("shows five problems and the answers of each model while it runs", () => {
    expect(first.status).toBe(DONE);
    const lines = first.stderr.split("\n");
    expect(lines.filter((line) => /^\d {2}\w+ alikuwa na .* ngapi sasa\?$/.test(line))).toHaveLength(5);
    expect(lines.filter((line) => /^ {3}\w+ had .* have now\?$/.test(line))).toHaveLength(5);
    const answers = lines.flatMap((line) => /^((?:[✓~✗] .{15}){5}) *(\d+\.\d%) {2}(.*)$/.exec(line)?.[3] ?? []);
    expect(answers).toEqual(expect.arrayContaining(["base", "math expert", "Swahili expert", "soup", "both"]));
    // Evaluations are shown by their answers alone.
    expect(first.stderr).not.toMatch(/^done +evaluate/m);
    expect(first.stderr).toMatch(/^ {2}npx layergraft experiment demo\/plan\.yaml run$/m);
  });

  it("claims nothing after a twentieth of the training; ends with the rows, the layers and the page", () => {
    const lines = first.stdout.split("\n");
    expect(lines[0]).toBe("Word problems solved, in percent, seed 0:");
    expect(first.stdout).not.toContain("The layer swap solves");
    expect(first.stderr).toContain("It shows that everything runs, not whether merging works.");
    const names = /^(base|math expert|Swahili expert|best average|best other merge|trained on both|layer swap) {2,}/;
    const rows = lines.filter((line) => names.test(line));
    expect(rows.map((row) => row.split(/ {2,}/).length)).toEqual([5, 5, 5, 5, 5, 5, 5]);
    expect(lines).toContain("The layer swap, from its input to its output:");
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}(?:██|░░|▒▒)+$/));
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}██ Swahili expert +layers? /));
    expect(lines.at(-2)).toMatch(/: demo\/index\.html$/);
  });

  it("resumes silently, with all rows and answers as JSON", async () => {
    const page = readFileSync(join(cwd, "demo/index.html"), "utf8");
    const again = await demo("--json");
    expect([again.status, again.stderr]).toEqual([DONE, ""]);
    const { rows, main, answer, problems, answers, ...rest } = JSON.parse(again.stdout);
    expect(rest).toEqual({ train: true, seed: 0, pairs: 1, page: "demo/index.html" });
    expect(rows.length).toBeGreaterThan(7);
    expect(main.map(({ name }: { name: string }) => name)).toContain("best other merge");
    expect(answer).toMatch(/^The layer swap solves /);
    expect(problems).toHaveLength(5);
    expect(answers.map((one: { answers: unknown[] }) => one.answers.length)).toEqual(Array(7).fill(5));
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
