// Mixture of experts: the MLPs of several models behind a router, in the attention and norms of one.
import { z } from "zod";
import { isObject, type JsonObject, MismatchError, RecipeError } from "../../kit/index.js";
import { plural } from "../../kit/printing/index.js";
import { formatProblem, type Problem } from "../../kit/settings/index.js";
import { GATE_MODES, type GateMode } from "../../tensor/measurements/index.js";
import { defineMethod, MODEL_ONLY, modelsField, seedField, sourceField } from "./method.js";
import { copyTensor, type Operand, type OperandTensor, tensorOf } from "./operand.js";

const promptsField = () => z.array(z.string().max(20_000)).max(1000).default([]);

const fields = () => ({
  backbone: sourceField("model that gives embedding, attention, norms and head").refine(...MODEL_ONLY),
  models: modelsField(
    "the models whose MLPs become experts",
    {
      positive_prompts: promptsField().describe("texts that the router should send to the expert"),
      negative_prompts: promptsField().describe("texts that it should not"),
      residual_scale: z.number().min(-1e9).max(1e9).default(1).describe("factor for its down projection"),
      shared: z.boolean().default(false).describe("whether every token goes through it; at most one model"),
    },
    2,
  ),
  gate_mode: z
    .enum(GATE_MODES)
    .default("hidden")
    .describe(
      "rows of the router from the prompts: `hidden` states of the last token, `hidden_avg` of all tokens, " +
        "`cheap_embed`, embeddings, or `calibrated`, by regression on all tokens as in harc; or random: `random` (normal), `uniform_random`",
    ),
  experts_per_token: z.int().min(1).default(2).describe("experts that each token goes through"),
  architecture: z
    .enum(["mixtral", "deepseek", "qwen"])
    .optional()
    .describe("form of the result; default the first that holds the family and the shared expert"),
  seed: seedField,
});

type MoeRecipe = z.output<z.ZodObject<ReturnType<typeof fields>>>;

/** An expert of a recipe; a bare source has no prompts. */
type Expert = Exclude<MoeRecipe["models"][number], string | { readonly method: string }>;

const expertsOf = ({ models }: Pick<MoeRecipe, "models">): Expert[] =>
  models.map((entry) => ({
    positive_prompts: [],
    negative_prompts: [],
    residual_scale: 1,
    shared: false,
    ...(isObject(entry) && "model" in entry ? (entry as Expert) : { model: entry as string }),
  }));

const isRandom = (mode: GateMode) => mode === "random" || mode === "uniform_random";

/**
 * What no mixture can be made of, beyond the schema.
 * @param pathOf the path of an expert in the file
 */
export function mixtureProblems(
  recipe: Pick<MoeRecipe, "models" | "gate_mode" | "experts_per_token">,
  pathOf: (expert: number) => readonly PropertyKey[] = (expert) => ["models", expert],
): Problem[] {
  const experts = expertsOf(recipe);
  const [routed, shared] = [experts.filter((one) => !one.shared), experts.filter((one) => one.shared)];
  const problems: Problem[] = [];
  const add = (path: readonly PropertyKey[], message: string) => problems.push({ path, message });
  if (recipe.experts_per_token > routed.length) {
    add(["experts_per_token"], `is ${recipe.experts_per_token}, but ${plural(routed.length, "expert")} can be chosen`);
  }
  if (shared.length > 1) add(pathOf(experts.lastIndexOf(shared[1] as Expert)), "at most one expert can be shared");
  if (isRandom(recipe.gate_mode)) return problems;
  experts.forEach((one, i) => {
    if (one.shared || one.positive_prompts.length > 0) return;
    add([...pathOf(i), "positive_prompts"], `is missing: gate_mode ${recipe.gate_mode} needs a prompt for each expert`);
  });
  const texts = routed.map((one) => JSON.stringify([one.positive_prompts, one.negative_prompts]));
  if (problems.length === 0 && texts.length > 1 && new Set(texts).size === 1) {
    add(pathOf(0), "all experts have the same prompts, so the router cannot tell them apart");
  }
  if (routed.length > 1 && new Set(routed.map(({ model }) => model)).size === 1) {
    add(pathOf(0), "all experts are the same model. Set gate_mode: random to train the mixture from copies.");
  }
  return problems;
}

/** How a family of mixtures names its tensors and sizes. E experts, k of them per token. */
interface Layout {
  readonly architecture: NonNullable<MoeRecipe["architecture"]>;
  /** Values of `model_type` that it can hold. */
  readonly families: readonly string[];
  readonly router: string;
  readonly experts: string;
  readonly names?: Readonly<Record<string, string>>;
  /** Module of the shared expert; none if it has none. */
  readonly shared?: string;
  /** Whether the shared expert has a gate of its own, or else always counts whole. */
  readonly gatesShared?: true;
  readonly config: (
    json: JsonObject,
    sizes: { E: number; k: number; hasBias: boolean; hasShared: boolean },
  ) => JsonObject;
}

