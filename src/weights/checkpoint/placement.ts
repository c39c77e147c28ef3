// Assigns each tensor a layer and a part, by its family's names or else by the layer numbers in names.
import { CheckpointError, formatSome, own } from "../../core/index.js";
import { type Architecture, findArchitecture, type LayerPart, type OutsidePart, type Part } from "./architectures.js";
import type { CheckpointConfig } from "./config.js";

/** The place of a tensor in the model. */
export interface Place {
  /** Layer, counted from 0 at the input; null for tensors outside the layers. */
  readonly layer: number | null;
  readonly part: Part;
  /** Whether a matrix is stored [in, out], as in GPT-2, instead of [out, in]. */
  readonly transposed?: true;
}

export interface Placement {
  /** Displayed name of the architecture; "unknown" if only layer numbers were recognized. */
  readonly architecture: string;
  readonly tiedByDefault: boolean;
  readonly places: ReadonlyMap<string, Place>;
  /** Prefix of a layer's number in tensor names, such as `model.layers.`. */
  readonly layerPrefix: string;
}

interface Rule {
  readonly prefix: string;
  readonly stem: string;
  readonly architecture?: Architecture;
}

/**
 * Places tensors by their names.
 * @throws CheckpointError if the names have no layer numbers, or not exactly the configuration's
 */
export function placeTensors(names: readonly string[], config: CheckpointConfig): Placement {
  const known = findArchitecture(config.modelType);
  const rule = (known && findKnownRule(names, known)) ?? findGenericRule(names, config);
  const places = new Map(names.map((name) => [name, place(name, rule)] as const));
  checkLayers(places, rule, config);
  return {
    architecture: rule.architecture?.name ?? "unknown",
    tiedByDefault: known?.tiedByDefault ?? false,
    places: moveExtraLayersOutside(places, config),
    layerPrefix: rule.prefix,
  };
}

function findKnownRule(names: readonly string[], architecture: Architecture): Rule | undefined {
  for (const stem of architecture.stems) {
    const prefix = `${stem}${architecture.layers}.`;
    if (names.some((name) => name.startsWith(`${prefix}0.`))) return { prefix, stem, architecture };
  }
  return undefined;
}

/** The prefix after which the names count exactly 0..L-1. */
function findGenericRule(names: readonly string[], config: CheckpointConfig): Rule {
  const numbers = new Map<string, Set<number>>();
  for (const name of names) {
    for (const match of name.matchAll(/(?<=\.)\d+(?=\.)|^\d+(?=\.)/g)) {
      const prefix = name.slice(0, match.index);
      numbers.set(prefix, (numbers.get(prefix) ?? new Set()).add(Number(match[0])));
    }
  }
  const fits = [...numbers]
    .filter(([, found]) => found.size === config.layers && Math.max(...found) === config.layers - 1)
    .map(([prefix]) => prefix);
  // Experts inside a layer can count to L as well; the outermost numbers are the layers'.
  const outermost = fits.filter((prefix) => !fits.some((other) => other !== prefix && prefix.startsWith(other)));
  const [prefix] = outermost;
  if (prefix !== undefined && outermost.length === 1) {
    return { prefix, stem: /^(.*\.)?[^.]+\.$/.exec(prefix)?.[1] ?? "" };
  }
  if (outermost.length > 1) {
    throw new CheckpointError(
      `${config.file} is of the unknown family "${config.modelType}", and its tensors count ${config.layers} layers in more than one place (${formatSome(outermost)}), so the decoder's layers are unclear`,
      { file: config.file, field: "model_type", actual: config.modelType },
    );
  }
  const [closest] = [...numbers].sort((a, b) => b[1].size - a[1].size);
  const seen = closest ? `; the closest, ${closest[0]}N, counts ${closest[1].size}` : "";
  throw new CheckpointError(
    `${config.file} says ${config.layers} layers, but no tensor names count 0 to ${config.layers - 1}${seen}; the configuration and the weights are not of the same model`,
    { file: config.file, field: config.layersField, expected: `${config.layers} layers` },
  );
}

function place(name: string, rule: Rule): Place {
  const { prefix, stem, architecture } = rule;
  if (name.startsWith(prefix)) {
    const rest = name.slice(prefix.length);
    const dot = rest.indexOf(".");
    if (dot > 0 && /^\d+$/.test(rest.slice(0, dot))) {
      const module = moduleName(rest.slice(dot + 1));
      const guess = () => GUESSES.find(([pattern]) => pattern.test(module))?.[1];
      const part = (architecture ? own(architecture.parts, module) : guess()) ?? "other";
      const isMatrix =
        architecture &&
        Object.hasOwn(architecture.parts, module) &&
        name.endsWith(".weight") &&
        !part.endsWith("_norm");
      const transposed = architecture?.transposed && isMatrix;
      return { layer: Number(rest.slice(0, dot)), part, ...(transposed ? { transposed } : {}) };
    }
  }
  return { layer: null, part: outsidePart(name, stem, architecture) };
}

