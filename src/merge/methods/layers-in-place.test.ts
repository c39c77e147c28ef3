// Merges of models whose layers differ in kind, and blocks that predict further tokens.
import { describe, expect, it } from "vitest";
import type { TinyOptions } from "../../../test/support/checkpoints.js";
import { Bench, readFolders } from "../../../test/support/merging.js";
import { planRecipe } from "../plan/planner.js";

const bench = new Bench();

/** The layer before the last as a block that predicts further tokens: behind the last layer, or beside the layers. */
const withBlock = (name: string): TinyOptions => ({
  layers: 4,
  modelType: name === "mtp.layers.0." ? "qwen3_5_text" : "deepseek_v3",
  config: { num_hidden_layers: 3, num_nextn_predict_layers: 1, layer_types: undefined },
  edit: (tensors) => tensors.map((tensor) => ({ ...tensor, name: tensor.name.replace("model.layers.3.", name) })),
});

describe.each(["model.layers.3.", "mtp.layers.0."])("a block named %s", (name) => {
  const tensor = `${name}mlp.up_proj.weight`;

  it("comes from the owner of the last layer in a swap", async () => {
    const [task, language] = await bench.models(2, withBlock(name));
    const [ofTask, ofLanguage] = await readFolders([task as string, language as string]);
    for (const [top, owner] of [
      [0, ofTask],
      [1, ofLanguage],
    ] as const) {
      const { tensors } = await bench.merge({
        method: "swap",
        task: task as string,
        language: language as string,
        bottom: 1,
        top,
      });
      expect(tensors.get(tensor)).toEqual(owner?.get(tensor));
      expect([...tensors.keys()].sort()).toEqual([...(ofTask?.keys() ?? [])].sort());
    }
  });

  it("follows the layers of a stack", async () => {
    const model = await bench.model({ ...withBlock(name), modelType: "unknown" });
    const slices = [
      { model, layers: "0-1" },
      { model, layers: "1-2" },
    ];
    const { tensors } = await bench.merge({ method: "passthrough", slices });
    const [source] = await readFolders([model]);
    const moved = tensor.replace("layers.3.", "layers.4.");
    expect(tensors.get(moved)?.data).toEqual(source?.get(tensor)?.data);
    expect(tensors.size).toBe((source?.size ?? 0) + 9);
  });
});

describe("models whose layers differ in kind", () => {
  const kinds = (layer_types: string[]) => bench.model({ config: { layer_types } });

  it("are not merged where a place has two kinds", async () => {
    const [task, language] = [await kinds(["full", "sliding"]), await kinds(["sliding", "full"])];
    const refusal = /^layer_types in config.json gives layer 0 the kind full in .* and sliding in .*; use models/;
    await expect(planRecipe({ method: "swap", task, language, bottom: 1, top: 0 })).rejects.toThrow(refusal);
    await expect(planRecipe({ method: "shuffle", models: [task, language] })).rejects.toThrow(refusal);
    const slices = [{ model: task }, { model: language }];
    await expect(planRecipe({ method: "passthrough", slices })).rejects.toThrow(refusal);
  });

  it("are merged where only the window of all layers differs", async () => {
    const [task, language] = [await kinds(["full", "full"]), await kinds(["sliding", "sliding"])];
    await planRecipe({ method: "swap", task, language, bottom: 1, top: 0 });
  });
});
