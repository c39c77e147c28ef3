// Name, tokenizer, template and end tokens of a model from its files.

import { join } from "node:path";
import { CheckpointError, exists, readJsonObject } from "../core/index.js";
import type { ModelSource } from "./model-source.js";
import { loadSourceTemplate, loadSourceTokenizer } from "./source-text.js";
import type { Tokenizer } from "./text/index.js";
import type { ModelText } from "./token-model.js";

export function modelTextOf(source: ModelSource): ModelText {
  let loaded: Promise<Tokenizer> | undefined;
  const tokenizer = () => {
    loaded ??= loadSourceTokenizer(source);
    return loaded;
  };
  const { name, digest, notes } = source;
  return {
    name,
    digest,
    notes,
    tokenizer,
    chatTemplate: () => loadSourceTemplate(source),
    stopIds: () => readStopIds(source, tokenizer),
  };
}

/** The end tokens of generation_config.json, config.json and the tokenizer. */
async function readStopIds(
  { config, textFolders }: ModelSource,
  loadTokenizer: () => Promise<Tokenizer>,
): Promise<readonly number[]> {
  const ids: unknown[] = [config.json.eos_token_id];
  for (const folder of textFolders) {
    const file = join(folder, "generation_config.json");
    if (await exists(file)) ids.push((await readJsonObject(file)).eos_token_id);
  }
  const tokenizer = await loadTokenizer().catch((error: unknown) => {
    if (error instanceof CheckpointError) return undefined;
    throw error;
  });
  if (tokenizer?.eos !== undefined) ids.push(tokenizer.eos);
  return [...new Set(ids.flat())].filter((id): id is number => typeof id === "number");
}
