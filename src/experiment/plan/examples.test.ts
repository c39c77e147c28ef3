// @module-tag slow
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FakeWorld } from "../../../test/support/fake-world.js";
import { digestOfValue } from "../../kit/files/index.js";
import { presetFields } from "../../train/index.js";
import type { MergeModel } from "../expand/plan-models.js";
import type { EvaluatedModel } from "../expand/step-list.js";
import type { TrainStep } from "../steps/step.js";
import { membersOf } from "./expert-names.js";
import { readPlan } from "./plan-file.js";
import type { PlannedRun } from "./plan-schema.js";

const folder = join(import.meta.dirname, "../../../examples/experiments");

const planOf = async (name: string) => (await readPlan(join(folder, `${name}.yaml`))).plan;

/** The plan, run without running anything. @param without families and what is made of them, to save time */
async function finished(name: string, without: RegExp = /^$/) {
  const whole = await planOf(name);
  const experts = Object.fromEntries(
    Object.entries(whole.experts).filter(([expertFamily]) => !without.test(expertFamily)),
  );
  const plan = {
    ...whole,
    experts,
    merges: whole.merges.filter(({ recipe }) => !without.test(JSON.stringify(recipe))),
  };
  const world = new FakeWorld(plan, {
    checkpoints: [5000, 10000].map((samples) => ({ path: `c${samples}`, samples })),
  });
  return { plan, world, expansion: world.finish() };
}
/** Of all steps in their order. Results of earlier versions stay valid as long as keys do. */
const keysOf = ({ ran }: Pick<FakeWorld, "ran">) => digestOfValue(ran.map(({ key }) => key)).slice(0, 12);
const merges = (models: readonly EvaluatedModel[]) =>
  models.flatMap(({ model }) => (model.kind === "merge" ? [model as MergeModel] : []));

describe("the paper's plan", () => {
  it("trains the fifteen experts of table 4, and the joint runs", async () => {
    const plan = await planOf("paper-mgsm-swahili");
    const runs = Object.values(plan.experts).flatMap(({ train }) => train?.runs ?? []);
    const presets = runs.map(({ fields }) => String(fields.preset));
    const languages = ["swahili", "telugu", "bengali", "japanese"];
    for (const expertFamily of ["math", ...languages]) {
      for (const number of [1, 2, 3]) expect(presets).toContain(`paper/${expertFamily}-${number}`);
    }
    for (const preset of presets) expect(presetFields(preset)).toBeDefined();
  });

  it("trains them on the data of table 3", async () => {
    const plan = await planOf("paper-mgsm-swahili");
    const used = (expertFamily: string): string[] => {
      const run = plan.experts[expertFamily]?.train?.runs[0] as PlannedRun;
      const { sets } = run.fields.data as { sets: { use?: string; source?: string }[] };
      return sets.map(({ use, source }) => use ?? source ?? "");
    };
    expect(used("math")).toEqual(["orca-math"]);
    expect(used("swahili")).toEqual(["aya", "nllb", "inkuba", "xp3mt"]);
    expect(used("telugu")).toEqual(["aya", "nllb", "data/telugu-instructions.jsonl"]);
    expect(used("bengali")).toEqual(["aya", "nllb", "indic-align", "bongchat"]);
    expect(used("japanese")).toEqual(["aya", "nllb", "llm-japanese", "data/ichikara.jsonl", "dolly-ja"]);
  });

  it("compares nine pairs of a language, default and best", async () => {
    const { expansion, world } = await finished("paper-mgsm-swahili", /telugu|bengali|japanese/);
    expect(expansion.waiting).toEqual([]);
    const swaps = merges(expansion.models).filter(({ merge }) => merge.name === "layer swap");
    expect(swaps).toHaveLength(9 * 3 * 3 * 3 * 3 * 2);
    expect(swaps.filter(({ configuration }) => configuration.isDefault)).toHaveLength(9);
    expect(expansion.searches.map(({ group }) => group)).toContain("layer swap of math and swahili");
    expect(expansion.searches.every(({ chosen }) => chosen)).toBe(true);
    const trained = world.ran.filter((step): step is TrainStep => step.kind === "train");
    expect(trained).toHaveLength(11);
    // The sparse runs take the weights of the best checkpoints, and nothing else of them.
    const last = trained.slice(-2);
    for (const [i, name] of ["math-1", "swahili-1"].entries()) {
      const best = expansion.models.find(({ model }) => model.name === name)?.model;
      expect(last[i]?.run).toMatchObject({
        base: expect.stringMatching(/Llama/),
        mask: { from: best?.source, share: 0.05 },
      });
      expect(last[i]?.needs).toEqual(best?.needs);
      expect(last[i]?.locations).toMatchObject(best?.locations ?? {});
    }
    const sums = merges(expansion.models).filter(({ merge }) => merge.name === "sum of sparse changes");
    expect(sums.map(({ members }) => members)).toEqual([["sparse-math-run", "sparse-swahili-run"]]);
    // The maps of figures 2 and 4 to 9 came later than the other steps.
    const analyses = world.ran.filter(({ kind }) => kind === "analyze");
    expect(analyses.map(({ label }) => label)).toEqual(
      ["math", "swahili"].flatMap((family) => [1, 2, 3].map((number) => `analyze ${family}-${number}`)),
    );
    const older = world.ran.filter(({ kind, label }) => kind !== "analyze" && !label.includes("sparse"));
    expect(keysOf({ ran: older })).toBe("7b730a9a43a3");
  });
});

