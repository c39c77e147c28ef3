// Sources that a user's method declares under names of its own: what each is follows from its schema.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, it } from "vitest";
import { Bench, expectClosely, expectExactly, readFolders, type Tensors } from "../../../test/support/merging.js";
import { readFolder } from "../../../test/support/numbers.js";
import { methodOf } from "../index.js";
import { executePlan, summarizePlan } from "../output/index.js";
import { openPlan } from "../plan/open-plan.js";
import { planRecipe } from "../plan/planner.js";
import { sourceFieldsOf, sourcesOf } from "./recipe.js";

// base + strength (teacher - base) + share of each student's change.
const CODE = `
export default ({ z, modelsField, sourceField, seedField, requireBase, computed, tensorOf, deltaOf, plus }) => ({
  title: "Distilled",
  fields: () => ({
    base: sourceField("model that all were fine-tuned from"),
    teacher: sourceField("model to move towards").refine(() => true),
    vocabulary_of: sourceField("model whose tokenizer counts", "tokenizer").optional(),
    students: modelsField("models that move a little", { share: z.number().default(0.25) }).optional(),
    strength: z.number().default(0.5),
    seed: seedField,
  }),
  warn: (_, layers, changeIn) => ({
    notes: [["teacher", "students[0]"].map((field) => changeIn(field, layers - 1) > 0).join()],
  }),
  tensors: ({ strength, students = [] }, sources, context) => {
    const [teacher, root] = [sources.get("teacher"), requireBase(sources.base, "it needs")];
    return computed(teacher, [teacher, root], context, (name) =>
      plus(tensorOf(root, name).value, [
        { weight: strength, value: deltaOf(name, teacher, root) },
        ...sources.models.map((model, i) => ({
          weight: students[i].share ?? 0.125,
          value: deltaOf(name, model, root),
        })),
      ]),
    );
  },
});
`;

const bench = new Bench();
const file = join(bench.folder, "distilled.js");
let [base, teacher, one, two] = ["", "", "", ""];
let values: Tensors[] = [];
const plan = (fields: object, options = {}) =>
  planRecipe({ method: file, base, ...fields } as never, { allowCode: true, ...options });
const written = async (fields: object) => {
  const opened = await plan(fields);
  const { out } = await executePlan(opened, { out: bench.next("out") });
  return { opened, out, tensors: await readFolder(out) };
};

beforeAll(async () => {
  writeFileSync(file, CODE);
  [base = "", teacher = "", one = "", two = ""] = await bench.models(4, { dtype: "F32" });
  values = await readFolders([base, teacher, one, two]);
});

it("merge, with the names of the sources in the plan, the card and the summary", async () => {
  const { opened, out, tensors } = await written({ teacher, students: [one, { model: two, share: 2 }] });
  expectClosely(
    tensors,
    values,
    () =>
      (b = 0, t = 0, x = 0, y = 0) =>
        b + 0.5 * (t - b) + 0.125 * (x - b) + 2 * (y - b),
  );
  const { plan: made } = opened;
  expect(made.notes).toContain("true,true");
  expect((await plan({ teacher })).plan.notes).toContain("true,false");
  expect(made.sources.map(({ id }) => id)).toEqual(["teacher", "students[0]", "students[1]", "base"]);
  expect(methodOf(made.recipe).headline(made.recipe)).toBe("Distilled: strength 0.5, seed 0");
  expect(summarizePlan(opened)).toMatchObject({ tensors: tensors.size });
  const card = readFileSync(join(out, "README.md"), "utf8");
  const names = made.sources.map(({ name }) => name);
  for (const name of names) expect(card).toMatch(new RegExp(`^- ${name}, a local folder`, "m"));
  expect(card).toContain(`teacher: ${names[0]}\n`);
  expect(card).toContain(`students:\n  - ${names[1]}\n  - model: ${names[2]}\n`);
  expect(card).not.toContain(bench.folder);
  const again = await openPlan(JSON.parse(JSON.stringify(made)), undefined, undefined, true);
  const copy = await executePlan(again, { out: bench.next("again") });
  expectExactly(
    await readFolder(copy.out),
    [tensors],
    () =>
      (x = 0) =>
        x,
  );
});

