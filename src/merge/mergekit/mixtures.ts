// Reads configurations of mergekit-moe, from mergekit 0.1.5's documentation and behaviour; none of its code is used.
import { z } from "zod";
import { isObject } from "../../kit/index.js";
import { checkSchema, type Problem } from "../../kit/settings/index.js";
import { GATE_MODES } from "../../tensor/measurements/index.js";
import { mixtureProblems } from "../methods/moe.js";
import type { RecipeInput } from "../recipe/recipe.js";
import { dtype, listed, optional, reference, type Strictness, unknownProblems } from "./mergekit-schema.js";
import type { MergekitRecipe } from "./translate.js";

const prompts = optional(z.array(z.string(), { error: "must be a list of texts" })).transform((value) => value ?? []);

const expert = z.object({
  source_model: reference,
  positive_prompts: prompts,
  negative_prompts: prompts,
  residual_scale: optional(z.number()).transform((value) => value ?? 1),
  noise_scale: z
    .union([z.null(), z.literal(0)], { error: "is not supported: its noise has no seed. Remove it." })
    .optional(),
});

const MODES = [...GATE_MODES, "hidden_last"] as const;
const NAMES = ["mixtral", "deepseek moe", "qwen moe", "qwen3 moe"];

const mixture = z.object({
  base_model: reference,
  experts: listed(expert, "experts"),
  shared_experts: optional(z.array(expert)),
  gate_mode: z.enum(MODES).default("hidden"),
  dtype,
  experts_per_token: z.int().min(1).default(2),
  architecture: optional(
    z.string().refine((name) => NAMES.some((one) => one.startsWith(name.toLowerCase())), {
      error: "must be mixtral, deepseek or qwen",
    }),
  ),
});

export function isMixture(value: unknown): value is object {
  if (!isObject(value) || "method" in value || "merge_method" in value) return false;
  const { experts } = value;
  const isOfExperts = Array.isArray(experts) && experts.some((one) => isObject(one) && "source_model" in one);
  return isOfExperts || "gate_mode" in value;
}

export function translateMixture(
  value: object,
  strictness: Strictness,
): {
  readonly translated?: MergekitRecipe;
  readonly problems: readonly Problem[];
} {
  const { value: config, problems } = checkSchema(mixture, value);
  const notes = unknownProblems(value, mixture, strictness);
  if (!config) return { problems };
  const { experts, shared_experts: shared = [], gate_mode: mode, architecture, experts_per_token } = config;
  const entry = (one: z.output<typeof expert>, isShared: boolean) => {
    const { source_model: model, noise_scale: _, ...rest } = one;
    return { model, ...rest, shared: isShared };
  };
  const models = [...experts.map((one) => entry(one, false)), ...shared.map((one) => entry(one, true))];
  const named = NAMES.find((one) => one.startsWith(architecture?.toLowerCase() ?? one));
  const gate_mode = mode === "hidden_last" ? "hidden" : mode;
  const whole = {
    method: "moe",
    backbone: config.base_model,
    models,
    gate_mode,
    experts_per_token,
    dtype: config.dtype,
    architecture: architecture && named?.match(/[a-z]+/)?.[0],
  };
  // Without what is empty or a default, for people who read the recipe.
  const isDefault = (key: string, value: unknown) =>
    (Array.isArray(value) && value.length === 0) || value === false || (key === "residual_scale" && value === 1);
  const recipe = JSON.parse(
    JSON.stringify(whole, (key, value: unknown) => (isDefault(key, value) ? undefined : value)),
  ) as RecipeInput;
  const more = mixtureProblems({ models, gate_mode, experts_per_token }, (i) =>
    i < experts.length ? ["experts", i] : ["shared_experts", i - experts.length],
  );
  if (mode.startsWith("hidden")) notes.push("gates are computed in float32; mergekit computes them in bfloat16");
  if (mode === "hidden_avg") notes.push("hidden_avg leaves out padding, which mergekit averages with shorter prompts");
  if (mode.endsWith("random")) notes.push("random gates are seeded: the same on every run, and not those of mergekit");
  return { translated: { recipe, notes }, problems: more };
}