describe("the sequel's plan", () => {
  it("has every framework, on four models, in full and LoRA, for three languages", async () => {
    const { variants } = await readPlan(join(folder, "sequel-modular-frameworks.yaml"));
    expect(variants.map(({ title }) => title)).toEqual(
      ["Llama 3.1", "Aya Expanse", "Falcon 3", "Qwen2.5"].flatMap((model) =>
        ["full", "LoRA"].flatMap((how) =>
          ["Swahili", "Bengali", "Telugu"].map((language) => `${model}, ${how}, ${language}`),
        ),
      ),
    );
    const trained = new Set<string>();
    for (const { plan, values } of variants) {
      const world = new FakeWorld(plan);
      const { models, waiting } = world.finish();
      expect(waiting).toEqual([]);
      const names = merges(models).map(({ merge }) => merge.name);
      const others = ["math reverted", "target reverted", "soup", "soup of reverted"];
      expect([...new Set(names)]).toEqual(["separate", "frozen", ...others, "from mathematics to the language"]);
      const expertFamilies = membersOf(plan).map(({ expertFamily }) => expertFamily);
      for (const way of ["partitioned", "mixed"]) expect(expertFamilies).toContain(way);
      const code = { Swahili: "sw", Bengali: "bn", Telugu: "te" }[values.language ?? ""];
      const tasks = models.map((one) => one.tasks.map(({ request }) => request.task));
      expect(new Set(tasks.flat())).toEqual(new Set([`mgsm_${code}`, "mgsm_en", `belebele_${code}`]));
      for (const own of tasks) expect(own).toContain(`mgsm_${code}`);
      for (const { kind, key } of world.ran) if (kind === "train") trained.add(key);
    }
    // For each model, full and LoRA: mathematics twice, and four experts of each language.
    expect(trained.size).toBe(4 * 2 * (2 + 3 * 4));
  });
});

describe("the plan for two checkpoints", () => {
  it("sweeps, and takes suggestions", async () => {
    const { expansion, world } = await finished("two-checkpoints");
    expect(merges(expansion.models).filter(({ merge }) => merge.name === "layer swap")).toHaveLength(12);
    expect(expansion.steps.some(({ kind }) => kind === "analyze")).toBe(true);
    expect(keysOf(world)).toBe("a55b31fafe57");
  });
});

describe("the plans for public experts", () => {
  it("grafts layers 13 to 22 into five specialists, with controls", async () => {
    const { plan, expansion, world } = await finished("native-reasoning");
    const models = merges(expansion.models);
    const grafts = models.filter(({ merge }) => merge.name === "middle layers");
    const languages = ["swahili", "spanish", "french", "german", "chinese"];
    expect(grafts.map(({ members }) => members)).toEqual(languages.map((language) => ["english", language]));
    expect(plan.merges[0]?.recipe).toMatchObject({ layers: { language: "0-12,23-35" }, outside: "language" });
    expect(Object.keys(plan.experts)).toHaveLength(6);
    expect(world.ran.filter(({ kind }) => kind === "train")).toEqual([]);
    expect(expansion.waiting).toEqual([]);
  });

  it("asks the reported configurations of MergeBench's experts the other tasks", async () => {
    const { plan, expansion } = await finished("mergebench");
    const swaps = merges(expansion.models).filter(({ merge }) => merge.name === "layer swap");
    expect(swaps).toHaveLength(2 * 2 * 2);
    expect(plan.averages?.map(({ name }) => name)).toEqual(["MGSM"]);
    expect(expansion.waiting).toEqual([]);
  });
});
