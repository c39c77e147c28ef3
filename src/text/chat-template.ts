// Chat templates: messages to the text that a model was trained on, as transformers renders them.
import { CheckpointError, type ErrorWhere, LayergraftError, usageError } from "../kit/index.js";
import { didYouMean, shorten } from "../kit/printing/index.js";
import { LimitError, type Program, parseTemplate, Refusal } from "./jinja/render.js";

/** One message of a conversation. The chat template defines the roles, usually system, user and assistant. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

export interface RenderOptions {
  /** Whether to end with the start of the model's next reply. Default false. */
  readonly addGenerationPrompt?: boolean;
  /** Whether to end in the last message, open for more of it. Default false. */
  readonly continueFinal?: boolean;
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
   * Why a variable would be lost, as a predicate of it; undefined if it is read.
   * @param value that is not lost if it is empty or false, unless the variable looks misspelled; default: anything
   */
  whyUnread(variable: string, value?: unknown): string | undefined;
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

/** What every rendering sets. */
const OWN_VARIABLES = ["messages", "add_generation_prompt"];

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
  let names: ReadonlySet<string> | undefined;
  return {
    source,
    whyUnread: (variable, value = true) => {
      if (OWN_VARIABLES.includes(variable)) return "is always set; leave it out";
      names ??= program.names;
      if (names.has(variable)) return undefined;
      const meant = didYouMean(shorten(variable), [...names]);
      // A template takes these as it takes a variable that is missing.
      const isNothing = !value || (Array.isArray(value) && value.length === 0);
      return isNothing && meant === "" ? undefined : `is not read by ${name}${meant || "; leave it out"}`;
    },
    render: (
      messages,
      { addGenerationPrompt = false, continueFinal = false, variables = {}, now = new Date() } = {},
    ) => {
      const last = messages.at(-1);
      if (!last) throw new TemplateError(`${name} needs at least one message`, where);
      // transformers passes None for missing tools and documents.
      const given = { tools: null, documents: null, ...constants, ...variables };
      const shown = continueFinal
        ? [...messages.slice(0, -1), { ...last, content: last.content + OPEN_END }]
        : messages;
      const scope = { ...given, messages: shown.map(nameReasoning), add_generation_prompt: addGenerationPrompt };
      try {
        const text = program.render(scope, now);
        return continueFinal ? upToOpenEnd(text, last.content) : text;
      } catch (error) {
        throw new TemplateError(`${name} ${problem(error, "failed")}`, where, error);
      }
    },
  };
}

/**
 * A template that always gets these variables.
 * @throws LayergraftError code `usage` if it does not read one, or is unknown and there are any
 */
export function withVariables<T extends ChatTemplate | undefined>(
  template: T,
  variables: Readonly<Record<string, unknown>> = {},
): T {
  for (const name of Object.keys(variables)) {
    const unknown = "is for a chat template, but none is known. Leave it out, or pass a folder with the template";
    const why = template ? template.whyUnread(name) : unknown;
    if (why !== undefined) throw usageError(`${name} ${why}`, { field: name });
  }
  if (!template) return template;
  return {
    ...template,
    render: (messages, options = {}) =>
      template.render(messages, { ...options, variables: { ...variables, ...options.variables } }),
  };
}

/** A template that always writes this time as the present one. */
export function withTime<T extends ChatTemplate | undefined>(template: T, now: Date): T {
  if (!template) return template;
  return { ...template, render: (messages, options = {}) => template.render(messages, { ...options, now }) };
}

/** Marks where a message is continued; as in transformers, its space shows whether the template trims messages. */
const OPEN_END = "CONTINUE_FINAL_MESSAGE_TAG ";

/** A text up to the mark. @throws Refusal if the template changed the message, so the mark may be elsewhere */
function upToOpenEnd(text: string, content: string): string {
  const mark = OPEN_END.trimEnd();
  const at = text.lastIndexOf(mark);
  if (at < 0 || !text.includes(content.trim()))
    throw new Refusal("the last message is not in its text, so it cannot be continued");
  return text.startsWith(OPEN_END, at) ? text.slice(0, at) : text.slice(0, at).trimEnd();
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