/** A tensor's name without `.weight` or `.bias`, experts' numbers replaced by `*`. */
function moduleName(name: string): string {
  return name.replace(/\.(weight|bias)$/, "").replace(/(?<=^|\.)experts\.\d+\./, "experts.*.");
}

const VISION = /(^|\.)(vision|visual|multi_modal_projector|mm_projector|image_newline)/;

function outsidePart(name: string, stem: string, architecture: Architecture | undefined): OutsidePart {
  if (VISION.test(name)) return "vision";
  const module = moduleName(name);
  if (architecture) {
    // The head is often next to the decoder, not inside it: `lm_head` next to `model.`, or one level up.
    const under = module.startsWith(stem) ? module.slice(stem.length) : module;
    const last = module.slice(module.lastIndexOf(".") + 1);
    const head = own(architecture.outside, last) === "lm_head" ? "lm_head" : undefined;
    return own(architecture.outside, under) ?? own(architecture.outside, module) ?? head ?? "other";
  }
  if (/(^|\.)(wpe|embed_positions|position_embeddings?)$/.test(module)) return "position_embeddings";
  if (/(^|\.)(embed_tokens|word_embeddings|tok_embeddings|embed_in|wte|embeddings?)$/.test(module))
    return "embed_tokens";
  if (/(^|\.)(lm_head|embed_out|output)$/.test(module)) return "lm_head";
  return /norm|(^|\.)ln_?f$/.test(module) ? "final_norm" : "other";
}

/** Guesses for unknown families, by common words, most specific first. */
const GUESSES: readonly (readonly [RegExp, LayerPart])[] = [
  [/(^|[._])q(uery)?_?(layer)?norm$/, "q_norm"],
  [/(^|[._])k(ey)?_?(layer)?norm$/, "k_norm"],
  [/(input|pre_?attn|pre_?attention|attention|attn|self_attn).*(norm|ln)$|^(ln_?1|ln_attn|norm_?1)$/, "input_norm"],
  [/(norm|ln_?\d?)$/, "pre_mlp_norm"],
  [/(qkv|query_key_value|c_attn|Wqkv|wqkv|qkv_proj)/i, "qkv_proj"],
  [/(^|[._])(q_proj|query|wq|q)$/, "q_proj"],
  [/(^|[._])(k_proj|key|wk|k)$/, "k_proj"],
  [/(^|[._])(v_proj|value|wv|v)$/, "v_proj"],
  [/(attn|attention).*(o_proj|out_proj|c_proj|dense|wo|proj)$/i, "o_proj"],
  [/(gate_up|gate_and_up|(^|\.)Wi$)/, "gate_up_proj"],
  [/shared_expert_gate$/, "shared_expert_gate"],
  [/(^|[._])(gate_proj|w1|gate_fc)$/, "gate_proj"],
  [/(^|[._])(router|gate)$/, "router"],
  [/(^|[._])(up_proj|w3|fc1|fc_in|c_fc|dense_h_to_4h|intermediate\.dense)$/, "up_proj"],
  [/(^|[._])(down_proj|w2|fc2|fc_out|c_proj|dense_4h_to_h|output\.dense|mlp\.Wo)$/, "down_proj"],
];

function checkLayers(places: ReadonlyMap<string, Place>, rule: Rule, config: CheckpointConfig): void {
  const found = new Set([...places.values()].map((place) => place.layer).filter((layer) => layer !== null));
  const missing = Array.from({ length: config.layers }, (_, layer) => layer).filter((layer) => !found.has(layer));
  const extra = [...found].filter((layer) => layer >= config.layers + config.predictionLayers);
  if (missing.length === 0 && extra.length === 0) return;
  const what =
    missing.length > 0
      ? `there are no tensors of layer ${formatSome(missing.map(String))}`
      : `there are tensors of layer ${formatSome(extra.sort((a, b) => a - b).map(String))}`;
  throw new CheckpointError(
    `${config.file} says ${config.layers} layers, but under ${rule.prefix} ${what}; the configuration and the weights are not of the same model, or a shard is missing`,
    {
      file: config.file,
      field: config.layersField,
      expected: `${config.layers} layers`,
      actual: `${found.size} layers`,
    },
  );
}

/** Multi-token-prediction layers follow the last layer by number but are not part of the decoder. */
function moveExtraLayersOutside(places: Map<string, Place>, config: CheckpointConfig): Map<string, Place> {
  for (const [name, { layer }] of places) {
    if (layer !== null && layer >= config.layers) places.set(name, { layer: null, part: "other" });
  }
  return places;
}
