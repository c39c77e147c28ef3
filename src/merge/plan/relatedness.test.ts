// Unrelated models are rejected without --allow-unrelated; distant ones are noted.
import { cpSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import {
  decodeValues,
  encodeValues,
  seededFloats,
  temporaryFolder,
  writeTiny,
} from "../../../test/support/checkpoints.js";
import { layergraft as run } from "../../../test/support/command.js";
import { type Checkpoint, openCheckpoint } from "../../formats/checkpoint/checkpoint.js";
import { executePlan } from "../output/execute-plan.js";
import { planRecipe } from "./planner.js";
import { compareWeights } from "./relatedness.js";

const root = temporaryFolder();
const [math, swahili, base, random, copy] = ["math", "swahili", "base", "random", "copy"].map((name) =>
  join(root, name),
) as [string, string, string, string, string];
const layergraft = (args: readonly string[]) => run(args, { cwd: root });
beforeAll(async () => {
  await writeTiny(base, { seed: 0 });
  await writeTiny(math, { seed: 1 });
  await writeTiny(swahili, { seed: 2 });
  await writeTiny(random, { seed: 3, root: 3 });
  cpSync(math, copy, { recursive: true });
});

const FIGURES = /look unrelated: mean cosine -?0\.0\d, difference \d+\.\d% of the weights' size/;

describe("unrelated models", () => {
  const models = (...folders: string[]) => folders.map((folder) => `--model=${folder}`);
  it.each([
    ["swap", ["swap", "--task", math, "--language", random]],
    ["swap by magnitude", ["swap", "--task", math, "--language", random, "--base", base, "--weights", "magnitude"]],
    ["soup", ["soup", ...models(math, swahili, random)]],
    ["revert", ["revert", "--expert", math, "--base", random, "--layers", "0"]],
  ])("%s refuses them with figures, and merges them with --allow-unrelated", async (name, args) => {
    const out = join(root, `out ${name}`);
    const refused = await layergraft([...args, "--out", out]);
    expect(refused.status).toBe(1);
    expect(refused.stderr).toMatch(/look unrelated\. [\s\S]* --allow-unrelated/);
    expect(refused.stderr).toMatch(FIGURES);
    expect(existsSync(out)).toBe(false);
    const allowed = await layergraft([...args, "--out", out, "--allow-unrelated"]);
    expect(allowed.stderr).toMatch(/warning: the weights of/);
    expect(allowed.status).toBe(0);
    // A merge that was allowed resumes without the flag.
    expect((await layergraft([...args, "--out", out, "--resume"])).status).toBe(0);
    const replaced = await layergraft([...args, "--out", out, "--force"]);
    expect(replaced.status).toBe(1);
    expect(replaced.stderr).toMatch(/look unrelated\. [\s\S]* --allow-unrelated/);
  });

  it("a plan of the library reports them and needs allowUnrelated", async () => {
    const opened = await planRecipe({ method: "soup", models: [math, random] });
    expect(opened.plan.unrelated).toEqual([expect.stringMatching(FIGURES)]);
    const out = join(root, "library");
    const refused = { message: expect.stringMatching(/look unrelated/), where: { option: "allowUnrelated" } };
    await expect(executePlan(opened, { out, force: true })).rejects.toMatchObject(refused);
    expect((await executePlan(opened, { out, allowUnrelated: true })).out).toBe(out);
    const exists = { where: { file: out, option: "force" } };
    await expect(executePlan(opened, { out, allowUnrelated: true })).rejects.toMatchObject(exists);
  });

  it("analyze and suggest warn", async () => {
    const analyzed = await layergraft(["analyze", "--base", base, "--expert", `x=${random}`]);
    expect(analyzed.stderr).toMatch(FIGURES);
    const suggested = await layergraft(["suggest", "--base", base, "--task", math, "--language", random]);
    expect(suggested.stderr).toMatch(FIGURES);
  });
});

describe("experts of a swap that look swapped", () => {
  /** The base, with values of its matrices scaled in some layers. */
  const scaled = (name: string, by: number, layers: readonly number[]) =>
    writeTiny(join(root, name), {
      seed: 0,
      edit: (tensors) =>
        tensors.map((tensor) => {
          const layer = /layers\.(\d+)\./.exec(tensor.name)?.[1];
          if (layer === undefined || !layers.includes(Number(layer))) return tensor;
          const values = decodeValues(tensor.data, "BF16").map((value) => value * by);
          return { ...tensor, data: encodeValues(values, "BF16") };
        }),
    });

  it("are noted where the language expert changed the base more in the task expert's layers", async () => {
    const [ends, middle] = [await scaled("ends", 1.25, [0]), await scaled("middle", 1.5, [1, 2, 3])];
    const swapOf = async (task: string, language: string, more = {}) =>
      (await planRecipe({ method: "swap", task, language, ...more })).plan;
    const suspicious = await swapOf(ends, middle, { base });
    expect(suspicious.suspicion).toEqual({ byLanguage: 3, layers: 3 });
    expect(suspicious.notes).toEqual([
      "of 3 layers from task, language changed 3 more than task did; check that the experts are not swapped",
    ]);
    // A large change of one layer of several does not count.
    const first = await scaled("first", 2, [0, 1]);
    const outer = { base, bottom: 1, top: 0 };
    for (const plan of [
      await swapOf(middle, ends, { base }),
      await swapOf(ends, middle),
      await swapOf(middle, first, outer),
    ]) {
      expect(plan.suspicion).toBeUndefined();
      expect(plan.notes).toEqual([]);
    }
  });
});

describe("related models", () => {
  const notesOf = async (...models: string[]) => (await planRecipe({ method: "soup", models })).plan;

  it("the same ranges of each model are read, once each", async () => {
    const read: string[] = [];
    // As on the hub, where each range is a request.
    const counted = async (folder: string): Promise<Checkpoint> => {
      const opened = await openCheckpoint(folder);
      const tensors = [...opened.tensors].map(([name, tensor]) => {
        const { path } = tensor.file;
        const remote = {
          stream: async function* (start: number, end: number) {
            read.push(`${path} ${start}`);
            yield new Uint8Array(readFileSync(path)).subarray(start, end);
          },
        };
        return [name, { ...tensor, file: { ...tensor.file, remote } }];
      });
      return { ...opened, tensors: new Map(tensors as [[string, never]]) };
    };
    const sources = new Map(
      await Promise.all([base, math, swahili].map(async (one) => [one, await counted(one)] as const)),
    );
    expect((await compareWeights(sources, (label) => label === base)).unrelated).toEqual([]);
    expect(new Set(read).size).toBe(read.length);
    const of = (folder: string) => read.filter((one) => one.startsWith(`${folder}/`)).map((one) => one.split(" ")[1]);
    expect(of(base).length).toBeGreaterThan(8);
    expect(of(math)).toEqual(of(base));
    expect(of(swahili)).toEqual(of(base));
  });

  it("experts of one base merge without notes", async () => {
    const plan = await notesOf(math, swahili, base);
    expect(plan.notes).toEqual([]);
    expect(plan.unrelated).toBeUndefined();
  });

  it("a model further away than fine-tuning goes is noted with figures", async () => {
    const far = await writeTiny(join(root, "far"), {
      edit: (tensors) =>
        tensors.map((tensor, i) => {
          const count = tensor.data.byteLength / 2;
          const [x, y] = [seededFloats(count, -1 - i), seededFloats(count, 90 + i)];
          return {
            ...tensor,
            data: encodeValues(
              x.map((value, at) => value + (y[at] ?? 0)),
              "BF16",
            ),
          };
        }),
    });
    const plan = await notesOf(base, far);
    expect(plan.unrelated).toBeUndefined();
    expect(plan.notes).toEqual([expect.stringMatching(/further apart than fine-tuning .* mean cosine 0\.[67]\d/)]);
  });

  it("a model with itself, and a copy of one, are noted; slices of one model are not", async () => {
    expect((await notesOf(math, swahili, math)).notes).toEqual(["models[0] and models[2] are the same model"]);
    expect((await notesOf(math, copy)).notes).toEqual([
      "models[1] (copy) equals models[0] (math) in every sampled weight; check that they are not the same model",
    ]);
    const slices = [
      { model: math, layers: "0-2" },
      { model: math, layers: "1-3" },
    ];
    expect((await planRecipe({ method: "passthrough", slices })).plan.notes).toEqual([]);
  });

  it("a repeated model is opened once, and named in one short note", async () => {
    const models = Array.from({ length: 60 }, (_, i) => (i % 2 === 0 ? math : swahili));
    const { plan, sources } = await planRecipe({ method: "soup", models });
    expect(new Set(sources.values()).size).toBe(2);
    expect(sources.size).toBe(60);
    expect(plan.notes).toEqual([
      "models[0], models[2], models[4] and 27 more are the same model",
      "models[1], models[3], models[5] and 27 more are the same model",
    ]);
  });

  it("a soup of one is shown as a copy", async () => {
    const { stdout } = await layergraft(["soup", "--model", math, "--dry-run"]);
    expect(stdout).toContain("note: the output is a copy of the only model");
    const converted = await layergraft(["soup", "--model", math, "--dry-run", "--dtype", "float32"]);
    expect(converted.stdout).not.toContain("nothing is merged");
  });
});
