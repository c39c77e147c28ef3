// Tokens, chat template, log-probabilities and greedy answers, against transformers.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openModel } from "layergraft";
import { loadChatTemplate, loadTokenizer } from "layergraft/engine";
import { openCheckpoint } from "layergraft/weights";
import { askPeer, differing, floresLines, worstOf } from "./peers.js";

const PROMPTS = 50;
const NEW_TOKENS = 24;

/** @param {import("./main.js").Given} given @returns {AsyncGenerator<import("./main.js").Row>} */
export async function* compareTransformers(given) {
  const lines = floresLines(given.data, Number.POSITIVE_INFINITY).flat();
  const texts = floresLines(given.data, 20).slice(0, 10).flat();
  const questions = readFileSync(join(given.data, "gsm8k/test.jsonl"), "utf8").split("\n").slice(0, PROMPTS);
  const chats = questions.map((line) => [{ role: "user", content: JSON.parse(line).question }]);

  const checkpoint = await openCheckpoint(given.gguf);
  const tokenizer = await loadTokenizer(checkpoint.texts);
  const template = await loadChatTemplate(checkpoint.texts);
  const ask = (/** @type {object} */ question) => askPeer(given.python, "transformers_peer.py", question);

  for (const type of /** @type {const} */ (["float32", "bfloat16"])) {
    const folder = given[type];
    const first = type === "float32";
    const theirs = ask({ folder, lines: first ? lines : [], texts, chats, newTokens: first ? NEW_TOKENS : 0 });
    const against = `transformers ${theirs.version}`;
    if (first) {
      const tokens = lines.map((line) => tokenizer.encode(line));
      yield {
        what: "tokens",
        against,
        compared: `${lines.length} lines of FLORES`,
        difference: differing(tokens, theirs.tokens),
      };
      const rendered = chats.map((chat) => template?.render(chat, { addGenerationPrompt: true }));
      yield {
        what: "chat template",
        against,
        compared: `${PROMPTS} chats`,
        difference: differing(rendered, theirs.rendered),
      };
    }
    const model = await openModel(folder, { backend: "engine" });
    const scores = [];
    for (const text of texts) scores.push(...(await model.score(text)).tokenLogprobs);
    const difference = `at most ${worstOf(scores, theirs.logprobs.flat()).toExponential(1)}`;
    yield {
      what: `log-probabilities, ${type} weights`,
      against,
      compared: `${scores.length} tokens of ${texts.length} texts`,
      difference,
    };
    if (first) {
      const answers = await model.generateAll(chats, { maxNewTokens: NEW_TOKENS });
      const difference = differing(
        answers.map(({ tokens }) => tokens),
        theirs.answers,
      );
      yield { what: "greedy answers", against, compared: `${PROMPTS} chats, ${NEW_TOKENS} tokens`, difference };
    }
    await model.close();
  }
}