const LAYOUTS: readonly Layout[] = [
  {
    architecture: "mixtral",
    families: ["llama", "mistral"],
    router: "block_sparse_moe.gate",
    experts: "block_sparse_moe.experts",
    names: { gate_proj: "w1", down_proj: "w2", up_proj: "w3" },
    config: (_, { E, k }) => ({
      architectures: ["MixtralForCausalLM"],
      model_type: "mixtral",
      sliding_window: null,
      num_local_experts: E,
      num_experts_per_tok: k,
    }),
  },
  {
    // DeepSeekMoE (arXiv 2401.06066), whose code is on the hub and not in transformers.
    architecture: "deepseek",
    families: ["llama", "mistral"],
    router: "mlp.gate",
    experts: "mlp.experts",
    shared: "mlp.shared_experts",
    config: ({ intermediate_size }, { E, k, hasShared }) => ({
      architectures: ["DeepseekForCausalLM"],
      model_type: "deepseek",
      first_k_dense_replace: 0,
      moe_layer_freq: 1,
      n_routed_experts: E,
      n_shared_experts: hasShared ? 1 : null,
      num_experts_per_tok: k,
      scoring_func: "softmax",
      norm_topk_prob: true,
      moe_intermediate_size: intermediate_size,
      auto_map: Object.fromEntries(
        Object.entries({
          AutoConfig: "configuration_deepseek.DeepseekConfig",
          AutoModel: "modeling_deepseek.DeepseekModel",
          AutoModelForCausalLM: "modeling_deepseek.DeepseekForCausalLM",
        }).map(([name, code]) => [name, `deepseek-ai/deepseek-moe-16b-base--${code}`]),
      ),
    }),
  },
  {
    architecture: "qwen",
    families: ["qwen2", "llama", "mistral"],
    router: "mlp.gate",
    experts: "mlp.experts",
    shared: "mlp.shared_expert",
    gatesShared: true,
    config: ({ intermediate_size }, { E, k, hasBias }) => ({
      architectures: ["Qwen2MoeForCausalLM"],
      model_type: "qwen2_moe",
      use_sliding_window: false,
      num_experts: E,
      num_experts_per_tok: k,
      decoder_sparse_step: 1,
      norm_topk_prob: true,
      mlp_only_layers: [],
      moe_intermediate_size: intermediate_size,
      shared_expert_intermediate_size: intermediate_size,
      qkv_bias: hasBias,
    }),
  },
  {
    architecture: "qwen",
    families: ["qwen3"],
    router: "mlp.gate",
    experts: "mlp.experts",
    config: ({ intermediate_size, head_dim = 128 }, { E, k }) => ({
      architectures: ["Qwen3MoeForCausalLM"],
      model_type: "qwen3_moe",
      head_dim,
      num_experts: E,
      num_experts_per_tok: k,
      decoder_sparse_step: 1,
      norm_topk_prob: true,
      mlp_only_layers: [],
      moe_intermediate_size: intermediate_size,
    }),
  },
];

/** What transformers takes for fields that the file of a Llama, Mistral or Qwen model may leave out; Mixtral's differ. */
const defaultsOf = ({ num_attention_heads: heads, rope_parameters: rope }: JsonObject): JsonObject => ({
  rms_norm_eps: 1e-6,
  num_key_value_heads: heads,
  ...(rope === undefined ? { rope_theta: 10_000 } : {}),
});

const MLP = ["gate_proj", "up_proj", "down_proj"];

