// A model that the engine has opened as a backend, with its own tokenizer and chat template.
import { VERSION } from "../../core/index.js";
import type { ChatTemplate, Engine } from "../../engine/index.js";
import type { Backend } from "./backend.js";
import { type EngineBackendOptions, engineBackend } from "./engine-backend.js";

/**
 * Makes a backend of an opened model. Closing it closes the model, which is also closed if this fails.
 * @param options.model what results call it; default its name
 * @param options.digest default the model's
 * @throws {CheckpointError} if it has no tokenizer that can be read
 */
export async function modelBackend(
  engine: Engine,
  options: Partial<Pick<EngineBackendOptions, "model" | "digest" | "batch">> = {},
): Promise<Backend> {
  try {
    return engineBackend({
      engine,
      tokenizer: await engine.tokenizer(),
      renderChat: rendererOf(await engine.chatTemplate()),
      model: options.model ?? engine.name,
      digest: options.digest ?? engine.digest,
      version: `layergraft ${VERSION}`,
      batch: options.batch,
    });
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/** Writes conversations by a template, open for the model's reply; undefined without one. */
export function rendererOf(template: ChatTemplate | undefined): Backend["renderChat"] {
  return template && (async (messages) => template.render(messages, { addGenerationPrompt: true }));
}
