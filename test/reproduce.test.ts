// The scripts of examples/reproduce against the fake hub: tiny models under the published names, and swaps that are as the script
// makes them, or not.
// @module-tag slow
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { openSafetensors } from "../src/formats/safetensors/index.js";
import { decodeValues, encodeValues, seededFloats, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, FAILED, layergraft } from "./support/command.js";
import { FakeHub, fakeFile } from "./support/fake-hub.js";

const root = temporaryFolder();
let hub: FakeHub;

const run = (args: readonly string[], cwd = root) =>
  layergraft(args, {
    cwd,
    env: { HF_ENDPOINT: hub.endpoint, HF_HOME: join(root, "hub"), HF_HUB_CACHE: "", HF_TOKEN: "" },
  });

/** @param folders one folder, or folders by their names in the repository */
function publish(name: string, folders: string | Readonly<Record<string, string>>): void {
  hub.create(name, { gated: false, private: false });
  const contents = Object.entries(typeof folders === "string" ? { "": folders } : folders).flatMap(([at, folder]) => {
    const files = readdirSync(folder).filter(
      (file) => /\.(json|safetensors)$/.test(file) && file !== "layergraft.json",
    );
    return files.map((file) => [join(at, file), fakeFile(join(at, file), readFileSync(join(folder, file)))] as const);
  });
  hub.commit(name, "main", new Map(contents));
}

/** The commands of the script for a language, in words. */
function commandsFor(language: string): string[][] {
  const script = readFileSync(join(import.meta.dirname, "../examples/reproduce/lighton.sh"), "utf8");
  return [...script.matchAll(/^layergraft (.*?)(?: &&)?$/gm)].map(([, line = ""]) =>
    line.replaceAll("$language", language).replaceAll('"', "").split(" "),
  );
}

beforeAll(async () => {
  hub = await FakeHub.start();
  for (const [i, name] of [
    "Qwen/Qwen3-8B-Base",
    "lightonai/Qwen3-8B-EN",
    "lightonai/Qwen3-8B-SW",
    "lightonai/Qwen3-8B-ES",
  ].entries())
    publish(name, await writeTiny(join(root, `model${i}`), { layers: 36, seed: i + 1, dtype: "BF16" }));
  const [english, swahili, spanish] = [1, 2, 3].map((i) => join(root, `model${i}`)) as [string, string, string];
  const swap = async (language: string, out: string, ...more: string[]) => {
    const args = ["swap", "--task", english, "--language", language, "--allow-unrelated", ...more, "--out", out];
    expect((await run(args)).status).toBe(DONE);
    return join(root, out);
  };
  publish(
    "lightonai/Qwen3-8B-SW-Swap",
    await swap(swahili, "as-said", "--layers", "0-12,23-35", "--outside", "language"),
  );
  // Layers counted from one, and the tensors outside averaged.
  publish("lightonai/Qwen3-8B-ES-Swap", await swap(spanish, "otherwise", "--layers", "0-11,22-35"));
});

