import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { planRecipe } from "../plan/planner.js";
import { readRecipe } from "../recipe/recipe-file.js";
import { executePlan } from "./execute-plan.js";
import { unknownFields, writeCardFindings } from "./model-card.js";

const sha256 = (content: string | Uint8Array) => createHash("sha256").update(content).digest("hex");

it("names local experts of one base by the bytes of their weights, as sha256sum does", async () => {
  const root = temporaryFolder();
  const [math, swahili] = [join(root, "math"), join(root, "swahili")];
  await writeTiny(math, { seed: 1 });
  await writeTiny(swahili, { seed: 2 });
  const out = join(root, "out");
  const opened = await planRecipe({ method: "soup", models: [math, swahili] });
  expect(new Set(opened.plan.sources.map(({ digest }) => digest)).size).toBe(1);
  await executePlan(opened, { out });
  const digestOf = (folder: string) => {
    const names = readdirSync(folder).filter((name) => name.endsWith(".safetensors"));
    const digests = names.sort().map((name) => [sha256(readFileSync(join(folder, name))), name] as const);
    return digests.length === 1
      ? ` (SHA-256 of its weights \`${digests[0]?.[0]}\`)`
      : ` (SHA-256 of the \`sha256sum\` lines of its ${digests.length} weight files \`${sha256(digests.map(([digest, name]) => `${digest}  ${name}\n`).join(""))}\`)`;
  };
  const card = readFileSync(join(out, "README.md"), "utf8");
  expect(card).toContain(`\n- math, a local folder${digestOf(math)}\n- swahili, a local folder${digestOf(swahili)}\n`);
  expect(digestOf(math)).not.toBe(digestOf(swahili));
});

/** The card of a soup of two models whose cards say something. */
async function cardOf(first: string, second: string) {
  const root = temporaryFolder();
  for (const [i, front] of [first, second].entries()) {
    await writeTiny(join(root, `model-${i}`), { seed: i + 1 });
    writeFileSync(join(root, `model-${i}`, "README.md"), `---\n${front}\n---\n\n# Model ${i}\n`);
  }
  const models = [join(root, "model-0"), join(root, "model-1")];
  await executePlan(await planRecipe({ method: "soup", models }), { out: join(root, "out") });
  const card = readFileSync(join(root, "out", "README.md"), "utf8");
  return { root, card, front: parse(/^---\n([\s\S]*?)\n---\n/.exec(card)?.[1] ?? "") };
}

const shared = {
  base_model_relation: "merge",
  library_name: "transformers",
  pipeline_tag: "text-generation",
  tags: ["merge", "layergraft", "model-soup"],
};

it("inherits data sets, and a license with its name and link if the models have the same", async () => {
  const license = "license: other\nlicense_name: tiny-license\nlicense_link: LICENSE";
  const { card, front } = await cardOf(
    `${license}\ndatasets:\n  - org/math\n  - org/both`,
    `${license}\ndatasets: [org/both, org/swahili]`,
  );
  const datasets = ["org/math", "org/both", "org/swahili"];
  const fields = { license: "other", license_name: "tiny-license", license_link: "LICENSE" };
  expect(front).toEqual({ ...fields, ...shared, datasets });
  expect(card).not.toContain("different licenses");
});

it("leaves out data sets that the hub refuses (autotrain-advanced 648, transformers 13528)", async () => {
  const { front } = await cardOf("datasets: [/var/hf/images/, null, squad, org/data, ../x]", "datasets: ./data");
  expect(front).toEqual({ ...shared, datasets: ["squad", "org/data"] });
});

it.each([
  ["apache-2.0 and llama3.1", "license: apache-2.0", "license: llama3.1"],
  ["apache-2.0 and tiny-license", "license: apache-2.0", "license: other\nlicense_name: tiny-license"],
])("leaves the choice between %s to people", async (both, first, second) => {
  const { card, front } = await cardOf(first, second);
  expect(front).toEqual(shared);
  expect(card).toContain(`\nIts models have different licenses: ${both.replace(" and ", ", ")}.\n`);
});

it.each(["license: [\n", "license: &a [*a]\n", "license: {a: b}\ndatasets: 3", "just text"])(
  "takes nothing from a card that begins with %j",
  async (front) => {
    expect((await cardOf(front, "license: mit")).front).toEqual({ license: "mit", ...shared });
  },
);

it("says what its models were made from, and asks for what they do not say", async () => {
  const known = await cardOf("license: mit\nbase_model: org/base", "license: mit\nbase_model: [org/base]");
  expect(known.front).toMatchObject({ license: "mit", base_model: ["org/base"] });
  expect(await unknownFields(join(known.root, "out"))).toEqual([]);
  const { card, root } = await cardOf("license: mit", "language: sw");
  expect(card).toMatch(/^---\n# base_model: add it; the models do not say theirs\nlicense: mit\n/);
  expect(await unknownFields(join(root, "out"))).toEqual(["base_model"]);
});

it("says how to load the model and how to run it", async () => {
  const { card } = await cardOf("license: mit", "license: mit");
  expect(card).toContain('path = "out"');
  expect(card).toContain("\nlayergraft generate out --prompt Hello\nlayergraft serve out\n");
});

it("has the recipe that reproduces the merge, bit for bit", async () => {
  const { root, card } = await cardOf("license: mit", "license: mit");
  expect(card).toContain("run `layergraft merge recipe.yaml --out out`.");
  writeFileSync(join(root, "recipe.yaml"), /```yaml\n([\s\S]*?)```/.exec(card)?.[1] ?? "");
  const { recipe } = await readRecipe(join(root, "recipe.yaml"));
  await executePlan(await planRecipe(recipe, { folder: root }), { out: join(root, "again") });
  const weights = readdirSync(join(root, "out")).filter((name) => name.endsWith(".safetensors"));
  expect(weights.length).toBeGreaterThan(0);
  for (const name of weights) {
    expect(sha256(readFileSync(join(root, "again", name)))).toBe(sha256(readFileSync(join(root, "out", name))));
  }
});

it("has what was last found before how the model is used, and keeps what people wrote", async () => {
  const folder = temporaryFolder();
  const file = join(folder, "README.md");
  const figure = (verdict: string) =>
    ({
      kind: "bars",
      id: "",
      title: "quiz",
      note: "exact match, on 4 items.",
      scale: "share",
      verdict,
      rows: [{ label: "merge", detail: "", kind: "swap", count: 1, isBest: false, mean: 0.5, low: 0.5, high: 0.5 }],
    }) as const;
  await writeCardFindings(folder, [figure("No card.")]);
  expect(readdirSync(folder)).toEqual([]);
  const [before, own, use] = ["---\ntags: []\n---\n\n# m\n\n", "## Evaluation\n\nBy hand.\n\n", "## Use\n\nRun it.\n"];
  writeFileSync(file, before + own + use);
  await writeCardFindings(folder, [figure("First.")]);
  const first = readFileSync(file, "utf8");
  await writeCardFindings(folder, [figure("Second.")]);
  expect(readFileSync(file, "utf8")).toBe(first.replace("First.", "Second."));
  expect(first).toMatch(
    /## Evaluation with layergraft\n\n### quiz\n\nexact match, on 4 items. First\.\n\n\| +\| score/,
  );
  expect(first.startsWith(before + own)).toBe(true);
  expect(first.endsWith(`\n\n${use}`)).toBe(true);
});
