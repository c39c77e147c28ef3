// Families that are exported and not run.
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { writeDecoder } from "../../../test/support/export-fixtures.js";
import { exportModel } from "../../../test/support/gguf-model.js";
import { openEngine } from "../../engine/index.js";

const folder = temporaryFolder();

const SIZES = {
  ...{ hidden_size: 8, num_hidden_layers: 2, num_attention_heads: 4, num_key_value_heads: 2, head_dim: 4 },
  ...{ intermediate_size: 6, max_position_embeddings: 64, tie_word_embeddings: false },
};

it("Seed-OSS with other biases than llama.cpp reads is refused", async () => {
  const settings = { model_type: "seed_oss", ...SIZES, attention_out_bias: true, mlp_bias: true };
  await expect(exportModel(await writeDecoder(join(folder, "biased"), settings))).rejects.toThrow(
    /its 4 projections o, gate, up, down have a bias/,
  );
});

const MINIMAX = {
  ...{ model_type: "minimax_m2", ...SIZES, num_local_experts: 5, num_experts_per_tok: 2, rotary_dim: 2 },
  rope_theta: 5_000_000,
};

it("the engine says that it does not run them, and what does", async () => {
  const model = await writeDecoder(join(folder, "unrun"), MINIMAX);
  await expect(openEngine(model)).rejects.toThrow(
    `${model}/config.json describes a MiniMax-M2 model, which can be merged and exported as GGUF for llama.cpp, but not run or trained by the engine.`,
  );
});
