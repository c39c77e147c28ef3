// layergraft chat: a quick talk with a model on the terminal.

import { createInterface } from "node:readline/promises";
import type { Command } from "commander";
import { CancelledError } from "../../core/index.js";
import type { ChatMessage } from "../../engine/index.js";
import {
  brokenModel,
  type EngineOptions,
  type SamplingFlags,
  SOURCE_ARGUMENT,
  samplingOf,
  withEngine,
  withEngineOptions,
  withSamplingOptions,
} from "../shared/engine-run.js";
import { paletteFor, print, say, write } from "../shared/output.js";

interface ChatFlags extends EngineOptions, SamplingFlags {
  readonly system?: string;
}

const JSON_HELP =
  "With --json each answer is one line of JSON: text, finish (stop, length, stopped by Ctrl-C, or full where the talk " +
  "no longer fits the context), promptTokens and, of a whole answer, newTokens.";
const HELP = "An empty line or Ctrl-D ends the talk, /new begins another, Ctrl-C stops an answer.";

export function addChatCommand(program: Command): void {
  const command = program
    .command("chat")
    .description(`Talks with a model through its chat template. ${HELP} ${JSON_HELP}`)
    .argument("<source>", SOURCE_ARGUMENT)
    .option("--system <text>", "system message");
  withEngineOptions(withSamplingOptions(command, 512)).action(async (source: string, flags: ChatFlags) => {
    await withEngine(source, flags, async (engine) => {
      const palette = paletteFor(process.stdout);
      const opening: ChatMessage[] = flags.system === undefined ? [] : [{ role: "system", content: flags.system }];
      let messages = [...opening];
      // Without a template there is no talk; better said before the first question.
      await engine.encode([...messages, { role: "user", content: "" }]);
      say(flags, HELP);
      const lines = createInterface({ input: process.stdin, output: process.stderr, prompt: "> " });
      let answering: AbortController | undefined;
      lines.on("SIGINT", () => (answering ? answering.abort() : lines.close()));
      lines.prompt();
      for await (const line of lines) {
        if (line.trim() === "") break;
        if (line.trim() === "/new") {
          messages = [...opening];
          lines.prompt();
          continue;
        }
        messages.push({ role: "user", content: line });
        answering = new AbortController();
        let answer = "";
        const tell = (finish: string, promptTokens: number, newTokens?: number): void => {
          if (flags.json) print(JSON.stringify({ text: answer, finish, promptTokens, newTokens }));
          else print(finish === "stopped" ? palette.dim(" [stopped]") : "");
        };
        const tokens = await engine.encode(messages);
        try {
          if (tokens.length >= engine.contextLength) {
            messages.pop();
            if (flags.json) tell("full", tokens.length, 0);
            say(
              flags,
              `This talk is full: ${engine.contextLength} tokens are the model's context. Begin another with /new.`,
            );
            lines.prompt();
            continue;
          }
          const [told] = await engine.generate([tokens], {
            ...samplingOf(flags),
            signal: answering.signal,
            onText: (_, text) => {
              answer += text;
              if (!flags.json) write(process.stdout, text);
            },
          });
          if (told?.finish === "invalid" && !flags.json) print("");
          if (told?.finish === "invalid") throw brokenModel(engine, "in its answer");
          tell(told?.finish ?? "stop", tokens.length, told?.ids.length ?? 0);
        } catch (error) {
          if (!(error instanceof CancelledError)) throw error;
          tell("stopped", tokens.length);
        }
        answering = undefined;
        messages.push({ role: "assistant", content: answer });
        lines.prompt();
      }
      lines.close();
    });
  });
}
