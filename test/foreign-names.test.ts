// Checkpoints whose tensors are called as what every JavaScript object has go through every command that reads them, and
// are treated as any other name is.
// @module-tag slow
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planRecipe } from "../src/merge/index.js";
import { executePlan } from "../src/merge/output/index.js";
import { readJson, seededTensor, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, expectReadable, layergraft, snapshot } from "./support/command.js";
import { expectExactly, mean, readFolders, type Tensors } from "./support/merging.js";

const NAMES = Object.getOwnPropertyNames(Object.prototype);

/** Names of tensors outside and inside of the layers, `__proto__` among them in half of the cases. */
const foreignNames = fc
  .uniqueArray(
    fc
      .tuple(
        fc.constantFrom("", "model.", "model.layers.0.", "model.layers.3."),
        fc.oneof(fc.constant("__proto__"), fc.constantFrom(...NAMES)),
        fc.constantFrom("", ".weight"),
      )
      .map((parts) => parts.join("")),
    { minLength: 1, maxLength: 6 },
  )
  .filter((names) => names.length > 0);

async function run(cwd: string, ...args: string[]): Promise<string> {
  const { status, stdout, stderr } = await layergraft(args, { cwd });
  expectReadable(stderr);
  // Checkpoints that differ are what `diff` is to find.
  expect([args, status, stderr]).toEqual([args, args[0] === "diff" ? 1 : DONE, expect.any(String)]);
  return stdout;
}

async function world(names: readonly string[], modelType = "llama"): Promise<string> {
  const home = temporaryFolder();
  for (const [seed, name] of ["base", "a", "b"].entries()) {
    await writeTiny(join(home, name), {
      seed: seed + 1,
      modelType,
      shardBytes: 2000,
      edit: (tensors) => [...tensors, ...names.map((tensor, i) => seededTensor(tensor, [4, 8], 100 * seed + i))],
    });
  }
  return home;
}

describe("tensors that are called as members of every object", () => {
  it.each(["llama", "unheard-of"])(
    "go through inspect, diff, swap, soup, merge, verify, analyze of a %s",
    async (type) => {
      await fc.assert(
        fc.asyncProperty(foreignNames, async (names) => {
          const home = await world(names, type);
          const inspected = JSON.parse(await run(home, "inspect", "a", "--json", "--tensors")) as {
            tensors: { name: string; part: string; layer: number | null }[];
          };
          const found = inspected.tensors.filter(({ name }) => names.includes(name));
          expect(found.map(({ name }) => name).sort()).toEqual([...names].sort());
          for (const { name, part, layer } of found) {
            expect([name, part]).toEqual([name, "other"]);
            expect(layer).toBe(/layers\.(\d)/.exec(name) ? Number(/layers\.(\d)/.exec(name)?.[1]) : null);
          }
          await run(home, "inspect", "a", "--tensors");
          expect(await run(home, "diff", "a", "b", "--tensors")).toContain(names[0]);
          await run(
            home,
            "analyze",
            "--base",
            "base",
            "--expert",
            "task=a",
            "--expert",
            "constructor=b",
            "--out",
            "analysis",
            "--quiet",
          );
          const { experts } = readJson(home, "analysis", "analysis.json");
          expect(experts).toEqual(["task", "constructor"]);

          await run(home, "swap", "--base", "base", "--task", "a", "--language", "b", "--out", "swap", "--quiet");
          await run(home, "soup", "--model", "a", "--model", "b", "--out", "soup", "--quiet");
          writeFileSync(join(home, "ties.yaml"), "method: ties\nbase: base\nmodels: [a, b]\ndensity: 0.5\n");
          await run(home, "merge", "ties.yaml", "--out", "ties", "--quiet");
          for (const out of ["swap", "soup", "ties"]) {
            const verified = JSON.parse(await run(home, "verify", out, "--json")) as { verified: boolean };
            expect([out, verified]).toMatchObject([out, { verified: true }]);
          }
          const sources = await readFolders(["a", "b"].map((name) => join(home, name)));
          const [soup] = (await readFolders([join(home, "soup")])) as [Tensors];
          expectExactly(soup, sources, () => mean);
          for (const name of names) expect([...soup.keys()]).toContain(name);
        }),
        { numRuns: 2, examples: [[["__proto__", "constructor", "toString", "model.layers.0.hasOwnProperty"]]] },
      );
    },
  );

  it("are resumed to the same bytes", async () => {
    const names = ["__proto__", "constructor.weight", "model.layers.1.toString", "model.layers.2.__proto__"];
    const home = await world(names);
    const recipe = {
      method: "ties" as const,
      base: join(home, "base"),
      models: [join(home, "a"), join(home, "b")],
      density: 0.5,
    };
    for (const name of ["whole", "resumed"]) mkdirSync(join(home, name));
    const whole = await executePlan(await planRecipe(recipe), { out: join(home, "whole", "out") });
    expect(whole.resumed).toBe(false);
    const stop = new AbortController();
    const stopped = executePlan(await planRecipe(recipe), {
      out: join(home, "resumed", "out"),
      signal: stop.signal,
      threads: 1,
      onProgress: ({ phase }) => {
        if (phase === "reading and writing") stop.abort();
      },
    });
    await expect(stopped).rejects.toMatchObject({ where: { option: "resume" } });
    const resumed = await executePlan(await planRecipe(recipe), { out: join(home, "resumed", "out"), resume: true });
    expect(resumed.resumed).toBe(true);
    expect(snapshot(join(home, "resumed", "out"))).toEqual(snapshot(join(home, "whole", "out")));
    const index = readJson(home, "resumed", "out", "layergraft.json") as { steps: { tensor: string }[] };
    for (const name of names) expect(index.steps.map(({ tensor }) => tensor)).toContain(name);
    expect(readFileSync(join(home, "resumed", "out", "model.safetensors"), "latin1")).toContain('"__proto__"');
  });
});
