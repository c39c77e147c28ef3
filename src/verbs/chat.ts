// What a conversation in a terminal takes. Programs hold one with `openModel`.
import { z } from "zod";
import { modelField } from "./model.js";
import { backendFields, FASTER, MODEL_FLAGS, SOURCE, samplingFields, templateFields } from "./model-fields.js";
import type { Takes } from "./verb.js";

/** What a person can do while it runs. */
export const CHAT_HELP = "Ctrl-C stops an answer, /new starts a new conversation, an empty line or Ctrl-D exits.";

const JSON_HELP =
  "In JSON, each answer is one line: text, finish, promptTokens, and newTokens for a complete answer. " +
  "finish is stop (the model ended it, or a stop text did), length (the limit of new tokens, or the context is full), " +
  "stopped (by Ctrl-C), or full (the conversation no longer fits the context, so there is no answer).";

const schema = z.strictObject({
  source: modelField(SOURCE),
  system: z.string().optional().meta({ description: "system message" }),
  ...templateFields,
  ...samplingFields(512),
  ...backendFields(FASTER),
});

export const chatTakes: Takes<typeof schema> = {
  name: "chat",
  description: `Chat with a model through its chat template. ${CHAT_HELP} ${JSON_HELP}`,
  schema,
  options: { threads: "all cores" },
  terminal: {
    positional: ["source"],
    groups: {
      Prompt: ["system", "templateVariables"],
      Sampling: ["maxNewTokens", "temperature", "topK", "topP", "generationConfig", "seed", "stop"],
      Engine: ["backend", "threads", "type", "providers"],
    },
    flags: { ...MODEL_FLAGS, system: { value: "text" } },
  },
};
