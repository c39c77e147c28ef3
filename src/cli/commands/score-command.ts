import { brokenModel, requireNumbers } from "../../engine/index.js";
import { right, terminalLines } from "../../figures/index.js";
import { usageError } from "../../kit/index.js";
import { tokenBeforeText } from "../../text/index.js";
import { SOURCE_ARGUMENT, withBackendOption, withEngine, withEngineOptions } from "../shared/model-flags.js";
import { parsePositive, print, printJson } from "../shared/output.js";
import { readTokenFile } from "../shared/prompt-files.js";
import type { Command } from "../shared/typed.js";

export function add(program: Command): void {
  const command = program
    .command("score")
    .description(
      "Print natural log-probabilities of token ids (n - 1 for n tokens, as nothing predicts the first), of continuations " +
        "of a prompt, or of the most likely next tokens.",
    )
    .argument("<source>", SOURCE_ARGUMENT)
    .optionsGroup("Text:")
    .option("--ids <file>", "file of token ids: a JSON array of arrays; - for stdin")
    .option("-p, --prompt <text>", "prompt; needs --continuation or --top")
    .option("-c, --continuation <text...>", "continuations to score")
    .option("--top <n>", "print the n most likely next tokens", parsePositive)
    .option("--no-bos", "do not add the tokenizer's BOS token")
    .option("--batch <n>", "texts per batch (default: 8)", parsePositive);
  withEngineOptions(withBackendOption(command)).action(async (source, flags) => {
    const texts = flags.ids === undefined ? undefined : await readTokenFile(flags.ids);
    if (!texts && flags.prompt === undefined)
      throw usageError("Missing a text to score. Pass --ids FILE or --prompt TEXT.");
    if (!texts && !flags.continuation && !flags.top) throw usageError("--prompt needs --continuation TEXT or --top N.");
    // Nothing is generated.
    await withEngine(source, { ...flags, generationConfig: false }, async (engine, signal) => {
      const batch = { signal, batch: flags.batch };
      if (texts) {
        const logprobs = await engine.score(texts, batch);
        for (const [i, list] of logprobs.entries()) requireNumbers(engine, list, `in text ${i + 1}`);
        if (flags.json) return printJsonLine({ logprobs });
        return print(logprobs.map((list) => list.map((logprob) => logprob.toFixed(4)).join(" ")));
      }
      const tokenizer = await engine.tokenizer();
      const encoded = await engine.encode(flags.prompt ?? "", { bos: flags.bos });
      const context = encoded.length === 0 && flags.bos ? tokenBeforeText(tokenizer) : encoded;
      const result: Record<string, unknown> = {};
      if (flags.continuation) {
        const requests = flags.continuation.map((text) => ({ context, continuation: tokenizer.encode(text) }));
        const scores = await engine.scoreContinuations(requests, batch);
        for (const [i, { tokens }] of scores.entries()) requireNumbers(engine, tokens, `in continuation ${i + 1}`);
        result.continuations = scores.map((score, i) => ({ text: flags.continuation?.[i], ...score }));
        if (!flags.json) {
          const rows = scores.map(({ logprob, tokens, greedy }, i) => [
            JSON.stringify(flags.continuation?.[i]),
            logprob.toFixed(4),
            `${tokens.length}`,
            greedy ? "yes" : "",
          ]);
          print(
            terminalLines({
              columns: ["continuation", right("log-probability"), right("tokens"), "most likely"],
              rows,
            }),
          );
        }
      }
      if (flags.top) {
        const [next = []] = await engine.topNext([context], { count: flags.top, ...batch });
        if (next.length === 0) throw brokenModel(engine, "after the prompt");
        result.next = next.map(({ id, logprob }) => ({ id, token: tokenizer.tokenOf(id), logprob }));
        if (!flags.json) {
          const rows = next.map(({ id, logprob }) => [
            JSON.stringify(tokenizer.decode([id])),
            `${id}`,
            logprob.toFixed(4),
            `${(100 * Math.exp(logprob)).toFixed(2)}%`,
          ]);
          print(terminalLines({ columns: ["next", ...["id", "log-probability", "probability"].map(right)], rows }));
        }
      }
      if (flags.json) printJson(result);
    });
  });
}

/** Prints thousands of numbers on one line, not one line each. */
function printJsonLine(value: unknown): void {
  print(JSON.stringify(value));
}
