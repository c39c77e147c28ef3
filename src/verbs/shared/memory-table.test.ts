// What `doctor MODEL --json` prints: the estimates that refusals compare with the same memory.
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { writeTinyTokenizer, writeWide } from "../../../test/support/export-fixtures.js";
import { openModelSource } from "../../engine/index.js";
import { estimateEngine } from "../../engine/memory/index.js";
import { estimateTraining } from "../../train/index.js";
import { memoryTable } from "./memory-table.js";

const folder = temporaryFolder();
afterEach(() => vi.unstubAllEnvs());

it("has each way with its estimate, and whether it fits", async () => {
  const model = await writeWide(join(folder, "wide"), 1);
  writeTinyTokenizer(model, 5000);
  const source = await openModelSource(model);
  const sizes = { texts: 2, tokens: 32 };
  const engine = estimateEngine(source, sizes);
  vi.stubEnv("LAYERGRAFT_MEMORY", `${engine.total - engine.program}`);
  const table = await memoryTable(model, sizes);
  expect(table).toMatchObject({
    ...{ model: "wide", running: sizes, training: sizes },
    free: { bytes: engine.total - engine.program, limit: "setting" },
  });
  const rowOf = (way: string, type?: string) => table.rows.find((row) => row.way === way && row.type === type);
  expect(rowOf("engine")).toEqual({ way: "engine", estimate: engine, fits: true });
  const full = estimateTraining(source, { method: "full", ...sizes });
  expect(rowOf("full")).toEqual({ way: "full", estimate: full, fits: false });
  expect(rowOf("llama", "q8_0")?.estimate?.weights).toBeLessThan(engine.weights);
});
