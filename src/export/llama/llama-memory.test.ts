// Whether a smaller type helps a model that does not fit.
import { expect, it } from "vitest";
import { summed } from "../../engine/memory/index.js";
import { fitsSmaller } from "./llama-memory.js";

const tensor = (type: string, bytes: number) => ({ name: "blk.0.ffn_up.weight", type, shape: [1000, 1000], bytes });
const free = (bytes: number) => ({ bytes, limit: "setting" as const });

it("helps where layers take less as q4_k_m, which are in memory twice, and that fits", () => {
  // A million weights: 2,000,000 bytes as F16, 1,212,500 as q4_k_m.
  const needed = summed({ weights: 2_000_000, program: 500_000 });
  const wide = [tensor("F16", 2_000_000)];
  expect(fitsSmaller(needed, wide, free(1_712_500))).toBe(true);
  expect(fitsSmaller(needed, wide, free(1_712_499))).toBe(false);
  expect(
    fitsSmaller(needed, [{ ...wide[0], name: "token_embd.weight" } as (typeof wide)[number]], free(2_499_999)),
  ).toBe(false);
});

it.each([
  ["Q4_K", 562_500],
  ["Q8_0", 1_062_500],
])("does not help a file whose layers are %s", (type, bytes) => {
  const needed = summed({ weights: 2 * bytes, program: 500_000 });
  expect(fitsSmaller(needed, [tensor(type, bytes)], free(needed.total - 1))).toBe(false);
});
