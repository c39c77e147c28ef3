// What to do about an error in flags: the library's errors name their option, and this words it.

import type { LayergraftError } from "../../kit/index.js";
import type { SayField } from "../../kit/printing/index.js";

/** By option of the library: what to pass, with VALUE for the error's. A command gets the parts whose flags it has. */
const ADVICE: Readonly<Record<string, readonly string[]>> = {
  allowCode: ["pass --allow-code to allow it"],
  allowNonFinite: ["pass --allow-nonfinite to write them"],
  allowUnrelated: ["pass --allow-unrelated to merge them anyway"],
  apiKey: ["pass --api-key-env NAME"],
  asMergekit: ["pass --as-mergekit to ignore what mergekit ignores"],
  backend: ["pass --backend engine to use it"],
  base: ["pass it with --base"],
  batch: ["pass --batch 1 --accumulation VALUE"],
  chat: ["leave out --chat"],
  data: ["pass a folder that has it with --data FOLDER"],
  dtype: ["pass --dtype bfloat16"],
  engine: ["pass --engine trl to hand it over"],
  force: ["pass --force to replace it", "choose another --out"],
  from: ["pass --from A --from B, or --from A --base C"],
  host: ["choose another --host"],
  limit: ["leave out --limit"],
  llama: ["pass --backend llama"],
  llamaType: ["pass --backend llama --type VALUE"],
  linearOnly: ["pass --linear-only to leave them so"],
  method: ["pass --method lora --batch 1"],
  model: ["choose one with --model"],
  moved: ["if it moved, pass --source ID=FOLDER"],
  out: ["choose another --out"],
  port: ["choose another --port"],
  private: ["leave out --private"],
  python: ["choose another with --python"],
  resume: ["pass --resume to continue", "pass --force to start again"],
  sequenceLength: ["pass --sequence_length VALUE"],
  tensorTypes: ["leave out --tensor-type"],
  tokenizer: ["pass its folder with --tokenizer"],
  train: ['pass --train "layers VALUE" --batch 1'],
  unsafeCode: ["pass --unsafe-code to execute them anyway"],
};

/** Advice on a field of a recipe or a run, as a flag of a command: `Pass --dtype float32`. */
export const asFlag: SayField = (field, value) => `Pass --${field} ${value}`;

/**
 * An error's message with what to do.
 * @param flags long flags of the command that failed
 */
export function withAdvice({ message, where }: LayergraftError, flags: ReadonlySet<string>): string {
  const parts = (ADVICE[where.option ?? ""] ?? [])
    .filter((part) => flags.has(/--[\w-]+/.exec(part)?.[0] ?? ""))
    .map((part) => part.replace("VALUE", where.value ?? ""));
  const advice = parts.join(", or ");
  if (advice === "") return message;
  const sentence = `${advice.charAt(0).toUpperCase()}${advice.slice(1)}.`;
  return message.includes("\n") ? `${message}\n${sentence}` : `${message.replace(/\.$/, "")}. ${sentence}`;
}
