// What training that does not fit is refused with: the advice that does fit.
import { join } from "node:path";
import { afterEach, beforeAll, expect, it, vi } from "vitest";
import { temporaryFolder, writeTiny } from "../../test/support/checkpoints.js";
import { type ModelSource, openModelSource } from "../engine/index.js";
import { estimateTraining, requireTrainingMemory, type TrainingUse } from "./train-memory.js";

const folder = temporaryFolder();
let source: ModelSource;
beforeAll(async () => {
  // Mostly a table, which LoRA leaves as it is.
  source = await openModelSource(await writeTiny(join(folder, "tiny"), { vocabulary: 30_000 }));
});
afterEach(() => vi.unstubAllEnvs());

const PARTS = ["self_attn.q", "self_attn.k", "self_attn.v", "self_attn.o", "mlp.gate", "mlp.up", "mlp.down"];
const LAST = new Set(PARTS.map((part) => `model.layers.3.${part}_proj.weight`));
const full: TrainingUse = { method: "full", texts: 8, tokens: 512 };
const lora: TrainingUse = { method: "lora", texts: 1, tokens: 512 };

it.each<readonly [TrainingUse, Partial<TrainingUse>, string]>([
  [full, { texts: 1 }, "Use a smaller batch, with accumulation for the rest."],
  [full, { texts: 1, method: "lora" }, "Use the method lora, and a small batch."],
  [lora, { tokens: 16 }, "Use shorter sequences (sequence_length)."],
  [{ ...lora, tokens: 16 }, { trained: LAST }, "Train some of the layers (train), and a small batch."],
])("advises what fits: %#", (use, fitting, advice) => {
  const { total } = estimateTraining(source, { ...use, ...fitting });
  vi.stubEnv("LAYERGRAFT_MEMORY", `${Math.ceil(total)}`);
  expect(() => requireTrainingMemory(source, use)).toThrow(advice);
  expect(() => requireTrainingMemory(source, { ...use, ...fitting })).not.toThrow();
});

it("advises another machine where the frozen weights alone do not fit", () => {
  vi.stubEnv("LAYERGRAFT_MEMORY", "1kB");
  expect(() => requireTrainingMemory(source, lora)).toThrow(
    /^LoRA training of tiny, 1 x 512 tokens at once, needs about .* Use a smaller model, or hand it over to a machine with more memory \(engine: trl\)\.$/,
  );
  expect(() => requireTrainingMemory(source, { ...lora, tokens: 1 })).toThrow(/^LoRA training of tiny needs about/);
});
