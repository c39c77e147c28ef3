import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import { z } from "zod";
import { brokenModel, type Finish } from "../../engine/index.js";
import { CancelledError } from "../../kit/index.js";
import { visible, write } from "../../kit/printing/index.js";
import type { ChatMessage } from "../../text/index.js";
import {
  backendFields,
  checkSampling,
  FASTER,
  MODEL_FLAGS,
  SOURCE,
  samplingFields,
  templateFields,
} from "../../verbs/shared/index.js";
import { withEngine } from "../shared/model-flags.js";
import { type CommonOptions, info, paletteFor, print } from "../shared/output.js";
import { withFields } from "../shared/verb-flags.js";
import { fieldsIn } from "../shared/verb-input.js";

const FIELDS = {
  name: "chat",
  schema: z.strictObject({
    system: z.string().optional().meta({ description: "system message" }),
    ...templateFields,
    ...samplingFields(512),
    ...backendFields(FASTER),
  }),
  options: { threads: "all cores" },
  terminal: {
    groups: {
      "Prompt:": ["system", "templateVariables"],
      "Sampling:": ["maxNewTokens", "temperature", "topK", "topP", "generationConfig", "seed", "stop"],
      "Engine:": ["backend", "threads", "type", "providers"],
    },
    flags: { ...MODEL_FLAGS, system: { value: "text" } },
  },
};

const JSON_HELP =
  "With --json, each answer is one line of JSON: text, finish, promptTokens, and newTokens for a complete answer. " +
  "finish is stop (the model ended it, or a stop text did), length (the limit of new tokens, or the context is full), " +
  "stopped (by Ctrl-C), or full (the conversation no longer fits the context, so there is no answer).";
const HELP = "Ctrl-C stops an answer, /new starts a new conversation, an empty line or Ctrl-D exits.";

type Flags = CommonOptions & { readonly threads?: number };

export function add(program: Command): void {
  const command = program
    .command("chat")
    .description(`Chat with a model through its chat template. ${HELP} ${JSON_HELP}`)
    .argument("<source>", SOURCE);
  withFields(command, FIELDS).action(async (source: string, flags: Flags) => {
    const { system, templateVariables: variables = {}, ...given } = await fieldsIn(FIELDS, flags);
    checkSampling(given);
    const { backend, type, providers, generationConfig, ...sampling } = given;
    const how = { backend, type, providers, generationConfig, threads: flags.threads };
    await withEngine(source, flags, { ...how, prefer: "speed", chat: true }, async (engine, signal) => {
      const palette = paletteFor(process.stdout);
      const opening: ChatMessage[] = system === undefined ? [] : [{ role: "system", content: system }];
      let messages = [...opening];
      // Fails before the first question if the template does not read a variable.
      await engine.encode([...messages, { role: "user", content: "" }], { variables });
      info(flags, HELP);
      const lines = createInterface({ input: process.stdin, output: process.stderr, prompt: "> " });
      let answering: AbortController | undefined;
      // What is piped ends before its last line is answered; newer versions of Node.js refuse to prompt after that.
      let isOpen = true;
      lines.once("close", () => {
        isOpen = false;
      });
      const ask = () => {
        if (isOpen && !signal.aborted) lines.prompt();
      };
      lines.on("SIGINT", () => (answering ? answering.abort() : lines.close()));
      // SIGTERM, and Ctrl-C where the terminal is not this process's own.
      const stop = () => {
        answering?.abort();
        lines.close();
      };
      if (signal.aborted) stop();
      else signal.addEventListener("abort", stop, { once: true });
      ask();
      for await (const line of lines) {
        if (line.trim() === "") break;
        if (line.trim() === "/new") {
          messages = [...opening];
          ask();
          continue;
        }
        messages.push({ role: "user", content: line });
        answering = new AbortController();
        let answer = "";
        const finishAnswer = (finish: Finish | "stopped" | "full", promptTokens: number, newTokens?: number): void => {
          if (flags.json) print(JSON.stringify({ text: answer, finish, promptTokens, newTokens }));
          else print(finish === "stopped" ? palette.dim(" [stopped]") : "");
        };
        const tokens = await engine.encode(messages, { variables });
        try {
          if (tokens.length >= engine.contextLength) {
            messages.pop();
            if (flags.json) finishAnswer("full", tokens.length, 0);
            info(
              flags,
              `The conversation fills the context of ${engine.contextLength} tokens. Start a new one with /new.`,
            );
            ask();
            continue;
          }
          const [reply] = await engine.generate([tokens], {
            ...sampling,
            signal: answering.signal,
            onText: (text) => {
              answer += text;
              if (!flags.json) write(process.stdout, visible(text));
            },
          });
          if (reply?.finish === "invalid") throw brokenModel(engine, "in its answer");
          finishAnswer(reply?.finish ?? "stop", tokens.length, reply?.ids.length ?? 0);
        } catch (error) {
          if (!(error instanceof CancelledError)) throw error;
          finishAnswer("stopped", tokens.length);
        }
        answering = undefined;
        messages.push({ role: "assistant", content: answer });
        ask();
      }
      lines.close();
      if (signal.aborted) throw new CancelledError("stopped before the end");
    });
  });
}
