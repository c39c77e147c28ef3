// The census of adapters of embeddings and heads: every case of make_heads.py against PEFT's merge_and_unload.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it, test } from "vitest";
import { type ReadTensor, readJson } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import { readFolder, toNumbers } from "../../../test/support/numbers.js";
import { type TensorData, writeSafetensors } from "../../formats/safetensors/index.js";
import { messageOf } from "../../kit/index.js";

interface Case {
  name: string;
  base: "tied" | "untied";
  enlarged: boolean;
  ensured: boolean;
  how: "lora" | "whole" | "rows";
  place: "embedding" | "head" | "both";
  /** Whether PEFT's merge is. */
  tied: boolean;
  config: Record<string, unknown>;
}

const bench = new Bench();
const root = fileURLToPath(new URL("../../..", import.meta.url));
const heads = (...path: string[]) => join(root, "test/fixtures/peft/heads", ...path);
const cases = JSON.parse(readFileSync(heads("heads.json"), "utf8")) as Case[];

/** The tensors of a file by case. */
async function byCase(file: string): Promise<Map<string, Map<string, ReadTensor>>> {
  const folder = bench.next("split");
  mkdirSync(folder);
  writeFileSync(join(folder, "model.safetensors"), readFileSync(heads(file)));
  const found = new Map<string, Map<string, ReadTensor>>(cases.map(({ name }) => [name, new Map()]));
  for (const [path, tensor] of await readFolder(folder)) {
    const [name = "", tensorName = ""] = path.split("/");
    found.get(name)?.set(tensorName, tensor);
  }
  return found;
}

/** Cases in which PEFT's own answers differ, or which lack rows, with the reason. */
function refusal({ base, enlarged, ensured, how, place }: Case): string | undefined {
  if (how !== "lora") return undefined;
  if (base === "tied") return place === "both" || ensured ? "adapts both the embedding and the output head" : undefined;
  return enlarged && place !== "both"
    ? "the vocabulary was enlarged before training, and the adapter has no rows"
    : undefined;
}

const outcomes = new Map<string, string>();

describe("an adapter of embedding or head is what PEFT merges", () => {
  let [adapters, merges]: Map<string, Map<string, ReadTensor>>[] = [];
  beforeAll(async () => {
    [adapters, merges] = await Promise.all([byCase("adapters.safetensors"), byCase("merged.safetensors")]);
  });

  it.each(cases)("$name", async (one) => {
    const adapter = bench.next("adapter");
    mkdirSync(adapter);
    const tensors = [...(adapters?.get(one.name) ?? [])].map(([name, tensor]) => ({ ...tensor, name }) as TensorData);
    await writeSafetensors(join(adapter, "adapter_model.safetensors"), tensors);
    const config = { peft_type: "LORA", r: 2, lora_alpha: 3, ...one.config };
    writeFileSync(join(adapter, "adapter_config.json"), JSON.stringify(config));
    const merging = bench.merge({ method: "soup", models: [`${heads(one.base)}+${adapter}`] });
    const reason = refusal(one);
    if (reason !== undefined) {
      expect(await merging.then(() => "merged", messageOf)).toContain(reason);
      outcomes.set(one.name, "refused");
      return;
    }
    const { out, tensors: found } = await merging;
    const wanted = merges?.get(one.name) ?? new Map<string, ReadTensor>();
    const outside = [...found.keys()].filter((name) => !name.includes("layers"));
    expect(outside.sort()).toEqual([...wanted.keys()].sort());
    expect(readJson(out, "config.json").tie_word_embeddings).toBe(one.tied);
    for (const [name, tensor] of wanted) {
      const mine = toNumbers(found.get(name) as ReadTensor);
      const off = toNumbers(tensor).map((value, i) => Math.abs(value - (mine[i] ?? Number.NaN)));
      expect(Math.max(...off), name).toBeLessThan(2e-7);
    }
    outcomes.set(one.name, one.tied ? "tied" : "untied");
  });

  test("as the docs say", () => {
    expect(cases).toHaveLength(54);
    const page = readFileSync(join(root, "docs/merge-from-the-hub.md"), "utf8").split("\n");
    const wanted = table().split("\n");
    const from = page.indexOf(wanted[0] ?? "");
    expect(page.slice(from, from + wanted.length)).toEqual(wanted);
  });
});

const HOW = {
  lora: (what: string) => `LoRA on ${what}`,
  whole: (what: string) => `${what} saved whole`,
  rows: (what: string) => `rows of ${what}`,
};

/** The table of the docs. */
function table(): string {
  const columns = [...new Map(cases.map((one) => [columnOf(one), one])).keys()];
  const rows = new Map<string, string[]>();
  for (const one of cases) {
    const row = HOW[one.how](one.place === "both" ? "both" : `the ${one.place}`);
    rows.set(row, [...(rows.get(row) ?? []), outcomes.get(one.name) ?? "-"]);
  }
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const head = [line(["adapter", ...columns]), line(["---", ...columns.map(() => "---")])];
  return [...head, ...[...rows].map(([row, cells]) => line([row, ...cells]))].join("\n");
}

function columnOf({ base, enlarged, ensured }: Case): string {
  return [base, ...(enlarged ? ["enlarged"] : []), ...(ensured ? ["ensured"] : [])].join(", ");
}
