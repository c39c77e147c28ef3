// The file as it came and exports of it in llama.cpp: tokens, log-probabilities, perplexity. Needs node-llama-cpp (--llama).
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { openModel } from "layergraft";
import { loadTokenizer } from "layergraft/engine";
import { openCheckpoint } from "layergraft/weights";
import { CLI, measure } from "../measure.js";
import { differing, floresLines, worstOf } from "./peers.js";

const TYPES = ["f32", "f16", "q8_0", "q4_k_m"];
const LINES = 10;

/** @param {import("./main.js").Given} given @returns {AsyncGenerator<import("./main.js").Row>} */
export async function* compareLlama(given) {
  if (given.llama === undefined) return;
  process.env.NODE_LLAMA_CPP = given.llama;
  const against = "llama.cpp";
  const lines = floresLines(given.data, 100).flat();
  yield {
    what: "tokens",
    against,
    compared: `${lines.length} lines of FLORES`,
    difference: await differingTokens(given, lines),
  };

  const texts = floresLines(given.data, LINES).slice(0, 10).flat();
  const exact = await scoresOf(given.float32, "engine", texts);
  const compared = `${exact.length} tokens of ${texts.length} texts`;
  const original = await scoresOf(given.gguf, "llama", texts);
  const apart = `${shareApart(exact, original)}; ${perplexities(exact, original)}`;
  yield { what: "log-probabilities, the file itself", against, compared, difference: apart };

  /** @type {number[] | undefined} */
  let full;
  for (const type of TYPES) {
    const file = join(given.out, `${type}.gguf`);
    await measure(process.execPath, [
      CLI,
      "export",
      given.float32,
      "--type",
      type,
      "--out",
      file,
      "--force",
      "--quiet",
    ]);
    const scores = await scoresOf(file, "llama", texts);
    full ??= scores;
    const difference =
      type === "f32" ? `at most ${worstOf(exact, scores).toExponential(1)}` : perplexities(full, scores);
    yield {
      what: `log-probabilities, our ${type} export`,
      against: type === "f32" ? against : "its f32",
      compared,
      difference,
    };
  }
}

/** @param {string} source @param {"engine" | "llama"} backend @param {string[]} texts */
async function scoresOf(source, backend, texts) {
  const model = await openModel(source, { backend });
  const scores = [];
  for (const text of texts) scores.push(...(await model.score(text)).tokenLogprobs);
  await model.close();
  return scores;
}

/** @param {number[]} a @param {number[]} b */
function shareApart(a, b) {
  const sorted = a.map((x, i) => Math.abs(x - (b[i] ?? Number.NaN))).sort((x, y) => x - y);
  return `median ${(sorted[sorted.length >> 1] ?? 0).toFixed(3)}, at most ${(sorted.at(-1) ?? 0).toFixed(2)}`;
}

/** @param {number[]} a @param {number[]} b */
function perplexities(a, b) {
  const of = (/** @type {number[]} */ logprobs) => Math.exp(-logprobs.reduce((x, y) => x + y, 0) / logprobs.length);
  return `perplexity ${of(b).toFixed(2)} against ${of(a).toFixed(2)}`;
}

/** @param {import("./main.js").Given} given @param {string[]} lines */
async function differingTokens(given, lines) {
  const { getLlama, LlamaLogLevel } = await import(pathToFileURL(given.llama ?? "").href);
  const llama = await getLlama({ gpu: false, logLevel: LlamaLogLevel.error });
  const model = await llama.loadModel({ modelPath: given.gguf, vocabOnly: true });
  const tokenizer = await loadTokenizer((await openCheckpoint(given.gguf)).texts);
  const theirs = lines.map((line) => Array.from(model.tokenize(line, false, "trimLeadingSpace")));
  await model.dispose();
  return differing(
    lines.map((line) => tokenizer.encode(line)),
    theirs,
  );
}
