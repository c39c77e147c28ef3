// The programs that do what a row does: transformers, PEFT, llama.cpp through node-llama-cpp, mergekit.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { PROMPT, TOKENS } from "./commands.js";

const here = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

/** mergekit's methods, with the parameters of the recipes. @type {Record<string, [method: string, parameters: object, withBase: boolean]>} */
const MERGEKIT = {
  "merge soup": ["linear", {}, false],
  "merge TIES": ["ties", { density: 0.2 }, true],
  "merge SLERP": ["slerp", { t: 0.5 }, false],
  "merge DELLA": ["della", { density: 0.4 }, true],
};

/**
 * Peers of rows that a rung has, by the name of the row.
 * @param {import("./models.js").Rung} rung
 * @param {(name: string) => string} at
 * @param {{ python: string, mergekit?: string | undefined, llama?: string | undefined }} programs
 * @returns {Record<string, { command: string, args: string[], prepare?: () => void }>}
 */
export function peersOf({ base, a, b, adapter, isFile }, at, { python, mergekit, llama }) {
  const asked = JSON.stringify({
    base,
    adapter,
    prompt: PROMPT,
    tokens: TOKENS,
    quiz: at("quiz.jsonl"),
    train: at("train.jsonl"),
  });
  const ask = (/** @type {string} */ task) => ({ command: python, args: [here("peer.py"), task, asked] });
  if (isFile) {
    if (!llama) return {};
    return {
      "generate, llama.cpp": {
        command: process.execPath,
        args: [here("llama-peer.js"), llama, base, PROMPT, String(TOKENS)],
      },
    };
  }
  const merges = Object.entries(MERGEKIT).map(([row, [merge_method, parameters, withBase]]) => {
    const config = at(`${merge_method}.yml`);
    const models = (withBase ? [a, b] : [base, a]).map((model) => ({ model, parameters: { weight: 1 } }));
    const content = {
      merge_method,
      models,
      parameters,
      dtype: "bfloat16",
      ...(withBase || merge_method === "slerp" ? { base_model: base } : {}),
    };
    const prepare = () => writeFileSync(config, JSON.stringify(content));
    return [row, { command: mergekit ?? "", args: [here("../methods_peer.py"), config, at("theirs")], prepare }];
  });
  return {
    generate: ask("generate"),
    "generate adapter": ask("adapter"),
    score: ask("score"),
    eval: ask("eval"),
    "train LoRA": ask("train"),
    ...(mergekit ? Object.fromEntries(merges) : {}),
  };
}
