// The demo as a newcomer runs it: what it prints, and the page that it writes.
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "./support/checkpoints.js";
import { DONE, layergraft, type Outcome } from "./support/command.js";

/** Folder with what the demo printed in the checkout, where it has run there just now, as in .ci/run. */
const RECORDED = process.env.LAYERGRAFT_DEMO;
const folder = temporaryFolder();
const [cwd, out] = RECORDED ? [join(import.meta.dirname, ".."), "demo-output"] : [folder, "shipped"];
/** How printed commands begin: as the demo was started. */
const PROGRAM = RECORDED ? String.raw`node \S+/main\.js` : "layergraft";
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What the demo prints. What npm and the build print before it in a recording is left out. */
async function runDemo(): Promise<Outcome> {
  if (!RECORDED) return layergraft(["demo", "--out", out], { cwd });
  const recorded = (stream: string, start: RegExp) => {
    const text = readFileSync(join(RECORDED, stream), "utf8");
    return text.slice(text.search(start));
  };
  const stdout = recorded("stdout", /^The layer swap solves/m);
  return { status: DONE, signal: null, stdout, stderr: recorded("stderr", /^A math expert learned/m) };
}

/** A model's five answers, its score and its name: `✗ 9 + 7 = 16.    ...    7.3%  math expert`. */
const ANSWERS = /^((?:[✓~✗] .{15}){5}) *(\d+\.\d)% {2}(.+)$/;
const answersIn = (stderr: string) =>
  stderr.split("\n").flatMap((line) => {
    const [, cells = "", score, model] = ANSWERS.exec(line) ?? [];
    return model === undefined ? [] : [{ model, score: Number(score), marks: cells.match(/[✓~✗]/g)?.join("") }];
  });
const ROW = /^(base|math expert|Swahili expert|best average|best other merge|random layers|layer swap) {2,}/;
const rowsIn = (stdout: string) =>
  stdout
    .split("\n")
    .filter((line) => ROW.test(line))
    .map((line) => line.split(/ {2,}/));

/** What each demo prints and writes. */
function describeOutput(outcome: () => Outcome): void {
  it("shows five problems before the answers to them", () => {
    expect(outcome().status).toBe(DONE);
    const lines = outcome().stderr.split("\n");
    expect(lines[0]).toMatch(
      /^A math expert learned mathematics in English, a Swahili expert Swahili without word problems\./,
    );
    expect(lines[1]).toMatch(/ 5 of them, drawn before any model answered:$/);
    const firstAnswer = lines.findIndex((line) => ANSWERS.test(line));
    const swahili = lines.flatMap((line, at) => (/^[1-5] {2}\S.* ngapi sasa\?$/.test(line) ? [at] : []));
    expect(swahili).toHaveLength(5);
    for (const at of swahili) {
      expect(lines[at + 1]).toMatch(/^ {3}\S.* have now\?$/);
      expect(at).toBeLessThan(firstAnswer);
    }
    expect(lines).toContainEqual(expect.stringMatching(/^(?:[1-5] {2}\d+ [+-] \d+ = \d+\. *){5}$/));
    // Evaluations are shown by their answers alone.
    expect(outcome().stderr).not.toMatch(/^done +evaluate/m);
    expect(outcome().stderr).toMatch(new RegExp(`^ {2}${PROGRAM} experiment ${out}/plan\\.yaml run$`, "m"));
  });

  it("ends with the rows, the layers and the page", () => {
    const lines = outcome().stdout.split("\n");
    // Random layers are asked no English problems.
    for (const row of rowsIn(outcome().stdout)) expect(row).toHaveLength(row[0] === "random layers" ? 4 : 5);
    expect(lines).toContain("The layer swap, from its input to its output:");
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}(?:██|░░|▒▒)+$/));
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}██ Swahili expert +layers? /));
    expect(lines.at(-2)).toBe(`All methods and controls, answers, and where the experts changed: ${out}/index.html`);
  });

  it("writes a page that needs no network, and the swap as a recipe that answers", async () => {
    const page = readFileSync(join(cwd, out, "index.html"), "utf8");
    expect(page).not.toMatch(/https?:|src=|@import|url\(/);
    expect(page).not.toContain("__DATA__");
    const plan = await layergraft(["merge", `${out}/swap.yaml`, "--dry-run"], { cwd });
    expect(plan.stdout).toMatch(/^Layer swap: bottom \d, top \d/);
    const [, recipe = "", prompt = ""] =
      new RegExp(` ${PROGRAM} generate (\\S+) --chat --prompt ['"](.+)['"]$`, "m").exec(outcome().stderr) ?? [];
    const { stdout } = await layergraft(["generate", recipe, "--chat", "--prompt", prompt, "--quiet"], { cwd });
    expect(stdout).toMatch(/^ ?\d+ [+-] \d+ = \d+\.\n$/);
  });
}

