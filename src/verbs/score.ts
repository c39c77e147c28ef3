import { z } from "zod";
import { brokenModel, type Engine, requireNumbers } from "../engine/index.js";
import { right, type Shown } from "../figures/index.js";
import { usageError } from "../kit/index.js";
import { tokenBeforeText } from "../text/index.js";
import type { ScoreInput } from "./inputs.js";
import { modelField, type WithModel } from "./model.js";
import { backendFields, batchField, MODEL_FLAGS, SOURCE, withModel } from "./model-fields.js";
import { type Controls, callVerb, type Noted, type Verb, type VerbOptions, type WorkOptions } from "./verb.js";

export const scoreSchema = z.strictObject({
  source: modelField(SOURCE),
  ids: z.array(z.array(z.int())).optional().meta({ description: "texts as token ids" }),
  prompt: z.string().optional().meta({ description: "prompt; needs `continuations` or `top`" }),
  continuations: z.array(z.string()).optional().meta({ description: "continuations to score" }),
  top: z.int().min(1).optional().meta({ description: "print the n most likely next tokens" }),
  bos: z.boolean().default(true).meta({ description: "add the tokenizer's BOS token to the prompt" }),
  batch: batchField("texts"),
  ...backendFields(),
});

/** Result of `score`: natural log-probabilities. */
export interface ScoreResult extends Noted {
  /** Of each text of `ids`: those of its tokens but the first. */
  readonly logprobs?: readonly (readonly number[])[];
  readonly continuations?: readonly ContinuationLogprob[];
  /** The most likely next tokens, the likeliest first. */
  readonly next?: readonly NextToken[];
}

/** How likely a text is after the prompt. */
export interface ContinuationLogprob {
  readonly text: string;
  /** Of the whole text. */
  readonly logprob: number;
  /** Of each of its tokens; their sum is `logprob`. */
  readonly tokens: readonly number[];
  /** Whether each of them is the most likely one. */
  readonly greedy: boolean;
}

/** A token that may follow a prompt. */
export interface NextToken {
  readonly id: number;
  /** As the vocabulary has it. */
  readonly token: string | undefined;
  /** The text that it stands for. */
  readonly text: string;
  readonly logprob: number;
}

type Input = z.output<typeof scoreSchema>;

export const scoreVerb: Verb<typeof scoreSchema, ScoreResult> = {
  name: "score",
  description:
    "Print natural log-probabilities of token ids (n - 1 for n tokens, as nothing predicts the first), of continuations " +
    "of a prompt, or of the most likely next tokens.",
  schema: scoreSchema,
  fetch: "files",
  options: { threads: "all cores" },
  async run(input, controls) {
    const { source, ids, prompt, continuations, top, backend, type, providers } = input;
    if (!ids && prompt === undefined) throw usageError("Missing a text to score: ids, or a prompt.");
    if (!ids && !continuations && top === undefined) throw usageError("prompt needs continuations or top.");
    // Nothing is generated.
    const options = { backend, type, providers, generationConfig: false };
    return withModel(source, options, controls, async (engine, notes) => ({
      ...(ids
        ? { logprobs: await scoreIds(engine, ids, input, controls) }
        : await scorePrompt(engine, input, controls)),
      notes,
      warnings: [],
    }));
  },
  show({ logprobs, continuations, next }) {
    if (logprobs) {
      const lines = logprobs.map((list) => list.map((logprob) => logprob.toFixed(4)).join(" "));
      return [{ kind: "text", lines }];
    }
    return [
      ...(continuations ? [continuationTable(continuations)] : []),
      ...(next ? [{ ...nextTable(next), isTight: true }] : []),
    ];
  },
  terminal: {
    positional: ["source"],
    groups: {
      Text: ["ids", "prompt", "continuations", "top", "bos", "batch"],
      Engine: ["backend", "threads", "type", "providers"],
    },
    flags: {
      ...MODEL_FLAGS,
      ids: { value: "file", read: "tokens", help: "file of token ids: a JSON array of arrays; - for stdin" },
      prompt: { short: "p", value: "text" },
      continuations: { flag: "continuation", short: "c", value: "text..." },
    },
    waitsFor: "this pass",
    json: ({ logprobs, continuations, next }) =>
      logprobs
        ? { logprobs }
        : {
            ...(continuations ? { continuations } : {}),
            ...(next ? { next: next.map(({ id, token, logprob }) => ({ id, token, logprob })) } : {}),
          },
  },
};

async function scoreIds(
  engine: Engine,
  ids: readonly (readonly number[])[],
  { batch }: Input,
  { signal }: Controls,
): Promise<number[][]> {
  const logprobs = await engine.score(ids, { signal, batch });
  for (const [i, list] of logprobs.entries()) requireNumbers(engine, list, `in text ${i + 1}`);
  return logprobs;
}

async function scorePrompt(
  engine: Engine,
  { prompt = "", continuations, top, bos, batch }: Input,
  { signal }: Controls,
): Promise<Pick<ScoreResult, "continuations" | "next">> {
  const tokenizer = await engine.tokenizer();
  const encoded = await engine.encode(prompt, { bos });
  const context = encoded.length === 0 && bos ? tokenBeforeText(tokenizer) : encoded;
  const found: { -readonly [Field in "continuations" | "next"]?: ScoreResult[Field] } = {};
  if (continuations) {
    const requests = continuations.map((text) => ({ context, continuation: tokenizer.encode(text) }));
    const scores = await engine.scoreContinuations(requests, { signal, batch });
    for (const [i, { tokens }] of scores.entries()) requireNumbers(engine, tokens, `in continuation ${i + 1}`);
    found.continuations = scores.map((score, i) => ({ text: continuations[i] ?? "", ...score }));
  }
  if (top !== undefined) {
    const [next = []] = await engine.topNext([context], { count: top, signal, batch });
    if (next.length === 0) throw brokenModel(engine, "after the prompt");
    const textOf = (id: number) => tokenizer.decode([id]);
    found.next = next.map(({ id, logprob }) => ({ id, token: tokenizer.tokenOf(id), text: textOf(id), logprob }));
  }
  return found;
}

const continuationTable = (scores: NonNullable<ScoreResult["continuations"]>): Shown => ({
  kind: "table",
  what: "continuation",
  columns: ["continuation", right("log-probability"), right("tokens"), "most likely"],
  rows: scores.map(({ text, logprob, tokens, greedy }) => [
    ...[JSON.stringify(text), logprob.toFixed(4), `${tokens.length}`],
    greedy ? "yes" : "",
  ]),
});

const nextTable = (next: readonly NextToken[]): Shown => ({
  kind: "table",
  what: "token",
  columns: ["next", ...["id", "log-probability", "probability"].map(right)],
  rows: next.map(({ id, text, logprob }) => [
    ...[JSON.stringify(text), `${id}`, logprob.toFixed(4)],
    `${(100 * Math.exp(logprob)).toFixed(2)}%`,
  ]),
});

/** Options of `score`. */
export interface ScoreTextsOptions extends VerbOptions, Pick<WorkOptions, "threads"> {}

/**
 * Scores texts with a model, and closes it. To keep it open, use `openModel`.
 * @throws RecipeError if the input is not valid, with every problem
 * @throws CheckpointError or FormatError or MismatchError if the model cannot be used
 * @throws LayergraftError if a text does not fit into the context, or with code `broken-model` if a score is not a number
 * @throws CancelledError if the signal fires
 */
export function score(input: WithModel<ScoreInput>, options: ScoreTextsOptions = {}): Promise<ScoreResult> {
  return callVerb(scoreVerb, input, options);
}