export const moe = defineMethod({
  name: "moe",
  title: "Mixture of experts",
  summary: "Puts the MLPs of several models behind a router, in the attention, norms and embedding of one model.",
  formula:
    "router row of an expert in layer l = normalised (mean hidden state of its positive prompts at the layer's input - that of " +
    "its negative prompts); calibrated: harc's W, where W_i x gives 90% of each token of the positive prompts of expert i to it",
  reference: "mergekit, mergekit-moe; Mixtral, Jiang et al., 2024, arXiv 2401.04088",
  fields,
  layersOnly: true,
  example: {
    method: "moe",
    backbone: "base",
    models: [
      { model: "math-expert", positive_prompts: ["Solve for x: 3x + 4 = 19"] },
      { model: "swahili-expert", positive_prompts: ["Habari ya leo?"] },
    ],
  },
  tensors: (recipe, sources, context) => {
    const problems = mixtureProblems(recipe);
    if (problems.length > 0) throw new RecipeError("This mixture cannot be made:", problems.map(formatProblem));
    const backbone = sources.get("backbone");
    const { config, layerPrefix } = backbone.lead.checkpoint;
    const experts = expertsOf(recipe).map((expert, i) => ({ ...expert, operand: sources.models[i] as Operand }));
    const [routed, shared] = [experts.filter((one) => !one.shared), experts.find((one) => one.shared)];
    const layout = layoutFor(recipe, config.modelType, shared);
    const gated = layout.gatesShared && shared ? [...routed, shared] : routed;
    const [width, names] = [config.hiddenSize ?? 0, layout.names ?? {}];
    const { measured } = context.measure({
      id: "gates",
      kind: "gates",
      label: "gates of the router",
      source: backbone.label,
      mode: recipe.gate_mode,
      layers: backbone.layers,
      width,
      seed: recipe.seed,
      experts: gated.map((one) => ({ positive: one.positive_prompts, negative: one.negative_prompts })),
    });
    const gate = (layer: number, from: number, rows: number, like: OperandTensor): OperandTensor => {
      const at = (layer * gated.length + from) * width;
      return {
        dtype: like.dtype,
        shape: [rows, width],
        layer,
        origin: [backbone.label],
        part: from === 0 ? "router" : "shared_expert_gate",
        value: { op: "given", of: [], values: measured, at, rows, columns: width },
      };
    };
    const tensors = new Map<string, OperandTensor>();
    const biases: string[] = [];
    for (const [name, tensor] of backbone.tensors) {
      const { layer, part } = tensor;
      if (name.endsWith(".bias") && !(layout.gatesShared && /[qkv]_proj\.bias$/.test(name))) biases.push(name);
      if (layer === null || !MLP.includes(part)) {
        tensors.set(name, copyTensor(name, backbone));
        continue;
      }
      const start = `${layerPrefix}${layer}.`;
      const add = ({ operand, residual_scale: scale }: (typeof experts)[number], module: string, as: string) => {
        const { value } = tensorOf(operand, name);
        const isScaled = part === "down_proj" && scale !== 1;
        tensors.set(`${start}${module}.${as}.weight`, {
          ...tensor,
          origin: [operand.label],
          value: isScaled ? { sum: [{ weight: scale, value }] } : value,
        });
      };
      for (const [e, expert] of routed.entries()) add(expert, `${layout.experts}.${e}`, names[part] ?? part);
      if (shared && layout.shared) add(shared, layout.shared, part);
      if (part !== "gate_proj") continue;
      tensors.set(`${start}${layout.router}.weight`, gate(layer, 0, routed.length, tensor));
      if (gated.length > routed.length) {
        tensors.set(`${start}mlp.shared_expert_gate.weight`, gate(layer, routed.length, 1, tensor));
      }
    }
    if (biases.length > 0) {
      throw new MismatchError(`A ${layout.architecture} mixture has no place for these tensors:`, biases.slice(0, 8));
    }
    const hasBias = [...backbone.tensors.keys()].some((name) => name.endsWith("q_proj.bias"));
    const sizes = { E: routed.length, k: recipe.experts_per_token, hasBias, hasShared: shared !== undefined };
    return { tensors, config: { ...defaultsOf(config.json), ...config.json, ...layout.config(config.json, sizes) } };
  },
  headline: ({ models, gate_mode, experts_per_token: k }) =>
    `Mixture of ${plural(models.length, "expert")}, ${k} per token: gates ${gate_mode}`,
  describe: (recipe, name) =>
    `A mixture of experts: attention, norms and embedding of ${name("backbone")}, MLPs of ` +
    `${recipe.models.map((_, i) => name(`models[${i}]`)).join(", ")}, ${recipe.experts_per_token} per token, gates ${recipe.gate_mode}.`,
});

/** @throws RecipeError if no family of mixtures holds the models */
function layoutFor(recipe: MoeRecipe, family: string, shared: Expert | undefined): Layout {
  const asked = LAYOUTS.filter((one) => recipe.architecture === undefined || one.architecture === recipe.architecture);
  const holdsFamily = asked.filter((one) => one.families.includes(family));
  if (holdsFamily.length === 0) {
    const families = [...new Set(asked.flatMap((one) => one.families))].join(", ");
    throw RecipeError.at(
      { field: "backbone", actual: family, expected: families },
      `${recipe.architecture ? `A ${recipe.architecture} mixture` : "A mixture"} can be made of ${families}; the models are ${family}`,
    );
  }
  const prompts = (shared?.positive_prompts.length ?? 0) > 0;
  const found = holdsFamily.find((one) => {
    if (one.gatesShared) return shared !== undefined && (prompts || isRandom(recipe.gate_mode));
    return shared === undefined || (one.shared !== undefined && !prompts);
  });
  if (found) return found;
  throw RecipeError.at(
    { field: "models" },
    holdsFamily.some((one) => one.gatesShared)
      ? "This mixture needs one shared expert with positive_prompts: set shared: true at a model. Only DeepSeek's has none."
      : `A ${holdsFamily[0]?.architecture} mixture has no shared expert${holdsFamily[0]?.shared ? " with prompts. Remove its prompts." : ". Remove it."}`,
  );
}