describe("the demo of the shipped models", { tags: ["slow"], timeout: 600_000 }, () => {
  let first: Outcome;
  beforeAll(async () => {
    first = await runDemo();
  }, 600_000);
  describeOutput(() => first);

  it("shows the answers of each model, and resumes silently with all of them as JSON", async () => {
    const models = answersIn(first.stderr).map(({ model }) => model);
    expect(new Set(models).size).toBe(models.length);
    for (const model of ["base", "math expert", "Swahili expert", "soup", "task arithmetic"])
      expect(models).toContain(model);
    expect(models).toContainEqual(expect.stringMatching(/^layer swap, bottom \d, top \d( \(default\))?$/));
    const page = readFileSync(join(cwd, out, "index.html"), "utf8");
    const again = await layergraft(["demo", "--out", out, "--json"], { cwd });
    expect([again.status, again.stderr]).toEqual([DONE, ""]);
    const { rows, main, answer, problems, answers, ...rest } = JSON.parse(again.stdout);
    expect(rest).toEqual({ page: `${out}/index.html` });
    expect(first.stdout.split("\n")[0]).toBe(answer);
    expect(rows.length).toBeGreaterThan(main.length);
    const printed = rowsIn(first.stdout);
    expect(main.map(({ name }: { name: string }) => name)).toEqual(printed.map(([name]) => name));
    const percent = ({ bar }: { bar: { mean: number } }) => (100 * bar.mean).toFixed(1);
    expect(main.map(percent)).toEqual(printed.map(([, , score]) => score));
    expect(problems).toHaveLength(5);
    for (const { sw } of problems) expect(first.stderr).toContain(sw);
    expect(answers.map(({ model }: { model: string }) => model)).toEqual(
      printed.flatMap(([name]) => (name === "random layers" ? [] : [name])),
    );
    const marks = answers.map((one: { answers: { mark: string }[] }) => one.answers.map(({ mark }) => mark));
    const signs: Record<string, string> = { right: "✓", "wrong equation": "~", wrong: "✗" };
    const shown = answersIn(first.stderr);
    for (const [i, model] of ["base", "math expert", "Swahili expert"].entries()) {
      const signed = marks[i].map((mark: string) => signs[mark]).join("");
      expect([model, signed]).toEqual([model, shown.find((one) => one.model === model)?.marks]);
    }
    // Its commands are those that start layergraft as it was started.
    const untyped = (text: string) =>
      text.replace(/(?:node [^" ]+main\.js|[^" ]*layergraft) (?=swap |experiment )/g, "");
    expect(untyped(page)).not.toBe(page);
    expect(untyped(readFileSync(join(cwd, out, "index.html"), "utf8"))).toBe(untyped(page));
  });

  it("has the scores that the shipped models are published with", () => {
    const table = readFileSync(join(import.meta.dirname, "../examples/miniature/README.md"), "utf8");
    const published = (row: string) => {
      const line = table.split("\n").find((one) => one.startsWith(`| ${row}`)) ?? "";
      return Number(/ ([\d.]+)% \|$/.exec(line)?.[1]);
    };
    const printed = new Map(
      rowsIn(first.stdout).map(([name = "", about, score]) => [name, { about, score: Number(score) }]),
    );
    const rows = {
      base: "base",
      "math expert": "math expert",
      "Swahili expert": "Swahili expert",
      "layer swap": "layer swap",
    };
    for (const [name, row] of Object.entries(rows)) {
      // Another processor may round another way: a few of 1,000 problems.
      expect([name, Math.abs((printed.get(name)?.score ?? Number.NaN) - published(row)) <= 0.5]).toEqual([name, true]);
    }
    const score = (name: string) => printed.get(name)?.score ?? Number.NaN;
    for (const name of ["base", "math expert", "Swahili expert"]) expect(score(name)).toBeLessThan(10);
    expect(score("layer swap")).toBeGreaterThan(75);
    expect(score("layer swap")).toBeGreaterThan(score("best average") + 40);
  });

  it("begins with the sentences of the result", () => {
    expect(first.stdout.split("\n")[0]).toMatch(
      /^The layer swap solves \d+\.\d% of the Swahili word problems, \d+\.\d points above \S.*, the best alternative \(\d+\.\d%; 95% interval of the difference: .*\)\. The best average \(\S.*\) solves \d+\.\d% and the better expert \(\S.*\) solves \d\.\d%\./,
    );
    expect(first.stdout).toMatch(/^Word problems solved, in percent:\n/m);
  });
});
