import { closest } from "../core/index.js";

/** Other tools' words for fields. */
const SYNONYMS: ReadonlyMap<string, string> = new Map([
  ["r", "rank"],
  ["lora_alpha", "alpha"],
  ["learning_rate", "lr"],
  ["weight_decay", "decay"],
  ["max_grad_norm", "clip"],
  ["max_steps", "steps"],
  ["num_train_epochs", "epochs"],
  ["output_dir", "out"],
]);

/** The field that an unknown one meant: another tool's word for it, or a misspelled one. */
export function closestField(word: string, fields: readonly string[]): string | undefined {
  const synonym = SYNONYMS.get(word);
  return synonym !== undefined && fields.includes(synonym) ? synonym : closest(word, fields);
}
