// Adapters of modules that are parts of a tensor of the base, and of modules whose parts are tensors of it, against sums in float64.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type ReadTensor, seededTensor } from "../../../test/support/checkpoints.js";
import { Bench } from "../../../test/support/merging.js";
import { readFolder, toNumbers } from "../../../test/support/numbers.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { type TensorData, writeSafetensors } from "../../formats/safetensors/index.js";

const bench = new Bench();
const PREFIX = "base_model.model.";
const SCALE = 1.5; // lora_alpha 3, r 2

const pair = (module: string, [output, input]: readonly [number, number], seed: number) => [
  seededTensor(`${PREFIX}${module}.lora_A.weight`, [2, input], seed, "F32"),
  seededTensor(`${PREFIX}${module}.lora_B.weight`, [output, 2], seed + 1, "F32"),
];

async function writeAdapter(tensors: readonly TensorData[]): Promise<string> {
  const folder = bench.next("adapter");
  mkdirSync(folder);
  await writeSafetensors(join(folder, "adapter_model.safetensors"), tensors);
  writeFileSync(join(folder, "adapter_config.json"), JSON.stringify({ peft_type: "LORA", r: 2, lora_alpha: 3 }));
  return folder;
}

/** A model with further tensors, or others in the place of some. */
const baseWith = (others: readonly TensorData[], config: Record<string, unknown> = {}, without = /^$/) =>
  bench.model({
    dtype: "F32",
    config,
    edit: (tensors) => [...tensors.filter(({ name }) => !without.test(name)), ...others],
  });

/** B A of a module's factors, [output][input]. */
function product(tensors: readonly TensorData[], module: string): number[][] {
  const of = (side: string) => tensors.find(({ name }) => name === `${PREFIX}${module}.lora_${side}.weight`);
  const [a, b] = [of("A"), of("B")].map((one) => ({
    shape: one?.shape,
    values: toNumbers(one as unknown as ReadTensor),
  }));
  const [output = 0, input = 0] = [b?.shape?.[0], a?.shape?.[1]];
  const at = (list: number[] | undefined, i: number) => list?.[i] ?? Number.NaN;
  return Array.from({ length: output }, (_, i) =>
    Array.from({ length: input }, (_, j) => {
      return at(b?.values, 2 * i) * at(a?.values, j) + at(b?.values, 2 * i + 1) * at(a?.values, input + j);
    }),
  );
}

/** What the merge of a base and an adapter adds to a tensor, over the scale, in rows. */
async function changesOf(base: string, adapter: string, name: string): Promise<number[][]> {
  const source = `${base}+${adapter}`;
  const { tensors } = await bench.merge({ method: "soup", models: [source, source] });
  const before = toNumbers((await readFolder(base)).get(name) as ReadTensor);
  const { shape } = tensors.get(name) as ReadTensor;
  const values = toNumbers(tensors.get(name) as ReadTensor).map((value, i) => (value - (before[i] ?? 0)) / SCALE);
  const width = shape.at(-1) as number;
  return Array.from({ length: values.length / width }, (_, row) => values.slice(row * width, (row + 1) * width));
}

function expectRows(found: readonly number[][], wanted: readonly number[][]): void {
  expect([found.length, found[0]?.length]).toEqual([wanted.length, wanted[0]?.length]);
  for (const [i, row] of wanted.entries())
    for (const [j, value] of row.entries()) expect(found[i]?.[j]).toBeCloseTo(value, 5);
}

const zeros = (rows: number, columns: number) => Array.from({ length: rows }, () => Array<number>(columns).fill(0));
const transposed = (rows: readonly number[][]) => (rows[0] ?? []).map((_, j) => rows.map((row) => row[j] ?? 0));
const ATTENTION = "model.layers.0.self_attn";
const EXPERTS = "model.layers.1.mlp.experts";

describe("queries, keys and values in one matrix", () => {
  const heads = { num_attention_heads: 2, num_key_value_heads: 1 };
  const fused = seededTensor(`${ATTENTION}.qkv_proj.weight`, [16, 8], 5, "F32");

  it("take adapters of their parts, each in its rows", async () => {
    const base = await baseWith([fused], heads, /layers\.0\.self_attn\.[qkv]_proj/);
    const factors = [...pair(`${ATTENTION}.q_proj`, [8, 8], 1), ...pair(`${ATTENTION}.v_proj`, [4, 8], 3)];
    const found = await changesOf(base, await writeAdapter(factors), fused.name);
    const [q, v] = [product(factors, `${ATTENTION}.q_proj`), product(factors, `${ATTENTION}.v_proj`)];
    expectRows(found, [...q, ...zeros(4, 8), ...v]);
  });

  it("and their adapter changes the three where the base has them", async () => {
    const base = await baseWith([]);
    const { tensors } = await openCheckpoint(base);
    const rows = ["q", "k", "v"].map((one) => tensors.get(`${ATTENTION}.${one}_proj.weight`)?.shape[0] ?? 0);
    const total = rows.reduce((sum, count) => sum + count, 0);
    const factors = pair(`${ATTENTION}.qkv_proj`, [total, 8], 7);
    const adapter = await writeAdapter(factors);
    const whole = product(factors, `${ATTENTION}.qkv_proj`);
    let from = 0;
    for (const [i, one] of ["q", "k", "v"].entries()) {
      const found = await changesOf(base, adapter, `${ATTENTION}.${one}_proj.weight`);
      expectRows(found, whole.slice(from, from + (rows[i] ?? 0)));
      from += rows[i] ?? 0;
    }
  });

  it("refuse the whole and a part together, and parts of other sizes", async () => {
    const base = await baseWith([fused], heads, /layers\.0\.self_attn\.[qkv]_proj/);
    const both = [...pair(`${ATTENTION}.qkv_proj`, [16, 8], 1), ...pair(`${ATTENTION}.q_proj`, [8, 8], 3)];
    await expect(openCheckpoint(`${base}+${await writeAdapter(both)}`)).rejects.toThrow("as a whole and in parts");
    const wrong = pair(`${ATTENTION}.k_proj`, [6, 8], 1);
    await expect(openCheckpoint(`${base}+${await writeAdapter(wrong)}`)).rejects.toThrow("is it the adapter's base?");
  });
});