describe("examples/reproduce/lighton.sh", () => {
  it("makes the published bits, and explains them", async () => {
    const [swap = [], diff = [], explain = []] = commandsFor("SW");
    expect((await run([...swap, "--allow-unrelated"])).status).toBe(DONE);
    expect(await run(diff)).toMatchObject({
      status: DONE,
      stdout: expect.stringMatching(/^All \d+ common tensors are identical/),
    });
    const { status, stdout } = await run(explain);
    expect(status).toBe(DONE);
    expect(stdout).toMatch(/layers 0-12, 23-35, outside the layers +lightonai\/Qwen3-8B-SW\n/);
    expect(stdout).toMatch(/layers 13-22 +lightonai\/Qwen3-8B-EN\n/);
    expect(stdout).toMatch(/method: swap\ntask: lightonai\/Qwen3-8B-EN\nlanguage: lightonai\/Qwen3-8B-SW/);
    expect(stdout).toMatch(/Explained: the recipe gives all \d+ tensors, bit for bit\./);
  });

  it("says how what was published is another swap", async () => {
    const [swap = [], diff = [], explain = []] = commandsFor("ES");
    expect((await run([...swap, "--allow-unrelated"])).status).toBe(DONE);
    expect((await run(diff)).status).toBe(FAILED);
    const { status, stdout } = await run(explain);
    expect(status).toBe(DONE);
    expect(stdout).toMatch(/language: 0-11, 22-35\noutside: average/);
    expect(stdout).toMatch(/outside the layers +0\.5 lightonai\/Qwen3-8B-EN \+ 0\.5 lightonai\/Qwen3-8B-ES/);
  });

  it("takes no recipe where there is none, and names what is missing", async () => {
    const base = join(root, "model0");
    const other = await run(["explain", base, "--from", join(root, "model1"), "--from", join(root, "model2")]);
    expect(other.status).toBe(FAILED);
    expect(other.stdout).toMatch(/Not explained: \d+ of \d+ tensors are not a weighted sum of these models\.$/m);
    expect(other.stdout).toMatch(/^This rules out swap, soup, task_arithmetic, slerp /m);
    expect(other.stdout).not.toMatch(/method:/);
    expect((await run(["explain", base, "--from", base])).stderr).toMatch(
      /Pass --from A --from B, or --from A --base C/,
    );
  });
});

describe("examples/reproduce/araswap.sh", { tags: ["slow"] }, () => {
  it("takes the layers in which an expert leads, as one adapter", async () => {
    const base = join(root, "model0");
    publish("Qwen/Qwen3-8B", base);
    // The same changes, but larger in the layers in which an expert leads.
    const leads: Readonly<Record<string, readonly number[]>> = { arabic: [1, 9, 16], math: [], cultural: [23] };
    const folders: Record<string, string> = {};
    for (const [name, layers] of Object.entries(leads)) {
      const expert = await writeTiny(join(root, name), {
        ...{ layers: 36, seed: 1, dtype: "BF16" },
        edit: (tensors) =>
          tensors.map((tensor) => {
            const layer = Number(/layers\.(\d+)\./.exec(tensor.name)?.[1] ?? -1);
            if (layer < 0 || !tensor.name.includes("_proj")) return tensor;
            const values = decodeValues(tensor.data, "BF16");
            const noise = seededFloats(values.length, layer);
            const size = layers.includes(layer) ? 0.05 : 0.02;
            return {
              ...tensor,
              data: encodeValues(
                values.map((x, k) => x + size * (noise[k] as number)),
                "BF16",
              ),
            };
          }),
      });
      folders[`${name}_expert`] = join(root, `${name}-adapter`);
      const extract = ["extract", "--base", base, "--model", expert, "--rank", "4", "--out", `${name}-adapter`];
      expect(await run(extract)).toMatchObject({ status: DONE });
    }
    publish("mariklolik228/AraSwap-Qwen3-8B-Adapters", folders);
    const script = readFileSync(join(import.meta.dirname, "../examples/reproduce/araswap.sh"), "utf8");
    const [, base8b = "", adapters = ""] = /^base=(.*)\nadapters=(.*)$/m.exec(script) ?? [];
    const filled = script.replaceAll("$base", base8b).replaceAll("$adapters", adapters);
    writeFileSync(join(root, "araswap.yaml"), /<<END\n([\s\S]*?)END\n/.exec(filled)?.[1] ?? "");
    const [merge = "", inspect = ""] = [...filled.matchAll(/^layergraft (.*)$/gm)].map(([, line = ""]) => line);
    expect(await run(merge.split(" "))).toMatchObject({ status: DONE });
    expect(await run(inspect.replaceAll('"', "").split(" "))).toMatchObject({ status: DONE });
    const names = (await openSafetensors(join(root, "araswap/adapter_model.safetensors"))).tensors.map(
      ({ name }) => name,
    );
    expect([...new Set(names.map((name) => Number(/layers\.(\d+)\./.exec(name)?.[1])))].sort((a, b) => a - b)).toEqual([
      1, 9, 16, 23,
    ]);
  });
});
