import { z } from "zod";
import { brokenModel, type Engine, type Finish, type Generation } from "../engine/index.js";
import { usageError } from "../kit/index.js";
import { plural } from "../kit/printing/index.js";
import type { GenerateInput } from "./inputs.js";
import { modelField, type WithModel } from "./model.js";
import {
  backendFields,
  batchField,
  checkSampling,
  FASTER,
  MODEL_FLAGS,
  SOURCE,
  samplingFields,
  templateFields,
  withModel,
} from "./model-fields.js";
import { type Controls, callVerb, type Noted, type Verb, type VerbOptions, type WorkOptions } from "./verb.js";

export const generateSchema = z.strictObject({
  source: modelField(SOURCE),
  prompts: z.array(z.string()).optional().meta({ description: "prompts" }),
  ids: z
    .array(z.array(z.int()))
    .optional()
    .meta({ description: "prompts as token ids, which come before those that are texts" }),
  chat: z.boolean().optional().meta({ description: "apply the model's chat template to each prompt" }),
  system: z.string().optional().meta({ description: "system message; needs `chat`" }),
  bos: z.boolean().default(true).meta({ description: "add the tokenizer's BOS token to a text" }),
  batch: batchField("prompts"),
  ...templateFields,
  ...samplingFields(256),
  ...backendFields(FASTER),
});

/** An answer to a prompt. */
export interface GeneratedAnswer {
  /** Missing where the prompt was given as token ids. */
  readonly prompt?: string;
  /** Number of tokens of the prompt. */
  readonly promptTokens: number;
  /** The text, without a stop text; empty where the model has no tokenizer. */
  readonly text: string;
  /** Token ids, including those of a stop text. */
  readonly ids: readonly number[];
  readonly finish: Finish;
}

/** Result of `generate`. */
export interface GenerateResult extends Noted {
  /** Name of the model. */
  readonly model: string;
  /** Seconds that the answers took. */
  readonly seconds: number;
  /** In the order of the prompts, those given as token ids first. */
  readonly answers: readonly GeneratedAnswer[];
}

type Input = z.output<typeof generateSchema>;

interface Prompt {
  readonly text?: string;
  readonly tokens: readonly number[];
}

/** How prompts are answered. */
export interface GenerateControls extends Controls {
  /** Takes each answer when it is complete, and the index of its prompt. */
  readonly onAnswer?: ((answer: GeneratedAnswer, prompt: number) => void) | undefined;
}

export const generateVerb: Verb<typeof generateSchema, GenerateResult> = {
  name: "generate",
  description:
    "Generate text from prompts. A recipe needs no merge first: copied tensors are read in place, averaged ones are " +
    "computed and kept for the next run (see layergraft cache). The answer to a single prompt is streamed.",
  schema: generateSchema,
  shown: ["prompts", "chat", "system"],
  fetch: "files",
  options: { threads: "all cores" },
  streams: true,
  async run(input, controls) {
    const { source, backend, type, providers, generationConfig } = input;
    checkGenerate(input);
    const options = { backend, type, providers, generationConfig, prefer: "speed" } as const;
    return withModel(source, options, controls, (engine, notes) => answerAll(engine, notes, input, controls));
  },
  show: ({ answers }, input) => [
    {
      kind: "entries",
      entries: answers.map((answer, i) => ({ name: promptTitle(answer, i, input), lines: [answerText(answer)] })),
    },
  ],
  terminal: {
    positional: ["source"],
    groups: {
      Prompt: ["prompts", "ids", "chat", "system", "bos", "batch", "templateVariables"],
      Sampling: ["maxNewTokens", "temperature", "topK", "topP", "generationConfig", "seed", "stop"],
      Engine: ["backend", "threads", "type", "providers"],
    },
    flags: {
      ...MODEL_FLAGS,
      prompts: {
        flag: "prompt",
        short: "p",
        value: "text...",
        file: {
          flag: "prompts",
          read: "prompts",
          help: "file of prompts: .json, .jsonl or one per line; - for stdin",
        },
      },
      ids: { value: "file", read: "tokens", help: "file of token ids: a JSON array of arrays; - for stdin" },
      system: { value: "text" },
    },
    waitsFor: "this pass",
    json: ({ model, seconds, answers }) => ({ model, seconds, answers }),
    closing({ answers, seconds }) {
      const count = answers.reduce((sum, { ids }) => sum + ids.length, 0);
      return [`${plural(count, "token")} in ${seconds.toFixed(1)} s (${(count / seconds).toFixed(1)} tokens/s)`];
    },
  },
};

