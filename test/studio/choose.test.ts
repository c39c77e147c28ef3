// The studio's view Recipe, driven in a browser: what it writes is what the command line would merge.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parse } from "yaml";
import { analyze, suggest } from "../../src/index.js";
import { methodReferences } from "../../src/merge/index.js";
import type { Studio } from "../../src/studio/index.js";
import { layersOf } from "../../src/studio/recipe/board.js";
import { describeInBrowser, seriousViolations } from "../support/browser.js";
import { temporaryFolder, writeTiny } from "../support/checkpoints.js";
import { openStudio, takePicture } from "../support/studio-page.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);

describeInBrowser("choosing layers", () => {
  let browser: Browser;
  let studio: Studio;
  let page: Page;
  const bugs: unknown[] = [];

  beforeAll(async () => {
    const models = ["base", "math", "swahili"];
    for (const [seed, name] of models.entries()) await writeTiny(at(name), { seed, layers: 8 });
    mkdirSync(at("project"));
    const experts = ["math", "swahili"].map((name) => ({ name, source: at(name) }));
    const settings = { base: at("base"), experts, recipe: null, prompts: [] };
    writeFileSync(at("project", "studio.json"), JSON.stringify({ revision: 1, settings }));
    ({ studio, browser, page } = await openStudio(at("project"), bugs));
    page.on("console", (message) => {
      // The page asks again after these: a recipe that just got another name, settings that another request just changed.
      const isSettled = /status of 40[49]/.test(message.text());
      if (message.type() === "error" && !isSettled) bugs.push(message.text());
    });
    await page.getByRole("link", { name: "Recipe" }).click();
  });

  afterAll(async () => {
    await browser?.close();
    await studio?.close();
  });

  const picture = (name: string) => takePicture(page, name);
  const recipe = () => parse(readFileSync(at("project", "recipes", "recipe.yaml"), "utf8")) as Record<string, unknown>;
  const cell = (layer: number, name: string) => page.getByRole("gridcell", { name: `Layer ${layer} of ${name}:` });
  const saved = async (wanted: Record<string, unknown>) => {
    await expect.poll(recipe, { timeout: 5000 }).toEqual(wanted);
  };
  const swap = { method: "swap", task: at("math"), language: at("swahili") };

  it("starts with the default swap of the experts", async () => {
    await picture("empty");
    await page.getByRole("button", { name: "New recipe" }).click();
    // The two experts change places, and back.
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Task expert").selectOption("swahili");
    expect(await dialog.getByLabel("Language expert").inputValue()).toBe("0");
    await dialog.getByLabel("Task expert").selectOption("math");
    // Nothing was measured, so there is one way, and how to get the other.
    expect(await dialog.getByRole("radio").count()).toBe(1);
    await dialog.getByRole("link", { name: "Measure the changes" }).waitFor();
    await picture("new");
    await page.getByRole("button", { name: "Make the recipe" }).click();
    await cell(0, "swahili").waitFor();
    expect(recipe()).toEqual(swap);
    expect(await cell(0, "swahili").getAttribute("aria-selected")).toBe("true");
    expect(await cell(3, "math").getAttribute("aria-label")).toBe("Layer 3 of math: taken");
    await page.getByText("bit for bit").waitFor();
    await picture("default");
  });

  it("takes layers by click and by drag, and undoes", async () => {
    await cell(7, "swahili").click();
    await saved({ ...swap, bottom: 1, top: 1 });
    const [from, to] = [await cell(0, "swahili").boundingBox(), await cell(2, "swahili").boundingBox()];
    if (!from || !to) throw new Error("no cells");
    await page.mouse.move(from.x + 5, from.y + 5);
    await page.mouse.down();
    await page.mouse.move(to.x + 5, to.y + 5, { steps: 4 });
    await page.mouse.up();
    await saved({ ...swap, bottom: 3, top: 1 });
    await cell(4, "swahili").click();
    await cell(6, "swahili").click({ modifiers: ["Shift"] });
    await saved({ ...swap, bottom: 3, top: 4 });
    for (const _ of [1, 2, 3]) await page.getByRole("button", { name: "Undo" }).click();
    await saved({ ...swap, bottom: 1, top: 1 });
    await page.getByRole("button", { name: "Redo" }).click();
    await saved({ ...swap, bottom: 3, top: 1 });
    await page.getByRole("button", { name: "Undo" }).click();
    await saved({ ...swap, bottom: 1, top: 1 });
    await page.getByRole("button", { name: "Redo" }).click();
    await saved({ ...swap, bottom: 3, top: 1 });
  });

  it("averages and takes by keyboard alone", async () => {
    await cell(3, "swahili").focus();
    await page.keyboard.press("Control+Enter");
    await saved({ ...swap, bottom: 3, top: 1, bottom_transition: 1 });
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Shift+ArrowUp");
    await page.keyboard.press("Enter");
    await saved({ ...swap, layers: { language: "0-2,4-5,7", average: "3" } });
    await page.keyboard.press("End");
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("Enter");
    await saved({ ...swap, layers: { language: "0-2,4-5,7", average: "3" }, outside: "task" });
    await picture("keyboard");
  });

  it("keeps text and board in step, with errors at their line", { timeout: 120_000 }, async () => {
    const editor = page.locator(".cm-content");
    await editor.click();
    await page.keyboard.press("Control+a");
    // In one piece: a proposal that is open takes the Enter of slow typing.
    const mine = `# mine\nmethod: swap\ntask: ${at("math")}\nlanguage: ${at("swahili")}`;
    await page.keyboard.insertText(`${mine}\nbottm: 2`);
    await page.getByText('Line 5: unknown field "bottm"').waitFor();
    await picture("problem");
    await page.keyboard.press("Control+a");
    await page.keyboard.insertText(`${mine}\nbottom: 2\ntop: 0`);
    await expect.poll(() => cell(1, "swahili").getAttribute("aria-selected")).toBe("true");
    // A text that is no YAML keeps the board of the one before, dimmed.
    await page.keyboard.type(": [");
    await page.locator(".dimmed .towers").waitFor();
    await page.getByText("Line 6: the [ on this line has no ]; add it").waitFor();
    await picture("dimmed");
    for (const _ of ": [") await page.keyboard.press("Backspace");
    await page.locator(".dimmed").waitFor({ state: "detached" });
    await cell(2, "swahili").click();
    await saved({ ...swap, bottom: 3, top: 0 });
    expect(readFileSync(at("project", "recipes", "recipe.yaml"), "utf8")).toMatch(/^# mine\n/);
  });

  it("has a form for every method", async () => {
    const dialog = page.getByRole("dialog", { name: "Methods" });
    const open = () => page.getByRole("button", { name: /^Method / }).click();
    const listed = (within = dialog) =>
      within.locator("[data-method]").evaluateAll((all) => all.map((one) => one.getAttribute("data-method") ?? ""));
    const choose = async (name: string) => {
      await open();
      await dialog.locator(`[data-method=${name}]`).click();
    };
    await open();
    await dialog.locator("[data-method]").first().waitFor();
    const values = await listed();
    expect(values.toSorted()).toEqual(
      methodReferences()
        .map(({ name }) => name)
        .toSorted(),
    );
    expect(await listed(dialog.getByRole("region", { name: "Used most" }))).toHaveLength(10);
    expect(await dialog.getByRole("heading", { level: 3 }).allInnerTexts()).toEqual([
      "Used most",
      ...new Set(methodReferences().map(({ group }) => group)),
    ]);
    await picture("methods");
    await dialog.getByLabel(`Search ${values.length} methods`).fill("sign random");
    expect(await listed()).toEqual(expect.arrayContaining(["dare_ties", "della"]));
    expect(await listed()).not.toContain("slerp");
    await dialog.getByLabel(`Search ${values.length} methods`).fill("nothing of this kind");
    await dialog.getByText("No method has these words.").waitFor();
    expect(await seriousViolations(page)).toEqual([]);
    await page.keyboard.press("Escape");
    // The method that is open stays as it is.
    for (const value of [...values.filter((name) => name !== "swap"), "swap"]) {
      // Not that of the change before.
      const checked = page.waitForResponse((response) => {
        const asked = response.request().postData() ?? "";
        return response.url().endsWith("recipe.check") && new RegExp(`method: ${value}\\b`).test(asked);
      });
      await choose(value);
      const { problems } = (await (await checked).json()) as { problems: { message: string }[] };
      const messages = problems.map(({ message }) => message);
      // Only these need more than their models.
      if (value === "revert") expect(messages[0]).toMatch(/ are all missing/);
      else if (value === "moe") expect(messages[0]).toMatch(/positive_prompts: is missing/);
      else if (value === "aim") expect(messages[0]).toMatch(/^base-inputs does not exist/);
      else if (value === "harc") expect(messages[0]).toMatch(/its layers have no experts/);
      else if (value === "transplant") expect(messages[0]).toMatch(/has no tokenizer\.json/);
      else expect([value, messages]).toEqual([value, []]);
    }
    await choose("ties");
    await expect.poll(recipe).toMatchObject({ method: "ties" });
    // Typed while the form is drawn again, after another program changed another field.
    const density = page.getByLabel("density", { exact: true });
    await density.pressSequentially("0.");
    const file = at("project", "recipes", "recipe.yaml");
    writeFileSync(file, `${readFileSync(file, "utf8")}normalize: false\n`);
    await expect.poll(() => page.getByLabel("normalize", { exact: true }).inputValue()).toBe("false");
    await density.pressSequentially("4");
    await page.keyboard.press("Tab");
    await expect.poll(recipe, { timeout: 5000 }).toMatchObject({ method: "ties", density: 0.4, normalize: false });
    await picture("ties");
  });

  it("suggests", async () => {
    const experts = { task: at("math"), language: at("swahili") };
    const { suggestions: suggested } = await suggest({ base: at("base"), ...experts });
    await page.getByRole("button", { name: "Suggest recipes" }).click();
    const groups = page.getByRole("region", { name: /^From / });
    await groups.first().waitFor();
    // Grouped by evidence, in the words of the command line with the models' own names.
    expect(await groups.getByRole("heading").allInnerTexts()).toEqual([
      "From where these experts changed",
      "From papers, scaled to these layers",
    ]);
    for (const [i, evidence] of ["changes", "published"].entries()) {
      const wanted = suggested.filter((one) => one.evidence === evidence);
      expect(await groups.nth(i).locator("li .about").allInnerTexts()).toEqual(
        wanted.map(({ reason }) =>
          reason.replaceAll(/the (task|language) expert/g, (_, role) => (role === "task" ? "math" : "swahili")),
        ),
      );
      expect(await groups.nth(i).locator("svg.thumbnail").count()).toBe(wanted.length);
    }
    const owned = async () =>
      (
        await page
          .getByRole("gridcell", { name: /of swahili: (taken|averaged)/ })
          .evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")))
      ).toReversed();
    const [text, before] = [recipe(), await owned()];
    await page.getByRole("button", { name: "Preview The reverse" }).click();
    const { owners } = suggested.find(({ name }) => name === "reverse") ?? { owners: { rows: [], outside: [] } };
    const wanted = owners.rows.flatMap(({ mlp }, layer) =>
      mlp[0] === at("swahili") ? [`Layer ${layer} of swahili: taken`] : [],
    );
    await expect.poll(owned).toEqual(["Outside the layers of swahili: taken", ...wanted]);
    await cell(3, "swahili").click();
    await picture("preview");
    expect(await seriousViolations(page)).toEqual([]);
    await page.getByRole("button", { name: "Back" }).click();
    await expect.poll(async () => [recipe(), await owned()]).toEqual([text, before]);
    await page.getByRole("button", { name: "Preview The paper's default", exact: true }).click();
    await page.getByRole("button", { name: "Use", exact: true }).click();
    await expect.poll(() => page.getByLabel("Open a recipe").inputValue()).toBe("paper-default");
    await page.getByText("bit for bit").waitFor();
    await page.getByRole("button", { name: "Preview The reverse" }).click();
    const used = suggested.find(({ name }) => name === "paper-default")?.owners;
    const differing = owners.rows.flatMap(({ mlp }, layer) => (mlp[0] === used?.rows[layer]?.mlp[0] ? [] : layer));
    const said = await page.getByText("Differs from the open recipe in").innerText();
    expect(layersOf(/layers? ([\d, -]+\d)/.exec(said)?.[1], 8)).toEqual(differing);
    await picture("suggested");
    await page.getByRole("button", { name: "Back" }).click();
  });

  it("shows how much each expert changed in the cells, by layers and by halves", async () => {
    await page.getByRole("link", { name: "Measure changes" }).click();
    await page.getByRole("button", { name: "Measure changes" }).click();
    await page.getByRole("application", { name: "Changes of math" }).waitFor();
    await page.getByRole("link", { name: "Recipe" }).click();
    const { matrices, ...found } = await analyze({ base: at("base"), experts: { math: at("math") } });
    const rows = found.parts.filter(({ layer, part }) => layer === 2 && part.endsWith("_proj"));
    const share = (of: typeof rows) => {
      const sum = (pick: (one: (typeof matrices)["experts"][number]) => number) =>
        of.reduce((total, { experts: [one] }) => total + (one ? pick(one) : 0), 0);
      return `${((100 * sum((one) => one.rows * (one.shares[0] ?? 0))) / sum((one) => one.rows)).toFixed(1)}%`;
    };
    const label = (name: string) => page.getByRole("gridcell", { name }).getAttribute("aria-label");
    expect(await label("Layer 2 of math:")).toContain(`, ${share(rows)} of rows changed`);
    /** What is said to fill a cell, and the largest share of the cells. */
    const scale = async () => {
      const labels = await page
        .locator("[role=gridcell][aria-label*='rows changed']")
        .evaluateAll((cells) =>
          cells.map((cell) => Number(/([\d.]+)% of rows/.exec(cell.getAttribute("aria-label") ?? "")?.[1])),
        );
      const said = await page.getByText("A full bar is").innerText();
      return [Number(/A full bar is ([\d.]+)%/.exec(said)?.[1]), Math.max(...labels)];
    };
    const [ofLayers, largest] = await scale();
    expect(ofLayers).toBe(largest);
    await page.getByRole("button", { name: "Halves" }).click();
    const [ofHalves, largestHalf] = await scale();
    expect(ofHalves).toBe(largestHalf);
    expect(ofHalves).not.toBe(ofLayers);
    const inAttention = rows.filter(({ part }) => /^[qkvo]_proj$/.test(part));
    expect(await label("Layer 2, attention of math:")).toContain(`, ${share(inAttention)} of rows changed`);
    await page.getByRole("gridcell", { name: "Layer 2, attention of math:" }).hover();
    await page.getByText(`Layer 2, attention, math ${share(inAttention)}`).waitFor();
    await picture("evidence");
    await page.getByRole("button", { name: "Layers", exact: true }).click();
  });

  it("starts a new recipe from what was measured, beside the paper's default", async () => {
    await page.getByRole("button", { name: "New recipe" }).click();
    const dialog = page.getByRole("dialog");
    const measured = dialog.getByRole("radio", { name: "Where these experts changed" });
    await measured.waitFor();
    // Neither is known to score higher, so the person chooses.
    expect(await measured.isChecked()).toBe(false);
    expect(await dialog.getByRole("button", { name: "Make the recipe" }).isDisabled()).toBe(true);
    await measured.check();
    await dialog.getByRole("radio", { name: "The paper's default" }).waitFor();
    // The layers that \`layergraft suggest\` finds by the same rule.
    const { suggestions: found } = await suggest({ base: at("base"), task: at("math"), language: at("swahili") });
    const { rows = [] } = found.find(({ name }) => name === "profile")?.owners ?? {};
    const expected = [...rows.keys()].filter((layer) => rows[layer]?.mlp[0] === at("swahili"));
    const said = await dialog.locator("label.chosen").innerText();
    expect(layersOf(/Layers ([\d, -]+\d): swahili/.exec(said)?.[1], 8)).toEqual(expected);
    await picture("new-measured");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
  });

  it("lists its keys, which do what they say", async () => {
    await page.getByRole("heading", { level: 1 }).click();
    await page.keyboard.press("?");
    const list = page.getByRole("dialog", { name: "Keys" });
    await list.waitFor();
    const keys = await list.getByRole("region", { name: "Board" }).locator("kbd").allInnerTexts();
    expect(keys).toEqual(expect.arrayContaining(["↑", "Shift+↓", "Ctrl+Enter", "Space", "Esc"]));
    expect(await seriousViolations(page)).toEqual([]);
    await picture("keys");
    await page.keyboard.press("Escape");
    await list.waitFor({ state: "detached" });
    // A sign that is typed is no key.
    await page.locator(".cm-content").click();
    await page.keyboard.press("?");
    await expect.poll(() => page.locator(".cm-content").innerText()).toContain("?");
    expect(await list.count()).toBe(0);
    await page.keyboard.press("Control+z");
    await expect.poll(() => page.locator(".cm-content").innerText()).not.toContain("?");
  });

  it("leads on to the next view", async () => {
    const next = page.getByRole("navigation", { name: "Next step" }).getByRole("link");
    for (const [text, view] of [
      ["Ask and score it", "Try"],
      ["Make a model, an experiment or a page", "Write"],
      ["See all runs", "Experiments"],
    ] as const) {
      await next.getByText(text).click();
      await expect.poll(() => page.locator(".views [aria-current]").innerText()).toBe(view);
    }
    await page.getByRole("link", { name: "Recipe", exact: true }).click();
  });

  it("renames, duplicates and deletes", async () => {
    const open = page.getByLabel("Open a recipe");
    const before = await open.inputValue();
    await page.getByRole("button", { name: "Duplicate" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Duplicate" }).click();
    await expect.poll(() => open.inputValue()).toBe(`${before}-2`);
    await page.getByRole("button", { name: "Rename" }).click();
    await page.getByLabel("Name", { exact: true }).fill("other");
    await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
    await expect.poll(() => open.inputValue()).toBe("other");
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("Start from a swap").waitFor();
    await expect.poll(() => readdirSync(at("project", "recipes"))).not.toContain("other.yaml");
    await open.selectOption(before);
    await cell(0, "math").waitFor();
  });

  it("has no serious violations, light and dark, and no errors", async () => {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await seriousViolations(page)).toEqual([]);
      for (const width of [1400, 900, 400]) {
        await page.setViewportSize({ width, height: 900 });
        await picture(`${colorScheme}-${width}`);
        expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
      }
      await page.setViewportSize({ width: 1400, height: 900 });
    }
    expect(bugs).toEqual([]);
  });
});
