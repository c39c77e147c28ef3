import { resolve } from "node:path";
import { z } from "zod";
import { namedField } from "../kit/settings/index.js";
import { type PushResult as Pushed, pushFolder, pushLines, pushNotes } from "../merge/output/index.js";
import type { PushInput } from "./inputs.js";
import { callVerb, type Noted, type Verb, type VerbOptions } from "./verb.js";

export const pushSchema = z.strictObject({
  source: namedField("folder", "folder of a model or adapter"),
  name: z.string().meta({ description: "repository on the hub" }),
  private: z.boolean().optional().meta({ description: "create the repository as private" }),
  branch: z.string().optional().meta({ description: "branch to push to, created if missing", unset: "main" }),
  message: z
    .string()
    .optional()
    .meta({ description: "title of the commit", unset: "names the folder and layergraft's version" }),
  dryRun: z.boolean().optional().meta({ description: "list what would be sent, and exit" }),
});

/** What was pushed. */
export interface PushResult extends Pushed, Noted {}

export const pushVerb: Verb<typeof pushSchema, PushResult> = {
  name: "push",
  description:
    "Push a model or adapter to the Hugging Face hub, as one commit. Creates the repository if it is missing. Files that " +
    "are there already are not sent again, so repeat an interrupted push to finish it. Needs a token with write " +
    "access, except with `dryRun`: HF_TOKEN, or the one that hf auth login stores.",
  schema: pushSchema,
  shown: ["private"],
  fetch: "headers",
  options: {},
  async run({ source, ...input }, { folder, signal, onProgress }) {
    const pushed = await pushFolder(folder === undefined ? source : resolve(folder, source), {
      ...input,
      signal,
      onProgress,
    });
    const isNew = input.dryRun && pushed.created;
    const created = isNew ? [`${input.name} does not exist yet, or is private, and would be created`] : [];
    return { ...pushed, notes: [...created, ...pushNotes(pushed)], warnings: [] };
  },
  show: (result) => [{ kind: "text", lines: pushLines(result) }],
  terminal: {
    positional: ["source", "name"],
    groups: { Repository: ["private", "branch", "message", "dryRun"] },
    flags: {
      source: { value: "folder" },
      name: { value: "org/name" },
      branch: { value: "name" },
      message: { value: "text" },
    },
    json: ({ notes: _notes, warnings: _warnings, ...pushed }) => pushed,
  },
};

/**
 * Pushes a model or adapter to the Hugging Face hub, as one commit. Large files are streamed. What is there already, also
 * from an interrupted push, is not sent again. Needs a token with write access, as Python's huggingface_hub finds it:
 * `HF_TOKEN`, or the file that `hf auth login` writes. Weights, configuration, tokenizer, model card and `layergraft.json`
 * are sent, without paths of this machine.
 * @throws RecipeError if the input is not valid, with every problem
 * @throws LayergraftError with code `hub` if the hub refuses or cannot be reached
 * @throws CheckpointError or FormatError if the folder is not a complete model or adapter
 * @throws CancelledError if the signal fires
 */
export function push(input: PushInput, options: VerbOptions = {}): Promise<PushResult> {
  return callVerb(pushVerb, input, options);
}
