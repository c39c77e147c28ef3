// Chat templates: messages to the text that a model was trained on, as transformers renders them.
import { CheckpointError, type ErrorWhere, GuardError, guarded, LayergraftError } from "../../core/index.js";
import type { Rendered } from "./guarded-functions.js";

const guardedText = guarded<typeof import("./guarded-functions.js")>("#guarded-text");

/** One message of a conversation. The chat template defines the roles, usually system, user and assistant. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

export interface RenderOptions {
  /** Whether to end with the start of the model's next reply. Default false. */
  readonly addGenerationPrompt?: boolean;
  /**
   * Further variables for the template, such as `tools` or `enable_thinking`; plain data. Default none.
   */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** Time for `strftime_now`, in local time. Default the time of the call. */
  readonly now?: Date;
}

/** Renders conversations as the model was trained on them. */
export interface ChatTemplate {
  readonly source: string;
  /**
   * The text of a conversation. It has its special tokens, so encode it without adding any.
   * @throws TemplateError if there is no message, or the template refuses them or fails
   */
  render(messages: readonly ChatMessage[], options?: RenderOptions): string;
}

/** A chat template that refused messages, with its reason, or that failed. */
export class TemplateError extends LayergraftError {
  constructor(message: string, where: ErrorWhere = {}, cause?: unknown) {
    super("template", message, where, cause);
  }
}

// The longest templates known, with tools and several languages, have some 20,000 characters.
const MAX_CHARACTERS = 1_000_000;

/**
 * Makes a chat template from its source.
 * @param options.variables special tokens by their template names, such as `bos_token`; default none
 * @param options.name its name in errors; default "the chat template"
 * @throws CheckpointError if it is not a Jinja template
 */
export function makeChatTemplate(
  source: string,
  options: { variables?: Readonly<Record<string, unknown>>; name?: string; file?: string } = {},
): ChatTemplate {
  const { variables: constants = {}, name = "the chat template", file } = options;
  const where: ErrorWhere = file === undefined ? {} : { file };
  check(source, name, where);
  return {
    source,
    render: (messages, { addGenerationPrompt = false, variables = {}, now = new Date() } = {}) => {
      if (messages.length === 0) throw new TemplateError(`${name} needs at least one message`, where);
      // transformers passes None for missing tools and documents.
      const given = { tools: null, documents: null, ...constants, ...variables };
      const scope = { ...given, messages, add_generation_prompt: addGenerationPrompt };
      let rendered: Rendered;
      try {
        rendered = guardedText("renderTemplate", [source, scope, now]);
      } catch (error) {
        const problem = error instanceof GuardError ? broken(error) : `failed: ${(error as Error).message}`;
        throw new TemplateError(`${name} ${problem}`, where, error);
      }
      if ("text" in rendered) return rendered.text;
      throw new TemplateError(`${name} refuses these messages: ${rendered.refusal}`, where);
    },
  };
}

function check(source: string, name: string, where: ErrorWhere): void {
  if (source.length > MAX_CHARACTERS) {
    throw new CheckpointError(
      `${name} has ${source.length} characters; at most ${MAX_CHARACTERS} are supported. Replace it with the template of the original model`,
      where,
    );
  }
  try {
    guardedText("checkTemplate", [source]);
  } catch (error) {
    const problem = error instanceof GuardError ? broken(error) : `is not valid: ${(error as Error).message}`;
    throw new CheckpointError(`${name} ${problem}`, where, error);
  }
}

function broken({ message }: GuardError): string {
  return `${message}; it is broken or was made to hang`;
}
