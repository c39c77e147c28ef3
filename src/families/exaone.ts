// LG's EXAONE 4: norms only after each half; with windows, layers without one do not rotate.
import type { Family } from "./page/family.js";
import { everyNth, FULL, SLIDING } from "./page/layer-kinds.js";
import { type GgufMetadata, readWindows } from "./page/llama-cpp.js";
import { otherWindows } from "./page/llama-differences.js";
import { ATTENTION, GATED_MLP, POST_NORMS } from "./page/tensor-names.js";
import { layerKinds, NORMS_AFTER, rmsNorm } from "./page/traits.js";

/** llama.cpp knows models with windows by their number of layers. */
const WINDOWED = 64;

const KINDS = everyNth(4, { field: "sliding_window_pattern" });

export const exaone: readonly Family[] = [
  {
    name: "EXAONE 4",
    modelTypes: ["exaone4"],
    reference: "LG AI Research 2025, arXiv 2507.11407; transformers Exaone4ForCausalLM",
    tensors: { parts: { ...ATTENTION, ...GATED_MLP, ...POST_NORMS } },
    kinds: [KINDS],
    defaults: { vocab_size: 102_400, intermediate_size: 16_384, rms_norm_eps: 1e-5, sliding_window: 4096 },
    traits: (fields, { layers }) => {
      const kinds = layerKinds(fields, layers, KINDS);
      const isHybrid = fields.countOrNull("sliding_window") !== null;
      return {
        norms: NORMS_AFTER,
        attention: { qkNorm: { ...rmsNorm(fields), over: "head" } },
        layer: (index) => ({
          window: kinds[index]?.window,
          rope: isHybrid && kinds[index]?.type !== SLIDING ? null : 0,
        }),
      };
    },
    llamaCpp: {
      name: "exaone4",
      ropeDivisors: ["one"],
      differs: [
        (spec) =>
          (spec.layers.length === WINDOWED) !== spec.layers.some(({ window }) => window !== null)
            ? `it has ${spec.layers.length} layers, and those of ${WINDOWED} have windows there, no others`
            : otherWindows(4)(spec),
      ],
      windows: true,
      unrotated: ({ window }, _, { layers }) => window === null && layers.length === WINDOWED,
      read: {
        className: "Exaone4ForCausalLM",
        fields: (read) => (read.number("block_count") === WINDOWED ? readWindows(read, 4) : global(read)),
      },
    },
  },
];

function global({ number }: GgufMetadata) {
  const layers = number("block_count") ?? 0;
  return { sliding_window: null, layer_types: Array.from({ length: layers }, () => FULL) };
}
