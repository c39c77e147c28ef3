// The chat template of a checkpoint folder: from its own files, else from tokenizer_config.json. Not chat_template.json,
// which belongs to processors of images and sound.

import { readdir, readFile, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { CheckpointError, didYouMean, exists, isFile, isObject } from "../../core/index.js";
import { type ChatTemplate, makeChatTemplate } from "./chat-template.js";
import { readSettings } from "./load-tokenizer.js";
import { templateVariables } from "./tokenizer-settings.js";

// Enough for a character more than makeChatTemplate accepts.
const MOST_BYTES = 4_000_004;

const FILE = "chat_template.jinja";
const FOLDER = "additional_chat_templates";

interface Source {
  readonly text: string;
  readonly file: string;
}

/**
 * Loads the chat template of a folder; undefined where it has none.
 *
 * As in transformers, `chat_template.jinja` and `additional_chat_templates/*.jinja` override `chat_template` of
 * tokenizer_config.json, which is one template or a list of named ones.
 * @param options.name name of a template; default "default"
 * @throws CheckpointError if there is no template of this name, or it is not valid
 */
export async function loadChatTemplate(
  folder: string,
  options: { name?: string } = {},
): Promise<ChatTemplate | undefined> {
  const settings = await readSettings(folder);
  const config = join(folder, "tokenizer_config.json");
  const files = await templatesOfFiles(folder);
  const sources = files.size > 0 ? files : templatesOfSettings(settings.chat_template, config);
  if (sources.size === 0) return undefined;
  const name = options.name ?? "default";
  const source = sources.get(name);
  if (!source) throw unknownTemplate(folder, options.name, [...sources.keys()]);
  const called = `the chat template of ${basename(folder)}${options.name === undefined ? "" : ` named ${name}`}`;
  return makeChatTemplate(source.text, { variables: templateVariables(settings), name: called, file: source.file });
}

async function templatesOfFiles(folder: string): Promise<Map<string, Source>> {
  const sources = new Map<string, Source>();
  const first = join(folder, FILE);
  if (await exists(first)) sources.set("default", { text: await readTemplate(first), file: first });
  const more = join(folder, FOLDER);
  for (const entry of (await exists(more)) ? (await readdir(more)).sort() : []) {
    if (!entry.endsWith(".jinja")) continue;
    const file = join(more, entry);
    sources.set(entry.slice(0, -".jinja".length), { text: await readTemplate(file), file });
  }
  return sources;
}

async function readTemplate(file: string): Promise<string> {
  if (!(await isFile(file))) throw new CheckpointError(`${file} is not a file`, { file });
  const { size } = await stat(file);
  if (size > MOST_BYTES) throw new CheckpointError(`${file} has ${size} bytes, too many for a chat template`, { file });
  return readFile(file, "utf8");
}

function templatesOfSettings(value: unknown, file: string): Map<string, Source> {
  if (value === undefined || value === null) return new Map();
  if (typeof value === "string") return new Map([["default", { text: value, file }]]);
  const entries: unknown[] = Array.isArray(value)
    ? value.map((entry: unknown) => (isObject(entry) ? [entry.name, entry.template] : entry))
    : isObject(value)
      ? Object.entries(value)
      : [value];
  const isNamed = (entry: unknown): entry is [string, string] =>
    Array.isArray(entry) && typeof entry[0] === "string" && typeof entry[1] === "string";
  if (!entries.every(isNamed)) {
    const message = `chat_template of ${file} is neither a template nor a list of { name, template }`;
    throw new CheckpointError(message, { file, field: "chat_template" });
  }
  return new Map(entries.map(([name, text]) => [name, { text, file }]));
}

function unknownTemplate(folder: string, name: string | undefined, names: string[]): CheckpointError {
  const known = names.sort().join(", ");
  if (name === undefined) {
    return new CheckpointError(`${folder} has no default chat template; choose one of ${known}`, { file: folder });
  }
  const advice = didYouMean(name, names) || `; it has ${known}`;
  return new CheckpointError(`${folder} has no chat template named ${name}${advice}`, { file: folder });
}
