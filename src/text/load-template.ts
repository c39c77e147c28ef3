// The chat template of a checkpoint folder: from its own files, else from tokenizer_config.json. Not chat_template.json,
// which belongs to processors of images and sound.

import { basename, join } from "node:path";
import { exists, isFile, readBounded } from "../kit/files/index.js";
import { CheckpointError, isObject } from "../kit/index.js";
import { type ChatTemplate, makeChatTemplate } from "./chat-template.js";
import { readSettings } from "./load-tokenizer.js";
import { templateVariables } from "./tokenizer-settings.js";

// Enough for a character more than makeChatTemplate accepts.
const MAX_BYTES = 4_000_004;

/**
 * Loads the default chat template of a folder; undefined where it has none. As in transformers, `chat_template.jinja`
 * overrides `chat_template` of tokenizer_config.json, which is one template or a list of named ones.
 * @throws CheckpointError if templates have names but none is the default, or it is not valid
 */
export async function loadChatTemplate(folder: string): Promise<ChatTemplate | undefined> {
  const settings = await readSettings(folder);
  const [own, config] = [join(folder, "chat_template.jinja"), join(folder, "tokenizer_config.json")];
  const isOwn = await exists(own);
  const text = isOwn ? await readTemplate(own) : defaultTemplate(settings.chat_template, config);
  if (text === undefined) return undefined;
  return makeChatTemplate(text, {
    variables: templateVariables(settings),
    name: `the chat template of ${basename(folder)}`,
    file: isOwn ? own : config,
  });
}

async function readTemplate(file: string): Promise<string> {
  if (!(await isFile(file))) throw new CheckpointError(`${file} is not a file`, { file });
  const tooLarge = () => new CheckpointError(`${file} has too many bytes for a chat template`, { file });
  return (await readBounded(file, MAX_BYTES, tooLarge)).toString("utf8");
}

function defaultTemplate(value: unknown, file: string): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return value;
  const where = { file, field: "chat_template" };
  const isNamed = (entry: unknown): entry is { name: string; template: string } =>
    isObject(entry) && typeof entry.name === "string" && typeof entry.template === "string";
  if (!Array.isArray(value) || !value.every(isNamed)) {
    const message = `chat_template of ${file} is neither a template nor a list of { name, template }`;
    throw new CheckpointError(message, where);
  }
  const found = value.find(({ name }) => name === "default");
  if (found || value.length === 0) return found?.template;
  const names = value.map(({ name }) => name).join(", ");
  const message = `${file} has no default chat template, only ${names}. Copy one of them to chat_template.jinja`;
  throw new CheckpointError(message, where);
}