it("may be recipes, which are checked, read from files, and get the seed", async () => {
  const soup = join(bench.folder, "inner.yaml");
  writeFileSync(soup, `method: soup\nmodels: [${teacher}, ${one}]\n`);
  const { tensors } = await written({ teacher: soup });
  expectClosely(
    tensors,
    values,
    () =>
      (b = 0, t = 0, x = 0) =>
        b + 0.5 * ((t + x) / 2 - b),
  );
  const dare = { method: "dare_linear", base, models: [{ model: one, density: 0.5 }] };
  const nested = { method: file, base, teacher: dare };
  const { plan: seeded } = await plan({ teacher: nested, students: [nested] }, { seed: 7 });
  const seeds = [seeded.recipe, ...sourcesOf(seeded.recipe).map(({ source }) => source)].flatMap((inner) =>
    typeof inner === "string" ? [] : [inner, ...sourcesOf(inner).map(({ source }) => source)],
  );
  const found = seeds.flatMap((inner) => (typeof inner === "object" && "seed" in inner ? [inner.seed] : []));
  expect(new Set(found)).toEqual(new Set([7]));
  expect(found.length).toBeGreaterThanOrEqual(5);
  await expect(plan({ teacher: { ...dare, models: [] } })).rejects.toThrow(/teacher\.models: must name at least one/);
  await expect(plan({ teacher: { ...nested, techer: 1 } })).rejects.toThrow(/unknown field "techer"/);
  await expect(plan({ teacher }, { allowCode: false })).rejects.toThrow(/is a program that the recipe names/);
});

it("and other functions of a method that fail say where", async () => {
  const failing = async (from: string, to: string) => {
    const other = join(bench.folder, "failing.js");
    writeFileSync(other, CODE.replace(from, to));
    return planRecipe({ method: other, base, teacher } as never, { allowCode: true });
  };
  const where = (line: number) => new RegExp(`failing\\.js fails in line ${line}: missing is not defined`);
  await expect(failing("z.number().default(0.5)", "missing()")).rejects.toThrow(where(9));
  await expect(failing("notes: [[", "notes: [missing, [")).rejects.toThrow(where(13));
});

it("may give only a tokenizer, and then need not fit", async () => {
  const other = await bench.model({ dtype: "F32", layers: 3 });
  const { tensors, opened } = await written({ teacher, vocabulary_of: other });
  expectClosely(
    tensors,
    values,
    () =>
      (b = 0, t = 0) =>
        b + 0.5 * (t - b),
  );
  expect(sourcesOf(opened.plan.recipe).map(({ label, kind }) => `${label} ${kind}`)).toEqual([
    ...["teacher model", "vocabulary_of tokenizer", "base model"],
  ]);
  await expect(plan({ teacher: other })).rejects.toThrow(/layers/);
});

it("of a recipe of no known method are those of all built-in methods", () => {
  const fields = sourceFieldsOf({}).map(({ field }) => field);
  expect(fields.toSorted()).toEqual(
    [
      "backbone",
      "base",
      "expert",
      "language",
      "model",
      "models",
      "slices",
      "statistics",
      "task",
      "tokenizer",
    ].toSorted(),
  );
  expect(fields.at(-1)).toBe("base");
  const recipe = { models: ["a", { model: "b", statistics: "c" }, { method: "soup", models: ["d"] }], base: "e" };
  expect(sourcesOf(recipe).map(({ label, path, kind }) => [label, path.join("."), kind])).toEqual([
    ["models[0]", "models.0", "model"],
    ["models[1]", "models.1.model", "model"],
    ["models[1].statistics", "models.1.statistics", "statistics"],
    ["models[2]", "models.2", "model"],
    ["base", "base", "model"],
  ]);
});