describe("queries, keys and values in an order of their own", () => {
  it.each(["query_key_value", "c_attn"])("are refused with the reason: %s", async (name) => {
    const whole = seededTensor(`${ATTENTION}.${name}.weight`, [24, 8], 5, "F32");
    const base = await baseWith([whole], {}, /layers\.0\.self_attn\.[qkv]_proj/);
    const part = await writeAdapter(pair(`${ATTENTION}.q_proj`, [8, 8], 1));
    await expect(openCheckpoint(`${base}+${part}`)).rejects.toThrow(
      `adapts ${ATTENTION}.q_proj, and the base has queries, keys and values in ${whole.name}, in an order of its own; merge the adapter in PEFT`,
    );
    const adapter = await writeAdapter(pair(`${ATTENTION}.${name}`, [24, 8], 1));
    await expect(openCheckpoint(`${await baseWith([])}+${adapter}`)).rejects.toThrow(
      `adapts ${ATTENTION}.${name}, whose rows have an order of their own, and the base has queries, keys and values apart, such as ${ATTENTION}`,
    );
  });
});

describe("experts in one tensor", () => {
  it("take the adapters of some of them, [in, out] as in gpt-oss", async () => {
    const stack = seededTensor(`${EXPERTS}.gate_up_proj`, [3, 8, 12], 5, "F32");
    const base = await baseWith([stack], { model_type: "gpt_oss" });
    const factors = [0, 2].flatMap((expert) => pair(`${EXPERTS}.gate_up_projs.${expert}`, [12, 8], 10 * expert + 1));
    const found = await changesOf(base, await writeAdapter(factors), stack.name);
    const of = (expert: number) => transposed(product(factors, `${EXPERTS}.gate_up_projs.${expert}`));
    expectRows(found, [...of(0), ...zeros(8, 12), ...of(2)]);
  });

  it("take those of gate and up, one above the other, and of no others", async () => {
    const stack = seededTensor(`${EXPERTS}.gate_up_proj`, [2, 12, 8], 5, "F32");
    const base = await baseWith([stack]);
    const factors = [...pair(`${EXPERTS}.0.up_proj`, [6, 8], 1), ...pair(`${EXPERTS}.1.gate_proj`, [6, 8], 3)];
    const found = await changesOf(base, await writeAdapter(factors), stack.name);
    const [up, gate] = [product(factors, `${EXPERTS}.0.up_proj`), product(factors, `${EXPERTS}.1.gate_proj`)];
    expectRows(found, [...zeros(6, 8), ...up, ...gate, ...zeros(6, 8)]);
    const beyond = await writeAdapter(pair(`${EXPERTS}.2.up_proj`, [6, 8], 1));
    await expect(openCheckpoint(`${base}+${beyond}`)).rejects.toThrow("is it the adapter's base?");
  });

  it("keep them where another model's experts are stored one by one", async () => {
    const experts = (names: readonly string[], shape: number[]) =>
      names.map((name, i) => seededTensor(`${EXPERTS}.${name}`, shape, 30 + i, "F32"));
    const stacks = [...experts(["gate_up_proj"], [2, 12, 8]), ...experts(["down_proj"], [2, 8, 6])];
    const base = await baseWith(stacks);
    const of = (name: string) => [0, 1].map((expert) => `${expert}.${name}.weight`);
    const halves = [...of("gate_proj"), ...of("up_proj")];
    const other = await baseWith([...experts(halves, [6, 8]), ...experts(of("down_proj"), [8, 6])]);
    const factors = pair(`${EXPERTS}.1.up_proj`, [6, 8], 1);
    const models = [`${base}+${await writeAdapter(factors)}`, other];
    const { tensors } = await bench.merge({ method: "soup", models });
    const [stack, single] = [(await readFolder(base)).get(`${EXPERTS}.gate_up_proj`), await readFolder(other)];
    const values = toNumbers(stack as ReadTensor);
    for (const [i, name] of ["0.gate_proj", "0.up_proj", "1.gate_proj", "1.up_proj"].entries()) {
      const own = values.slice(48 * i, 48 * (i + 1));
      const mine = i === 3 ? product(factors, `${EXPERTS}.1.up_proj`).flat() : zeros(6, 8).flat();
      const theirs = toNumbers(single.get(`${EXPERTS}.${name}.weight`) as ReadTensor);
      const found = toNumbers(tensors.get(`${EXPERTS}.${name}.weight`) as ReadTensor);
      for (const [j, value] of found.entries()) {
        const wanted = ((own[j] ?? 0) + SCALE * (mine[j] ?? 0) + (theirs[j] ?? 0)) / 2;
        expect(value, name).toBeCloseTo(wanted, 5);
      }
    }
  });

  it("refuse gate alone where it is in columns, with the reason", async () => {
    const stack = seededTensor(`${EXPERTS}.gate_up_proj`, [2, 8, 12], 5, "F32");
    const base = await baseWith([stack], { model_type: "gpt_oss" });
    const adapter = await writeAdapter(pair(`${EXPERTS}.0.gate_proj`, [6, 8], 1));
    await expect(openCheckpoint(`${base}+${adapter}`)).rejects.toThrow("has its values in columns. Merge the adapter");
  });
});
