// Every example run under examples/train/ is read, and what its documentation says of selections and presets holds.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readRun } from "./run-file.js";
import { settleRun, trainedSelection } from "./run-settings.js";
import { resolveSelection, type Selectable } from "./selection.js";

const FOLDER = join(import.meta.dirname, "../../../examples/train");
const files = readdirSync(FOLDER).filter((name) => name.endsWith(".yaml"));
const guide = readFileSync(join(FOLDER, "README.md"), "utf8");
const LLAMA = { parameters: 8_030_261_248, contextLength: 131_072 };

/** Places of the tensors of a Llama of 32 layers, with an output head of its own. */
const tensors = new Map<string, Selectable>([
  ["model.embed_tokens.weight", { layer: null, part: "embed_tokens" }],
  ...Array.from({ length: 32 }, (_, layer) =>
    (["q_proj", "v_proj", "o_proj", "up_proj", "input_norm", "pre_mlp_norm"] as const).map(
      (part): [string, Selectable] => [`model.layers.${layer}.${part}.weight`, { layer, part }],
    ),
  ).flat(),
  ["model.layers.0.q_proj.bias", { layer: 0, part: "q_proj" }],
  ["model.norm.weight", { layer: null, part: "final_norm" }],
  ["lm_head.weight", { layer: null, part: "lm_head" }],
]);
const select = (text: string) => resolveSelection(text, { tensors, layers: 32 });

describe("examples/train", () => {
  it("is all of it in the guide", () => {
    expect(files.length).toBeGreaterThan(8);
    expect(files.filter((name) => !guide.includes(`(${name})`))).toEqual([]);
  });

  it.each(files)("%s", async (name) => {
    const { run } = await readRun(join(FOLDER, name));
    const settings = settleRun(run, LLAMA, { samples: 30_000, sequences: 30_000 });
    expect(settings.learningRate).toBeGreaterThan(1e-8);
    expect(settings.steps).toBeGreaterThan(1000);
    expect(settings.notes).toEqual([]);
    const parts = run.partition?.map(({ train }) => select(train)) ?? [select(trainedSelection(run) ?? "")];
    expect(parts.every((part) => part.size > 0)).toBe(true);
    // The parts of a partition have nothing in common.
    expect(new Set(parts.flatMap((part) => [...part])).size).toBe(parts.reduce((sum, { size }) => sum + size, 0));
    if (run.revert !== undefined) expect(select(run.revert).size).toBe(7 * 6 + 1);
  });

  it("names only selections that mean something", () => {
    const table = guide.slice(guide.indexOf("| written |"), guide.indexOf("## Presets"));
    const written = [...table.matchAll(/^\| (.+?) \|/gm)].flatMap(([, cell = ""]) => [...cell.matchAll(/`([^`]+)`/g)]);
    expect(written.length).toBeGreaterThan(10);
    for (const [, text = ""] of written) expect(select(text).size, text).toBeGreaterThan(0);
  });
});
