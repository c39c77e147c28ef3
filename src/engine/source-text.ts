// Tokenizer, chat template and end tokens of a model, from the first of its folders that has them.

import { join } from "node:path";
import { textOf } from "../formats/checkpoint/index.js";
import { exists, readJsonObject } from "../kit/files/index.js";
import { CheckpointError, usageError } from "../kit/index.js";
import {
  type ChatTemplate,
  endOfReply,
  loadChatTemplate,
  loadTokenizer,
  loadTokenizerParts,
  type Tokenizer,
  type TokenizerParts,
} from "../text/index.js";
import { type GenerationConfig, legacyGeneration, readGenerationConfig } from "./generation-config.js";
import type { ModelSource } from "./model-source.js";
import type { ModelText } from "./token-model.js";

type TextSource = Pick<ModelSource, "textFolders" | "addedTokens">;

/**
 * Loads the tokenizer, with the tokens that a plan adds.
 * @throws CheckpointError if no folder has a readable one
 */
export async function loadSourceTokenizer(source: TextSource): Promise<Tokenizer> {
  return loadTokenizer(await tokenizerFolder(source), source);
}

/**
 * Loads the parts of the tokenizer, with the tokens that a plan adds.
 * @throws CheckpointError if no folder has a readable one
 */
export async function loadSourceTokenizerParts(source: TextSource): Promise<TokenizerParts> {
  return loadTokenizerParts(await tokenizerFolder(source), source);
}

async function tokenizerFolder({ textFolders }: TextSource): Promise<string> {
  for (const folder of textFolders) if (await exists(join(folder, "tokenizer.json"))) return folder;
  return textFolders.at(-1) ?? ".";
}

/** Loads the chat template; undefined if no folder has one. */
export async function loadSourceTemplate({ textFolders }: TextSource): Promise<ChatTemplate | undefined> {
  for (const folder of textFolders) {
    const template = await loadChatTemplate(folder);
    if (template) return template;
  }
  return undefined;
}

/**
 * The chat template of a model, which need not be loaded.
 * @throws LayergraftError code `usage` if it has none
 */
export async function requireTemplate({ name, chatTemplate }: Pick<ModelText, "name" | "chatTemplate">) {
  const template = await chatTemplate();
  if (template) return template;
  const advice = /\.gguf$/i.test(name) ? "Prompt" : "Add a chat_template.jinja to its folder, or prompt";
  throw usageError(`${name} has no chat template. ${advice} it with text`, { option: "chat" });
}

export interface SourceText extends ModelText {
  /** How the model's own settings change answers. @throws CheckpointError for an invalid value */
  generationConfig(): Promise<GenerationConfig>;
  /** The end tokens that its files name, which every program reads: without what ends a reply in the chat template. */
  declaredEndIds(): Promise<readonly number[]>;
}

/** Name, tokenizer, template and end tokens of a model from its files. */
export function modelTextOf(source: ModelSource): SourceText {
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
    generationConfig: () => readGeneration(source),
    declaredEndIds: () => readStopIds(source, tokenizer, async () => undefined),
  };
}

const GENERATION_FILE = "generation_config.json";

/** The settings of the first folder that has any; those of config.json where none has. */
async function readGeneration({ config, textFolders }: ModelSource): Promise<GenerationConfig> {
  for (const folder of textFolders) {
    const file = join(folder, GENERATION_FILE);
    if (await exists(file)) return readGenerationConfig(await readJsonObject(file), file);
  }
  const legacy = { ...legacyGeneration(textOf(config.json)), ...legacyGeneration(config.json) };
  return readGenerationConfig(legacy, config.file);
}

/** The end tokens of generation_config.json, config.json and the tokenizer, and what ends a reply in the chat template. */
async function readStopIds(
  source: ModelSource,
  loadTokenizer: () => Promise<Tokenizer>,
  loadTemplate: () => Promise<ChatTemplate | undefined> = () => loadSourceTemplate(source),
): Promise<readonly number[]> {
  const { config, textFolders } = source;
  const ids: unknown[] = [config.json.eos_token_id, textOf(config.json).eos_token_id];
  for (const folder of textFolders) {
    const file = join(folder, GENERATION_FILE);
    if (await exists(file)) ids.push((await readJsonObject(file)).eos_token_id);
  }
  try {
    const [tokenizer, template] = await Promise.all([loadTokenizer(), loadTemplate()]);
    ids.push(tokenizer.eos, template && endOfReply(template, tokenizer));
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error;
  }
  return [...new Set(ids.flat())].filter((id): id is number => typeof id === "number");
}
