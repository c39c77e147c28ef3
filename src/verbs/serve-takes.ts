// What a server of models takes on the command line. It runs until it is stopped; programs call `serve`.
import { z } from "zod";
import { backendFields, MODEL_FLAGS, SOURCE, samplingFields } from "./model-fields.js";
import type { Takes } from "./verb.js";

const LEAST = "must be at least 1";
const { generationConfig } = samplingFields(0);

const schema = z.strictObject({
  source: z
    .string()
    .optional()
    .meta({ description: `${SOURCE}; its name is that of the folder or file` }),
  models: z.record(z.string(), z.string()).optional().meta({ description: "further models by name" }),
  host: z.string().default("127.0.0.1").meta({ description: "address to listen on" }),
  port: z
    .int()
    .min(0)
    .max(65_535, "must be at most 65535")
    .default(8000)
    .meta({ description: "port to listen on; 0 takes a free one" }),
  apiKeyEnv: z.string().optional().meta({ description: "environment variable with the key that clients must send" }),
  cors: z.array(z.string()).optional().meta({ description: "origins of web pages that may use the server; * for all" }),
  parallel: z.int().min(1, LEAST).optional().meta({ description: "answers of a model computed at once", unset: "8" }),
  queue: z.int().min(0).default(256).meta({ description: "answers that may wait" }),
  context: z
    .int()
    .min(1, LEAST)
    .optional()
    .meta({ description: "maximum tokens of prompt and answer", unset: "the model's, at most 8192" }),
  generationConfig,
  ...backendFields(),
});

export const serveTakes: Takes<typeof schema> = {
  name: "serve",
  description:
    "Serve models over the OpenAI API: chat completions, completions and models. Recipes need no merge first. " +
    "Requests choose a model by its name; models of one server share the weights that they have in common. " +
    "Ctrl-C finishes the answers under way and exits.",
  schema,
  options: { threads: "all cores" },
  terminal: {
    positional: ["source"],
    groups: {
      Models: ["models"],
      Server: ["host", "port", "apiKeyEnv", "cors", "parallel", "queue", "context", "generationConfig"],
      Engine: ["backend", "threads", "type", "providers"],
    },
    flags: {
      ...MODEL_FLAGS,
      models: { flag: "model", short: "m", value: "name=source...", read: "places" },
      host: { value: "address" },
      port: { short: "p" },
      apiKeyEnv: { value: "name" },
      cors: { value: "origin..." },
    },
  },
};
