// Every supported family. To add one, add a page in this folder and a line here.
import { cohere, cohere2 } from "./cohere.js";
import type { Family } from "./family.js";
import { gemma, gemma2, gemma3 } from "./gemma.js";
import { granite } from "./granite.js";
import { llama } from "./llama.js";
import { mistral } from "./mistral.js";
import { olmo2 } from "./olmo2.js";
import { phi3 } from "./phi3.js";
import { qwen2, qwen3 } from "./qwen.js";
import { starcoder2 } from "./starcoder2.js";

export const FAMILIES: readonly Family[] = [
  llama,
  mistral,
  qwen2,
  qwen3,
  cohere,
  cohere2,
  gemma,
  gemma2,
  gemma3,
  granite,
  olmo2,
  phi3,
  starcoder2,
];

export function findFamily(modelType: string): Family | undefined {
  return FAMILIES.find((family) => family.modelTypes.includes(modelType));
}
