// The demo's page, and what it reports of its own plan, with results that a function gives.
// @module-tag slow
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { drawnPage } from "../../test/support/drawn-page.js";
import { reportOf } from "../../test/support/report-of.js";
import { samplesFile } from "../evaluate/index.js";
import { EVALUATION } from "../experiment/index.js";
import { writeMiniature } from "./miniature.js";
import { demoPage } from "./page.js";
import { demoAnswer, MARKS_LEGEND, mainAnswers, mainRows, type Problem, shownProblems } from "./results.js";
import { type DemoResult, runDemo } from "./run-demo.js";
import { swapRecipe } from "./swap.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-demo-results-"));
afterAll(() => rmSync(root, { recursive: true }));

const PLAN = readFileSync("assets/demo/plan.yaml", "utf8");

/** Tenths of the 20 Swahili problems that models solve, by their family or name. Everything else: 1. */
type Tenths = Readonly<Record<string, number>>;

const CLEAR: Tenths = {
  ...{ base: 0, math: 2, swahili: 1, soup: 2, "soup by magnitude": 3 },
  ...{ TIES: 4, "task arithmetic": 2, "layer swap": 8 },
};

interface Given {
  readonly tenths?: Tenths;
  /** Configurations that solve most of the problems for choosing. */
  readonly chosen?: readonly string[];
  readonly folderOf?: (source: string) => string;
}

function resultsOf({ tenths = CLEAR, chosen = ["bottom 3, top 0"], folderOf }: Given = {}) {
  return reportOf(
    PLAN,
    ({ of, request: { task } }) => {
      if (task === "choosing_sw.yaml") return chosen.includes(of.configuration) ? 8 : 4;
      if (task === "problems_en.yaml") return 9;
      return tenths[of.name] ?? tenths[of.entry] ?? 1;
    },
    folderOf ? { folderOf } : {},
  );
}

describe("the demo's plan", () => {
  it("has the swap's leads over paired problems, adjusted for the number of all other rows", async () => {
    const leads = mainRows(resultsOf()).map(({ name, lead }) => [name, lead] as const);
    // Holm's method over ten rows, of exact tests of 16, 14, 14, 14, 12, 12, 12, 10, 8 and 0 problems gained and none lost.
    expect(leads.map(([name, lead]) => [name, lead?.difference, lead?.pValue])).toEqual([
      ["base", expect.closeTo(0.8, 12), expect.closeTo((10 * 2) / 2 ** 16, 12)],
      ["math expert", expect.closeTo(0.6, 12), expect.closeTo((6 * 2) / 2 ** 12, 12)],
      ["Swahili expert", expect.closeTo(0.7, 12), expect.closeTo((9 * 2) / 2 ** 14, 12)],
      ["best average", expect.closeTo(0.5, 12), expect.closeTo((3 * 2) / 2 ** 10, 12)],
      ["best other merge", expect.closeTo(0.4, 12), expect.closeTo((2 * 2) / 2 ** 8, 12)],
      ["layer swap", undefined, undefined],
    ]);
    const interval = leads[1]?.[1]?.interval;
    expect(interval?.low).toBeGreaterThan(0.2);
    expect(interval?.low).toBeLessThan(0.6);
    expect(interval?.high).toBeGreaterThan(0.6);
    expect(interval?.high).toBeLessThan(0.9);
  });

  it("is run after the shown problems are told", async () => {
    const folder = join(root, "stopped");
    const controller = new AbortController();
    let told: readonly Problem[] = [];
    let answers = 0;
    const run = runDemo({
      ...{ out: folder, signal: controller.signal, onAnswers: () => answers++ },
      onProblems: (problems) => {
        told = problems;
        controller.abort();
      },
    });
    await expect(run).rejects.toThrow(/stopped|cancelled/i);
    expect(told).toEqual((await shownProblems(folder)).map(({ problem }) => problem));
    expect([told.length, answers]).toEqual([5, 0]);
  });
});