/** `2. What is a swap?` */
export const promptTitle = ({ prompt }: GeneratedAnswer, index: number, { ids = [] }: Pick<GenerateInput, "ids">) =>
  `${index + 1}. ${prompt ?? ids[index]?.join(" ")}`;

/** The text of an answer; its tokens where the prompt was given as tokens. */
export const answerText = ({ prompt, text, ids }: GeneratedAnswer) => (prompt === undefined ? ids.join(" ") : text);

function checkGenerate(input: Input): void {
  const { prompts = [], ids = [], chat, system, templateVariables } = input;
  if (prompts.length + ids.length === 0) throw usageError("Missing a prompt: prompts, or ids.");
  if (!chat && system !== undefined) throw usageError("system needs chat, which applies the model's chat template.");
  if (!chat && templateVariables) throw usageError("Variables of the chat template need chat, which applies it.");
  checkSampling(input);
}

async function answerAll(
  engine: Engine,
  notes: string[],
  { prompts: texts = [], ids = [], chat, system, bos, templateVariables: variables = {}, ...sampling }: Input,
  { signal, onProgress, onNote, onPart, onAnswer }: GenerateControls,
): Promise<GenerateResult> {
  if (!chat && texts.length > 0 && (await engine.chatTemplate())) {
    const note = "the model has a chat template; pass `chat` to ask it as it was trained to answer";
    onNote?.(`note: ${note}`);
    notes.push(note);
  }
  const before = system === undefined ? [] : [{ role: "system", content: system }];
  const prompts: Prompt[] = ids.map((tokens) => ({ tokens }));
  for (const text of texts) {
    const tokens = chat
      ? await engine.encode([...before, { role: "user", content: text }], { variables })
      : await engine.encode(text, { bos });
    prompts.push({ text, tokens });
  }
  const described = ({ text, ids: tokens, finish }: Generation, i: number): GeneratedAnswer => {
    const { text: prompt, tokens: asked = [] } = prompts[i] ?? {};
    const given = prompt === undefined ? {} : { prompt };
    return { ...given, promptTokens: asked.length, text, ids: tokens, finish: finish as Finish };
  };
  let done = 0;
  const update = () => {
    if (prompts.length > 1) onProgress?.({ phase: "answering", done, total: prompts.length, unit: "items" });
  };
  update();
  const start = performance.now();
  const { maxNewTokens, temperature, topK, topP, seed, stop, batch } = sampling;
  const found = await engine.generate(
    prompts.map(({ tokens }) => tokens),
    {
      maxNewTokens,
      temperature,
      topK,
      topP,
      seed,
      stop,
      batch,
      signal,
      // Texts need a tokenizer, which prompts of tokens do not.
      onText: texts.length > 0 ? onPart : undefined,
      onDone(prompt, answer) {
        onAnswer?.(described(answer, prompt), prompt);
        done++;
        update();
      },
    },
  );
  const seconds = (performance.now() - start) / 1000;
  const broken = found.findIndex(({ finish }) => finish === "invalid");
  if (broken >= 0) throw brokenModel(engine, `in answer ${broken + 1}`);
  return { model: engine.name, seconds, answers: found.map(described), notes, warnings: [] };
}

/** Options of `generate`. */
export interface AnswerOptions extends VerbOptions, Pick<WorkOptions, "threads">, Pick<Controls, "onPart"> {}

/**
 * Answers prompts with a model, and closes it. To keep it open, and for conversations, use `openModel`.
 * @throws RecipeError if the input is not valid, with every problem
 * @throws CheckpointError or FormatError or MismatchError if the model cannot be used
 * @throws LayergraftError if a prompt does not fit into the context, or with code `broken-model` if the model's scores are
 *   not numbers
 * @throws CancelledError if the signal fires
 */
export function generate(input: WithModel<GenerateInput>, options: AnswerOptions = {}): Promise<GenerateResult> {
  return callVerb(generateVerb, input, options);
}
