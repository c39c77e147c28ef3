// Tiny random models with a tokenizer that llama.cpp has and with one that it has not, and a task to evaluate them on.
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeByteTokenizer } from "../reference/gguf_tokenizers.js";
import { writeTiny } from "./checkpoints.js";

/** A token per byte, BOS, EOS, and two merges. */
export const BYTE_TOKENS = 260;

export async function writeByteModel(folder: string, seed: number): Promise<string> {
  await writeTiny(folder, { seed, layers: 3, vocabulary: BYTE_TOKENS, config: { max_position_embeddings: 256 } });
  writeByteTokenizer(folder, BYTE_TOKENS);
  writeFileSync(join(folder, "generation_config.json"), JSON.stringify({ eos_token_id: 257 }));
  return folder;
}

const WHOLE_WORDS = join(import.meta.dirname, "../fixtures/tokenizers/words.json");
const WHOLE_WORD_TOKENS = 125;

/** Writes a model that cannot be exported as GGUF: its tokenizer has whole words. */
export async function writeWordLevelModel(folder: string, seed: number): Promise<string> {
  await writeTiny(folder, { seed, layers: 3, vocabulary: WHOLE_WORD_TOKENS, config: { max_position_embeddings: 256 } });
  copyFileSync(WHOLE_WORDS, join(folder, "tokenizer.json"));
  return folder;
}

/** Writes the task letters.yaml, of four items. */
export function writeLetters(folder: string): void {
  const rows = ["ab", "cd", "ef", "gh"].map((text) => `${JSON.stringify({ text, answer: text })}\n`);
  writeFileSync(join(folder, "letters.jsonl"), rows.join(""));
  const task = ["task: letters", "data: letters.jsonl", 'prompt: "{text}:"', "answer: generate", 'gold: "{answer}"'];
  writeFileSync(join(folder, "letters.yaml"), [...task, "max_new_tokens: 4", "read: line", ""].join("\n"));
}