/** A demo in a folder: shipped models, problems, and answers to them. */
async function demoIn(out: string, chosen?: readonly string[]): Promise<DemoResult> {
  mkdirSync(out);
  await writeMiniature(out);
  cpSync("assets/demo", out, { recursive: true });
  const result = resultsOf({ folderOf: (source) => join(out, source), ...(chosen ? { chosen } : {}) });
  const { report, status, experiment } = result;
  Object.assign(status.store, { folder: join(out, "experiment") });
  const problems = rowsIn(out);
  for (const { model, tasks } of status.expansion.models) {
    for (const { request, steps } of tasks) {
      const [step] = steps;
      if (request.task !== "problems_sw.yaml" || !step) continue;
      writeSamples(
        status.store.stepFolder(step.key),
        problems.map((problem) => answerOf(model.name, problem)),
      );
    }
  }
  return { out, report, status, experiment };
}

const rowsIn = (out: string): Problem[] =>
  readFileSync(join(out, "data", "problems.jsonl"), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

/** The swap solves all, the math expert finds the numbers by wrong equations, and the others answer with markup. */
function answerOf(model: string, { solution, answer }: Problem): { output: string; exact: number } {
  if (model.startsWith("layer swap")) return { output: ` ${solution}`, exact: 1 };
  if (model === "math-1") return { output: ` ${answer} + 0 = ${answer}.`, exact: 1 };
  if (model === "base") return { output: "", exact: 0 };
  return { output: " <b>9</b>.", exact: 0 };
}

function writeSamples(stepFolder: string, answers: readonly { output: string; exact: number }[]): void {
  const file = join(stepFolder, EVALUATION, samplesFile("problems_sw"));
  mkdirSync(dirname(file), { recursive: true });
  const lines = answers.map(
    ({ output, exact }, i) => `${JSON.stringify({ id: `${i + 1}`, output, verdict: { exact } })}\n`,
  );
  writeFileSync(file, lines.join(""));
}

describe("a demo's page", () => {
  const out = join(root, "page");
  let result: DemoResult;
  let page: string;
  beforeAll(async () => {
    result = await demoIn(out);
    page = await drawnPage(
      await demoPage(result, { typed: (command) => `node main.js ${command.replace("layergraft ", "")}` }),
    );
  });
  const titlesIn = (text: string) => [...text.matchAll(/<h2[^>]*>([^<]*)</g)].map(([, title]) => title);
  const rowsOf = (text: string, title: string) => {
    const [, after = ""] = text.split(`>${title}<`);
    const [table = ""] = after.split("</table>");
    const rows = [...table.matchAll(/<tr[^>]*>(.*?)<\/tr>/gs)].map(([, row = ""]) => row);
    return rows.map((row) =>
      [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell = ""]) =>
        cell
          .replace(/<[^>]*>/g, " ")
          .replace(/\s+/g, " ")
          .trim(),
      ),
    );
  };

  it("has the question before the result, and the changes after it", () => {
    const titles = titlesIn(page);
    expect(titles.slice(0, 3)).toEqual(["The question", "The swap", "The result"]);
    expect(titles.slice(-2)).toEqual(["Where the experts changed", "Start with your own models"]);
    expect(page).toContain(demoAnswer(result));
    expect(page).toContain(MARKS_LEGEND);
    expect(page).toContain("<code>node main.js swap --task math-expert --language swahili-expert --out merged</code>");
  });

  it("has the answers of the main table's models to the problems", async () => {
    const shown = await shownProblems(out);
    const answers = mainAnswers(result, shown);
    expect(answers.map(({ model, score, answers: all }) => [model, score, all.map(({ mark }) => mark)])).toEqual([
      ["base", 0, Array(5).fill("wrong")],
      ["math expert", 0.2, Array(5).fill("wrong equation")],
      ["Swahili expert", 0.1, Array(5).fill("wrong")],
      ["best average", 0.3, Array(5).fill("wrong")],
      ["best other merge", 0.4, Array(5).fill("wrong")],
      ["layer swap", 0.8, Array(5).fill("right")],
    ]);
    expect(answers.at(-1)?.answers.map(({ text }) => text)).toEqual(shown.map(({ problem }) => problem.solution));
    const cells = rowsOf(page, "The answers");
    expect(cells.find(([model]) => model === "layer swap")).toEqual([
      ...["layer swap", "80.0", ...shown.map(({ problem }) => `${problem.solution} ✓ right`)],
    ]);
    expect(cells.find(([model]) => model === "base")).toEqual(["base", "0.0", ...Array(5).fill("no answer ✗ wrong")]);
    expect(cells.find(([model]) => model === "math expert")?.[2]).toMatch(/^\d+ \+ 0 = \d+\. ~ wrong equation$/);
    for (const { problem } of shown) {
      for (const text of [problem.sw, problem.en]) expect(page).toContain(text);
    }
  });

  it("shows data as text, never as markup", () => {
    expect(page).toContain("&lt;b&gt;9&lt;/b&gt;.");
    expect(page).not.toMatch(/<script|<b>/);
  });

  it("names the source of each layer of the swap, the output at the top", () => {
    const rows = [...page.matchAll(/<tr><th scope="row">(layer \d|embeddings[^<]*)<\/th>(.*?)<\/tr>/gs)].map(
      ([, label, cells = ""]) => [
        label,
        ...cells
          .replace(/<[^>]*>/g, " ")
          .trim()
          .split(/\s+/),
      ],
    );
    const math = [7, 6, 5, 4, 3].map((layer) => [`layer ${layer}`, "math", "math", "Swahili"]);
    const swahili = [2, 1, 0].map((layer) => [`layer ${layer}`, "math", "Swahili", "Swahili"]);
    expect(rows.slice(0, -1)).toEqual([...math, ...swahili]);
    expect(rows.at(-1)?.[0]).toBe("embeddings, output");
    expect(page).toContain(
      "The swap takes layers 0-2 from swahili, layers 3-15 from math, embeddings and output from the average of both.",
    );
    expect(swapRecipe(result.status, out)).toMatchObject({
      ...{ method: "swap", task: "math-expert", language: "swahili-expert", bottom: 3, top: 0 },
    });
  });

  it("shows that each expert changed only where it was trained", async () => {
    const { sections } = await demoPage(result);
    const grids = sections.flatMap(({ id, figures }) => (id === "changes" ? figures : []));
    const changed = grids.map((figure) => {
      if (figure.kind !== "grid") return [];
      // As the page rounds them.
      const isChanged = (cell: unknown) => typeof cell === "number" && Math.round(100 * cell) > 0;
      return figure.rows.filter((_, row) => figure.cells[row]?.some(isChanged));
    });
    expect(changed).toEqual([
      ["7", "6", "5", "4", "3"],
      ["2", "1", "0"],
    ]);
    expect(page).toContain("not that experts divide the layers by themselves");
  });

  it("has differences with their intervals, of the chosen swap too", () => {
    const text = page.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
    expect(text).toMatch(/reverse swap, control of layer swap \+70\.0 \+\d\d\.\d \+8\d\.\d &lt; 0\.001 /);
    expect(text).toMatch(/bottom 3, top 0 against math-1 0 12 \+60\.0 \+\d\d\.\d to \+\d\d\.\d &lt; 0\.001/);
  });

  it("leaves out what the plan no longer has", async () => {
    const { report, status } = result;
    const bare = {
      ...result,
      report: { ...report, overviews: [] },
      status: {
        ...status,
        expansion: {
          ...status.expansion,
          models: status.expansion.models.filter(({ model }) => model.kind !== "merge"),
        },
      },
    };
    const titles = titlesIn(await drawnPage(await demoPage(bare)));
    expect(titles).not.toContain("The swap");
    expect(titles).not.toContain("The result");
    expect(titles.slice(-2)).toEqual(["Where the experts changed", "Start with your own models"]);
  });
});
