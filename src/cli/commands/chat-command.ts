// A conversation in the terminal.
import { createInterface } from "node:readline/promises";
import { brokenModel, type Engine, type Finish } from "../../engine/index.js";
import { CancelledError } from "../../kit/index.js";
import { visible, write } from "../../kit/printing/index.js";
import type { ChatMessage } from "../../text/index.js";
import { CHAT_HELP, chatTakes, checkSampling, withModel } from "../../verbs/shared/index.js";
import { hubAccess } from "../shared/hub-access.js";
import { info, paletteFor, print, runWithProgress } from "../shared/output.js";
import { takingCommand } from "../shared/verb-command.js";

export const add = takingCommand(chatTakes, async ({ source, ...given }, flags) => {
  checkSampling(given);
  const { system, templateVariables: variables = {}, backend, type, providers, generationConfig, ...sampling } = given;
  const how = { backend, type, providers, generationConfig, prefer: "speed", chat: true } as const;
  const talk = async (engine: Engine, signal: AbortSignal) => {
    const palette = paletteFor(process.stdout);
    const opening: ChatMessage[] = system === undefined ? [] : [{ role: "system", content: system }];
    let messages = [...opening];
    // Fails before the first question if the template does not read a variable.
    await engine.encode([...messages, { role: "user", content: "" }], { variables });
    info(flags, CHAT_HELP);
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
  };
  const { threads } = flags;
  await runWithProgress(
    flags,
    ({ clear, signal, onProgress, onNote }) =>
      withModel(
        source,
        how,
        { threads, signal, onProgress, onNote, hub: hubAccess("files", { signal, onProgress }) },
        async (engine) => {
          clear?.();
          await talk(engine, signal as AbortSignal);
        },
      ),
    "this pass",
  );
});
