import { brokenModel, type Engine, type Generation } from "../../engine/index.js";
import { SILENT, showProgress } from "../../figures/index.js";
import { usageError } from "../../kit/index.js";
import { plural, visible, write } from "../../kit/printing/index.js";
import {
  SOURCE_ARGUMENT,
  samplingOf,
  type TemplateFlags,
  withEngine,
  withEngineOptions,
  withFastBackendOption,
  withSamplingOptions,
  withTemplateOption,
} from "../shared/model-flags.js";
import { info, inOrder, paletteFor, parsePositive, print, printJson } from "../shared/output.js";
import { readPrompts, readTokenFile } from "../shared/prompt-files.js";
import type { Command } from "../shared/typed.js";

interface Prompt {
  readonly text?: string;
  readonly tokens: readonly number[];
}

export function add(program: Command): void {
  const command = withTemplateOption(
    program
      .command("generate")
      .description(
        "Generate text from prompts. A recipe needs no merge first: copied tensors are read in place, averaged ones are " +
          "computed and kept for the next run (see layergraft cache). The answer to a single prompt is streamed.",
      )
      .argument("<source>", SOURCE_ARGUMENT)
      .optionsGroup("Prompt:")
      .option("-p, --prompt <text...>", "prompts")
      .option("--prompts <file>", "file of prompts: .json, .jsonl or one per line; - for stdin")
      .option("--ids <file>", "file of token ids: a JSON array of arrays; - for stdin")
      .option("--chat", "apply the model's chat template to each prompt")
      .option("--system <text>", "system message; needs --chat")
      .option("--no-bos", "do not add the tokenizer's BOS token")
      .option("--batch <n>", "prompts per batch (default: 8)", parsePositive),
  );
  withEngineOptions(withFastBackendOption(withSamplingOptions(256)(command))).action(async (source, flags) => {
    if (flags.system !== undefined && !flags.chat) throw usageError("--system needs --chat");
    if (flags.chatTemplateKwargs && !flags.chat) throw usageError("--chat-template-kwargs needs --chat");
    const texts = [...(flags.prompt ?? []), ...(flags.prompts ? await readPrompts(flags.prompts) : [])];
    const tokens = flags.ids ? await readTokenFile(flags.ids) : [];
    const file = flags.prompts ?? flags.ids;
    if (texts.length + tokens.length === 0 && file !== undefined)
      throw usageError(`${file === "-" ? "stdin" : file} has no prompts.`);
    if (texts.length + tokens.length === 0)
      throw usageError("Missing a prompt. Pass --prompt TEXT, --prompts FILE or --ids FILE.");
    await withEngine(source, { ...flags, prefer: "speed" }, async (engine, signal) => {
      if (!flags.chat && texts.length > 0 && (await engine.chatTemplate()))
        info(flags, "note: the model has a chat template; pass --chat to ask it as it was trained to answer");
      const prompts: Prompt[] = tokens.map((list) => ({ tokens: list }));
      for (const text of texts) prompts.push({ text, tokens: await encode(engine, text, flags) });
      const start = performance.now();
      const streams = prompts.length === 1 && !flags.json && texts.length === 1;
      // Answers printed one by one on a terminal already show progress.
      const isSeen = streams || (!flags.json && process.stdout.isTTY);
      const progress = flags.quiet || isSeen || prompts.length === 1 ? SILENT : showProgress();
      const printNext = inOrder((answer: Generation, i) => printAnswer(prompts[i] as Prompt, answer, i));
      let done = 0;
      const update = () => progress.update({ phase: "answering", done, total: prompts.length });
      update();
      const show = (i: number, answer: Generation): void => {
        if (!flags.json && !streams) printNext(answer, i);
        done++;
        update();
      };
      const answers = await engine
        .generate(
          prompts.map((prompt) => prompt.tokens),
          {
            ...samplingOf(flags),
            signal,
            onText: streams ? (_, text) => write(process.stdout, visible(text)) : undefined,
            onDone: (i, answer) => show(i, answer),
          },
        )
        .finally(() => progress.stop());
      const seconds = (performance.now() - start) / 1000;
      const count = answers.reduce((sum, { ids }) => sum + ids.length, 0);
      const broken = answers.findIndex(({ finish }) => finish === "invalid");
      // After an error, --json prints the error alone.
      if (flags.json && broken < 0) printJson(report(engine, prompts, answers, seconds));
      else if (streams) print("");
      info(flags, `${plural(count, "token")} in ${seconds.toFixed(1)} s (${(count / seconds).toFixed(1)} tokens/s)`);
      if (broken >= 0) throw brokenModel(engine, `in answer ${broken + 1}`);
    });
  });
}

async function encode(
  engine: Engine,
  text: string,
  {
    chat,
    system,
    bos,
    chatTemplateKwargs: variables = {},
  }: TemplateFlags & { readonly chat?: boolean; readonly system?: string; readonly bos: boolean },
): Promise<number[]> {
  if (!chat) return engine.encode(text, { bos });
  const before = system === undefined ? [] : [{ role: "system", content: system }];
  return engine.encode([...before, { role: "user", content: text }], { variables });
}

function report(engine: Engine, prompts: readonly Prompt[], answers: readonly Generation[], seconds: number): unknown {
  return {
    model: engine.name,
    seconds,
    answers: answers.map(({ text, ids, finish }, i) => ({
      ...(prompts[i]?.text === undefined ? {} : { prompt: prompts[i]?.text }),
      promptTokens: prompts[i]?.tokens.length,
      text,
      ids,
      finish,
    })),
  };
}

function printAnswer({ text, tokens }: Prompt, answer: Generation, index: number): void {
  print(paletteFor(process.stdout).bold(`${index + 1}. ${text ?? tokens.join(" ")}`));
  print(`${text === undefined ? answer.ids.join(" ") : answer.text}\n`);
}
