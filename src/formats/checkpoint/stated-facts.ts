// Fields of config.json that the tensors contradict, and what the tensors say.

import type { CheckpointTensor } from "./checkpoint.js";
import { type CheckpointConfig, edited, mapText, textOf } from "./config.js";

/** Flags of linear layers with biases, and the tensors that have them if so. */
const BIASES: readonly (readonly [field: string, module: string, projections: readonly string[]])[] = [
  ["attention_bias", "self_attn", ["q_proj", "k_proj", "v_proj", "o_proj"]],
  ["mlp_bias", "mlp", ["gate_proj", "up_proj", "down_proj"]],
];
const EXPERTS = ["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"];

/**
 * A configuration corrected where all tensors agree on another value, with which transformers would open the model with
 * tensors that are missing, left out, or of another shape.
 */
export function withStoredFacts(
  config: CheckpointConfig,
  tensors: ReadonlyMap<string, CheckpointTensor>,
): { readonly config: CheckpointConfig; readonly notes: readonly string[] } {
  const text = textOf(config.json);
  const found: Record<string, unknown> = {};
  const list = [...tensors.values()];
  const inLayers = list.filter(({ layer }) => layer !== null);
  for (const [field, module, projections] of BIASES) {
    if (typeof text[field] !== "boolean") continue;
    const stored = (suffix: string) =>
      projections.filter((one) => inLayers.some(({ name }) => name.endsWith(`${module}.${one}.${suffix}`))).length;
    // Some families have biases in only some of them, whatever the flag says.
    if (stored("weight") === projections.length && stored("bias") % projections.length === 0) {
      found[field] = stored("bias") > 0;
    }
  }
  const ends = list.filter(({ part, shape }) => shape.length === 2 && (part === "embed_tokens" || part === "lm_head"));
  const rows = new Set(ends.map(({ shape }) => shape[0]));
  // Mllama's embedding has rows that its head and its vocabulary lack.
  if (rows.size === 1 && ends.some(({ part }) => part === "embed_tokens") && typeof text.vocab_size === "number") {
    [found.vocab_size] = rows;
  }
  const experts = new Map<string, number>();
  for (const { name, shape } of inLayers) {
    const [, stem = "", number] = /^(.*\.experts)\.(?:(\d+)\.|(?:gate_up_proj|down_proj)$)/.exec(name) ?? [];
    const count = number === undefined ? (shape[0] ?? 0) : Number(number) + 1;
    if (stem !== "") experts.set(stem, Math.max(experts.get(stem) ?? 0, count));
  }
  const counts = new Set(experts.values());
  const field = EXPERTS.find((one) => typeof text[one] === "number");
  // Ernie's router of each modality chooses from its own experts, and some of LongCat's experts compute nothing.
  const routed = new Set(
    list.flatMap(({ part, shape }) => (part === "router" && shape.length === 2 ? [shape[0]] : [])),
  );
  const [count = 0] = counts;
  if (counts.size === 1 && field !== undefined && [...routed].every((one) => one === count)) {
    found[field] = count - (Number(text.zero_expert_num) || 0);
  }

  const changed = Object.entries(found).filter(([name, value]) => value !== text[name]);
  if (changed.length === 0) return { config, notes: [] };
  const fixed = edited(config, (json) => mapText(json, (stated) => ({ ...stated, ...Object.fromEntries(changed) })));
  const vocabularySize = typeof found.vocab_size === "number" ? found.vocab_size : config.vocabularySize;
  const notes = changed.map(
    ([name, value]) => `the configuration says ${name} ${text[name]}, the tensors ${value}, which is written`,
  );
  return { config: { ...fixed, vocabularySize }, notes };
}
