// The ONNX export in transformers.js: the same greedy tokens. Needs @huggingface/transformers in a folder (--js).
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { openModel } from "layergraft";
import { loadTokenizer } from "layergraft/engine";
import { openCheckpoint } from "layergraft/weights";
import { CLI, measure } from "../measure.js";
import { floresLines } from "./peers.js";

const NEW_TOKENS = 24;

/** @param {import("./main.js").Given} given @returns {AsyncGenerator<import("./main.js").Row>} */
export async function* compareOnnx(given) {
  if (given.js === undefined) return;
  const require = createRequire(join(resolve(given.js), "package.json"));
  const entry = require.resolve("@huggingface/transformers").replace(/\.cjs$/, ".mjs");
  const { AutoModelForCausalLM, env, Tensor } = await import(pathToFileURL(entry).href);
  env.allowRemoteModels = false;
  env.localModelPath = "/";
  const prompts = floresLines(given.data, 1).flat();
  const model = await openModel(given.float32, { backend: "engine" });
  const answers = await model.generateAll(prompts, { maxNewTokens: NEW_TOKENS });
  await model.close();
  const tokenizer = await loadTokenizer((await openCheckpoint(given.float32)).texts);
  for (const type of ["fp32", "q8", "q4"]) {
    const out = join(given.out, `onnx-${type}`);
    await measure(process.execPath, [
      CLI,
      "export",
      given.float32,
      "--format",
      "onnx",
      "--type",
      type,
      "--out",
      out,
      "--force",
      "--quiet",
    ]);
    const theirs = await AutoModelForCausalLM.from_pretrained(out);
    let [equal, total] = [0, 0];
    for (const [i, prompt] of prompts.entries()) {
      const ids = tokenizer.encode(prompt);
      const integers = (/** @type {number[]} */ values) =>
        new Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
      const inputs = { input_ids: integers(ids), attention_mask: integers(ids.map(() => 1)) };
      const found = await theirs.generate({ ...inputs, max_new_tokens: NEW_TOKENS, do_sample: false });
      const tokens = Array.from(found.data, Number).slice(ids.length);
      const expected = answers[i]?.tokens ?? [];
      equal += expected.filter((id, at) => tokens[at] === id).length;
      total += expected.length;
    }
    await theirs.dispose();
    const compared = `${total} greedy tokens of ${prompts.length} prompts`;
    yield {
      what: `ONNX export, ${type}`,
      against: "transformers.js",
      compared,
      difference: equal === total ? "none" : `${total - equal} differ`,
    };
  }
}
