import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { guessPart, NORMS } from "./guessed-parts.js";

/** Modules of layers of every family of transformers (test/census). */
const CENSUS = readFileSync(join(import.meta.dirname, "../../../test/fixtures/census.json"), "utf8");
const modules = new Set(
  [...CENSUS.matchAll(/"[^"]*?\.\*\.([\w.*]+)\.(?:weight|bias)":/g)].map(([, module = ""]) => module),
);

it("no module of transformers has two kinds of norms by its name", () => {
  expect(modules.size).toBeGreaterThan(500);
  const several = [...modules].filter(
    (module) => new Set(NORMS.flatMap(([pattern, part]) => (pattern.test(module) ? [part] : []))).size > 1,
  );
  expect(several).toEqual([]);
});

it.each([
  ["self_attn.q_proj", "q_proj"],
  ["attention.query_key_value", "qkv_proj"],
  ["attn.c_proj", "o_proj"],
  ["mlp.c_proj", "down_proj"],
  ["attention.output.dense", "o_proj"],
  ["output.dense", "down_proj"],
  ["self_attn.gate_proj", "mixer"],
  ["mlp.experts.gate_up_proj", "gate_up_proj"],
  ["feed_forward.key", "feed_forward"],
  ["mixer.q_proj", "mixer"],
  ["ffn_norm", "pre_mlp_norm"],
  ["post_ffn_norm", "post_mlp_norm"],
  ["operator_norm", "input_norm"],
  ["post_operator_norm", "post_attention_norm"],
  ["post_self_attn_layernorm", "post_attention_norm"],
  ["something", "other"],
])("%s is %s", (module, part) => {
  expect(guessPart(module, undefined)).toBe(part);
});
