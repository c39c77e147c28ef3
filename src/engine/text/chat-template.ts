// Chat templates: messages to the text that a model was trained on, as transformers renders them.
// Not where they are found: load-template.ts does that.
import { CheckpointError, type ErrorWhere, GuardError, guarded, LayergraftError } from "../../core/index.js";
import type { Rendered } from "./guarded.js";

const guardedText = guarded<typeof import("./guarded.js")>("#guarded-text");

/** One message of a conversation; the chat template says which roles there are, usually system, user and assistant. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

export interface RenderOptions {
  /** Whether the text ends with what opens the model's next reply. Default false. */
  readonly addGenerationPrompt?: boolean;
  /**
   * What the template sees besides messages and special tokens, such as `tools` or `enable_thinking`; plain data.
   * Default none.
   */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** What `strftime_now` takes for now, in local time. Default the time of the call. */
  readonly now?: Date;
}

/** Writes conversations as the model was trained on them. */
export interface ChatTemplate {
  /**
   * The text of a conversation. It holds its special tokens, so encode it without adding any.
   * @throws {TemplateError} if there is no message, or the template refuses them or fails.
   */
  render(messages: readonly ChatMessage[], options?: RenderOptions): string;
}

/** A chat template that refused messages, with its own words, or that failed. */
export class TemplateError extends LayergraftError {
  constructor(message: string, where: ErrorWhere = {}, cause?: unknown) {
    super("template", message, where, cause);
  }
}

// The longest templates known, with tools and several languages, have some 20,000 characters.
const MOST_CHARACTERS = 1_000_000;

/**
 * Makes a chat template of its source.
 * @param options.variables special tokens by the names that templates know them by, such as `bos_token`; default none
 * @param options.name how messages of errors call it; default "the chat template"
 * @throws {CheckpointError} if it is not a Jinja template.
 */
export function makeChatTemplate(
  source: string,
  options: { variables?: Readonly<Record<string, unknown>>; name?: string; file?: string } = {},
): ChatTemplate {
  const { variables: constants = {}, name = "the chat template", file } = options;
  const where: ErrorWhere = file === undefined ? {} : { file };
  check(source, name, where);
  return {
    render: (messages, { addGenerationPrompt = false, variables = {}, now = new Date() } = {}) => {
      if (messages.length === 0) throw new TemplateError(`${name} needs at least one message`, where);
      // Transformers gives None for tools and documents that are not there.
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
  if (source.length > MOST_CHARACTERS) {
    throw new CheckpointError(
      `${name} has ${source.length} characters; at most ${MOST_CHARACTERS} are read. Replace it by the template of the original model`,
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
