// Rewritten configurations of outputs.
// @module-tag slow
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { writeTiny } from "../../../test/support/checkpoints.js";
import { CASES } from "../../../test/support/decoder-fixtures.js";
import { writeCheckpoint } from "../../train/loop/checkpoint-writer.js";
import { planRecipe } from "../plan/planner.js";
import { executePlan } from "./execute-plan.js";

const DECODERS = join(import.meta.dirname, "../../../test/fixtures/decoders");
const root = mkdtempSync(join(tmpdir(), "layergraft-companions-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Numbers of a JSON text as they are written there. */
const numbersOf = (...path: string[]) =>
  readFileSync(join(...path), "utf8")
    .replace(/"[^"]*"/g, "")
    .match(/-?\d[\d.eE+-]*/g);

test.each(CASES)("a rewritten config.json of %s keeps the source text of its numbers", async (name) => {
  const folder = join(DECODERS, name);
  const wanted = numbersOf(folder, "config.json");
  expect(wanted?.some((number) => /\.0$|e-0/.test(number))).toBe(true);
  const merged = join(root, `${name}-merged`);
  await executePlan(await planRecipe({ method: "soup", models: [folder], dtype: "bfloat16" }), { out: merged });
  expect(numbersOf(merged, "config.json")).toEqual(wanted);
  const trained = join(root, `${name}-trained`);
  await writeCheckpoint(trained, {
    ...{
      base: await planRecipe({ method: "soup", models: [folder] }),
      parameters: new Map(),
      baseName: folder,
      provenance: {},
    },
    dtype: "bfloat16",
  });
  expect(numbersOf(trained, "config.json")).toEqual(wanted);
});

test("values of layers that move keep their source text", async () => {
  const folder = await writeTiny(join(root, "tiny"), { layers: 3 });
  const path = join(folder, "config.json");
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.replace(/^\{/, '{"sparsity": [0.0, 1.50, 3e0], "factor": 1000000000000000019884624838656,'));
  const out = join(root, "tiny-passthrough");
  const slices = [
    { model: folder, layers: "1-2" },
    { model: folder, layers: "0-1" },
  ];
  await executePlan(await planRecipe({ method: "passthrough", slices }), { out });
  expect(numbersOf(out, "config.json")?.slice(0, 5)).toEqual(
    "1.50 3e0 0.0 1.50 1000000000000000019884624838656".split(" "),
  );
  expect(JSON.parse(readFileSync(join(out, "config.json"), "utf8"))).toMatchObject({ num_hidden_layers: 4 });
});

test.skipIf(process.platform === "win32")(
  "a pipe for a model card is not read (skipped: Windows has none)",
  async () => {
    const folder = await writeTiny(join(root, "piped"), { layers: 1 });
    execFileSync("mkfifo", [join(folder, "README.md")]);
    const out = join(root, "piped-merged");
    await executePlan(await planRecipe({ method: "soup", models: [folder] }), { out });
    expect(readFileSync(join(out, "README.md"), "utf8")).toMatch(/^---\n/);
  },
);
