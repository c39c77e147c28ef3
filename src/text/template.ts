// Chat templates: messages to the text that a model was trained on, as transformers renders them.
// Not where they are found: load-template.ts does that.
import { CheckpointError, type ErrorWhere, LayergraftError } from "../core/errors.js";
import { PATIENCE_SECONDS, TimeLimitError, withinSeconds } from "../core/time-limit.js";
import { type Program, parseTemplate } from "./jinja.js";
import { formatTime } from "./strftime.js";

export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

export interface RenderOptions {
  /** Whether the text ends with what opens the model's next reply. Default false. */
  readonly addGenerationPrompt?: boolean;
  /** What the template sees besides messages and special tokens, such as `tools` or `enable_thinking`. Default none. */
  readonly variables?: Readonly<Record<string, unknown>>;
  /** What `strftime_now` takes for now, in local time. Default the time of the call. */
  readonly now?: Date;
}

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

/** What the template itself raised. */
class Refusal extends Error {}

// The bound of Jinja's sandbox (sandbox.py, MAX_RANGE), which transformers renders in.
const MOST_RANGE = 100_000;

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
  const program = compile(source, name, where);
  return {
    render: (messages, { addGenerationPrompt = false, variables = {}, now = new Date() } = {}) => {
      if (messages.length === 0) throw new TemplateError(`${name} needs at least one message`, where);
      const scope: Record<string, unknown> = {
        ...builtIns(now),
        // Transformers gives None for tools and documents that are not there.
        tools: null,
        documents: null,
        ...constants,
        ...variables,
        messages,
        add_generation_prompt: addGenerationPrompt,
      };
      try {
        return withinSeconds(PATIENCE_SECONDS, () => program.render(scope));
      } catch (error) {
        if (error instanceof TimeLimitError) {
          throw new TemplateError(`${name} ${error.message}; it is broken or was made to hang`, where, error);
        }
        const said = (error as Error).message;
        const verb = error instanceof Refusal ? "refuses these messages" : "failed";
        throw new TemplateError(`${name} ${verb}: ${said}`, where, error);
      }
    },
  };
}

function compile(source: string, name: string, where: ErrorWhere): Program {
  try {
    return withinSeconds(PATIENCE_SECONDS, () => parseTemplate(source));
  } catch (error) {
    throw new CheckpointError(`${name} is not valid: ${(error as Error).message}`, where, error);
  }
}

/** What templates may call. The package's own set would bind strftime_now to the clock. */
function builtIns(now: Date): Record<string, unknown> {
  const constants = { true: true, false: false, none: null, True: true, False: false, None: null };
  return {
    ...constants,
    range,
    strftime_now: (format: unknown) => formatTime(now, String(format)),
    raise_exception: (message: unknown) => {
      throw new Refusal(String(message));
    },
  };
}

/** Python's range. */
function range(first: unknown, second?: unknown, step: unknown = 1): number[] {
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  if (![start, stop, step].every(Number.isSafeInteger) || step === 0) throw new Error("range takes whole numbers");
  const [from, to, by] = [start as number, stop as number, step as number];
  const length = Math.max(0, Math.ceil((to - from) / by));
  if (length > MOST_RANGE) throw new Error(`a range of ${length} numbers is longer than ${MOST_RANGE}`);
  return Array.from({ length }, (_, i) => from + i * by);
}
