// Functions of the guarded process that run templates and regular expressions of models.

import { makeParts } from "./hf-tokenizers.js";
import { type Program, parseTemplate } from "./jinja.js";
import { formatTime } from "./strftime.js";

/** The text, or the reason why the template refuses the messages. */
export type Rendered = { readonly text: string } | { readonly refusal: string };

/** Most characters of a reason; published templates have a sentence. */
const MAX_REFUSAL = 1000;

/** Raised by the template. */
class Refusal extends Error {}

/** Caches a few results; a run uses one or two. */
function memoize<T>(make: (key: string) => T): (key: string) => T {
  const kept = new Map<string, T>();
  return (key) => {
    const value = kept.get(key) ?? make(key);
    if (!kept.has(key) && kept.size >= 8) kept.clear();
    kept.set(key, value);
    return value;
  };
}

const programOf = memoize<Program>(parseTemplate);

/** @throws Error if the template is not valid */
export function checkTemplate(source: string): void {
  programOf(source);
}

export function renderTemplate(source: string, scope: Readonly<Record<string, unknown>>, now: Date): Rendered {
  try {
    return { text: programOf(source).render({ ...builtIns(now), ...scope }) };
  } catch (error) {
    if (error instanceof Refusal) return { refusal: error.message.slice(0, MAX_REFUSAL) };
    throw error;
  }
}

const partsOf = memoize((json) => makeParts(JSON.parse(json) as Parameters<typeof makeParts>[0]));

/** @param normalizer JSON of the part */
export function normalize(normalizer: string, texts: readonly string[]): string[] {
  const made = partsOf(`{"normalizer":${normalizer}}`).normalizer;
  return texts.map((text) => made?.normalize(text) ?? text);
}

/** @param preTokenizer JSON of the part */
export function split(preTokenizer: string, text: string, isFirst: boolean): string[] {
  const options = { section_index: isFirst ? 0 : 1 };
  return partsOf(`{"preTokenizer":${preTokenizer}}`).preTokenizer?.pre_tokenize_text(text, options) ?? [text];
}

// The bound of Jinja's sandbox (sandbox.py, MAX_RANGE), which transformers renders in.
const MAX_RANGE = 100_000;

/** Globals of templates. The package's own would bind strftime_now to the clock. */
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
  if (length > MAX_RANGE) throw new Error(`a range of ${length} numbers is longer than ${MAX_RANGE}`);
  return Array.from({ length }, (_, i) => from + i * by);
}
