// Tokenizer and chat template of a model, from the first of its folders that has them.

import { join } from "node:path";
import { exists } from "../core/index.js";
import type { ModelSource } from "./model-source.js";
import {
  type ChatTemplate,
  loadChatTemplate,
  loadTokenizer,
  loadTokenizerParts,
  type Tokenizer,
  type TokenizerParts,
} from "./text/index.js";

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
