// Every supported family. To add one, write it in this folder and add a line here.
import { cohere, cohere2 } from "./cohere.js";
import type { Family } from "./family.js";
import { gemma, gemma2, gemma3 } from "./gemma.js";
import { granite, llama, mistral, olmo2, phi3, qwen2, qwen3, starcoder2 } from "./llama.js";

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
