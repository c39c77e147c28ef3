// Chat templates: messages to the text that a model was trained on, as transformers renders them.
import { CheckpointError, type ErrorWhere, LayergraftError } from "../../core/index.js";
import { LimitError, type Program, parseTemplate, Refusal } from "./jinja/render.js";

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
  const program = parsed(source, name, where);
  return {
    source,
    render: (messages, { addGenerationPrompt = false, variables = {}, now = new Date() } = {}) => {
      if (messages.length === 0) throw new TemplateError(`${name} needs at least one message`, where);
      // transformers passes None for missing tools and documents.
      const given = { tools: null, documents: null, ...constants, ...variables };
      const scope = { ...given, messages: messages.map(nameReasoning), add_generation_prompt: addGenerationPrompt };
      try {
        return program.render(scope, now);
      } catch (error) {
        throw new TemplateError(`${name} ${problem(error, "failed")}`, where, error);
      }
    },
  };
}

/** The names that a message's reasoning has; as in transformers, templates that read the first two find it. */
const REASONING = ["reasoning_content", "thinking", "reasoning"] as const;

function nameReasoning(message: ChatMessage): ChatMessage {
  const fields = message as { readonly [name in (typeof REASONING)[number]]?: unknown } & ChatMessage;
  const reasoning = REASONING.map((name) => fields[name]).find((text) => text !== undefined && text !== null);
  if (reasoning === undefined) return message;
  return { ...{ thinking: reasoning }, ...message, ...{ reasoning_content: reasoning } };
}

function parsed(source: string, name: string, where: ErrorWhere): Program {
  if (source.length > MAX_CHARACTERS) {
    throw new CheckpointError(
      `${name} has ${source.length} characters; at most ${MAX_CHARACTERS} are supported. Replace it with the template of the original model`,
      where,
    );
  }
  try {
    return parseTemplate(source);
  } catch (error) {
    throw new CheckpointError(`${name} ${problem(error, "is not valid")}`, where, error);
  }
}

/** Most characters of a reason; published templates have a sentence. */
const MAX_REASON = 1000;

/** What is wrong, as a predicate. */
function problem(error: unknown, verb: string): string {
  const reason = (error as Error).message.slice(0, MAX_REASON);
  if (error instanceof LimitError) return `${reason}; it is broken or was made to hang`;
  return error instanceof Refusal ? `refuses these messages: ${reason}` : `${verb}: ${reason}`;
}
