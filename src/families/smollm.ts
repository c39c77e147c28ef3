// Hugging Face's SmolLM 3; the first two are Llamas.
import type { Family } from "./page/family.js";
import { ROTATED } from "./page/layer-kinds.js";

export const smollm: readonly Family[] = [{ name: "SmolLM 3", modelTypes: ["smollm3"], kinds: [ROTATED] }];
