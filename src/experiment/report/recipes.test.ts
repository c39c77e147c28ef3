import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { drawnPage } from "../../../test/support/drawn-page.js";
import { markdownOf, type ReportOfOptions, reportOf } from "../../../test/support/report-of.js";
import { experimentPage } from "./page.js";
import { findRecipe } from "./recipes.js";

const PLAN = `
name: small
base: org/Base-1B
experts:
  math: { role: task, train: { run: { method: lora, data: m.jsonl, steps: 2, optimizer: { lr: 1.0e-3 } } } }
  swahili: { role: language, language: sw, folders: [s1, s2] }
merges:
  - name: layer swap
    recipe: { method: swap, task: math, language: swahili }
    grid: { bottom: [1, 2] }
    default: { bottom: 2 }
  - name: " É/soup "
    recipe: { method: soup, models: [math, { model: swahili-1, weight: 2 }] }
evaluate: { tasks: ["mgsm_{language}"] }
`;
const made = (options: ReportOfOptions = {}) => reportOf(PLAN, () => 5, options);

describe("recipes", () => {
  const { report, status } = made({ checkpoints: [{ path: "run/last", samples: 8, isAdapter: true }] });
  const run = status.expansion.steps.find(({ kind }) => kind === "train")?.key;
  const adapter = `../../../../models/org/Base-1B+../../steps/${run}/run/last`;

  it("are of trained experts and reported merges, with their rows and commands", () => {
    const chosen = "layer swap, default and chosen";
    expect(report.recipes.map(({ id, rows, command }) => [id, rows, command])).toEqual([
      ["math-1", ["math"], "layergraft experiment plan.yaml export math-1 --out math-1"],
      ...["layer-swap-math-1-x-swahili-1-bottom-2", "layer-swap-math-1-x-swahili-2-bottom-2"].map((id) => [
        ...[id, [chosen], `layergraft experiment plan.yaml export ${id} --out ${id}`],
      ]),
      [
        "É-soup-math-1-x-swahili-1",
        [" É/soup "],
        "layergraft experiment plan.yaml export É-soup-math-1-x-swahili-1 --out É-soup-math-1-x-swahili-1",
      ],
    ]);
  });

  it("name their sources from the folder of recipes", () => {
    expect(report.recipes.map(({ text }) => parse(text))).toEqual([
      { method: "soup", models: [adapter] },
      { method: "swap", task: adapter, language: "../../../../models/s1", bottom: 2 },
      { method: "swap", task: adapter, language: "../../../../models/s2", bottom: 2 },
      { method: "soup", models: [adapter, { model: "../../../../models/s1", weight: 2 }] },
    ]);
  });

  it("are in Markdown and on the page, where rows link to them", async () => {
    expect(markdownOf(report)).toContain(`\`\`\`yaml\n${report.recipes[1]?.text}\`\`\`\n`);
    const html = await drawnPage(experimentPage(report));
    expect(html).toContain(`<code>${report.recipes[3]?.command}</code>`);
    expect(html).toContain('<a href="#recipe-layer-swap-math-1-x-swahili-1-bottom-2">layer swap, default');
    expect(html).toContain('id="recipe-layer-swap-math-1-x-swahili-1-bottom-2"');
  });

  it("are found by row, model and file, with absolute folders", () => {
    const soup = { method: "soup", models: [`/models/org/Base-1B+/work/small.experiment/steps/${run}/run/last`] };
    for (const row of ["math", "math-1"]) {
      expect(findRecipe(row, report, status)).toMatchObject({ name: "math-1", recipe: soup });
    }
    // A configuration that is not reported, too.
    const unreported = findRecipe("layer swap, math-1 x swahili-2, bottom 1", report, status);
    expect(unreported.recipe).toMatchObject({ method: "swap", language: "/models/s2", bottom: 1 });
    expect(findRecipe("base", report, status).recipe).toEqual({ method: "soup", models: ["/models/org/Base-1B"] });
  });

  it("are not found by other words", () => {
    const find = (row: string) => () => findRecipe(row, report, status);
    expect(find("math-2")).toThrow("there is no row math-2 in the report; did you mean math-1?");
    expect(find("layer swap")).toThrow(
      /^layer swap is a merge with several rows. Export one of them: layer-swap-math-1-x-swahili-1-bottom-2, layer-swap-math-1-x-swahili-2-/,
    );
    expect(find("tables")).toThrow(/^there is no row tables in the report; there are math-1, layer-swap-/);
    expect(find("layer swap, default and chosen")).toThrow(
      "is the mean of 2 models. Export one of them: layer-swap-math-1-x-swahili-1-bottom-2, layer-swap-math-1-x-swahili-2-bottom-2",
    );
  });
});

it("names the commit of models on the hub, and the recipe where options replace what the plan says", () => {
  const folder = "/cache/models--org--Base-1B/snapshots/0123abcd";
  const place = { isAsWritten: false };
  const { report } = reportOf(
    "name: small\nbase: b\nexperts: { math: { role: task, folders: [m] } }\nmerges: [{ name: soup, recipe: { method: soup, models: [base, math] } }]\nevaluate: { tasks: [t] }\n",
    () => 5,
    { place, folderOf: (source) => (source === "b" ? folder : `/models/${source}`) },
  );
  const [recipe] = report.recipes;
  expect(parse(recipe?.text ?? "").models).toEqual(["org/Base-1B@0123abcd", "../../../../models/m"]);
  expect(recipe?.command).toBe("layergraft merge small.experiment/report/recipes/soup-math-1.yaml --out soup-math-1");
});
