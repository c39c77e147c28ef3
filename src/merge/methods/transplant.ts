// Transplant: gives a model the tokenizer of another. The planner describes its rows; see merge/plan/transplant.ts.
import { z } from "zod";
import { MODEL_ONLY, sourceField } from "./fields.js";
import { defineMethod } from "./method.js";
import { copyTensor } from "./operand.js";

export const transplant = defineMethod({
  name: "transplant",
  title: "Tokenizer transplant",
  summary: "Gives a model the tokenizer of another; rows of new tokens are sums of rows of tokens that both have.",
  formula:
    "row of a new token = sum_j c_j E[t_j], for the tokens t_j and coefficients c_j by which orthogonal matching pursuit " +
    "approximates the token's row in the other model",
  reference: "Goddard and Fernandes Neto, 2025, arXiv 2506.06607; mergekit, mergekit-tokensurgeon",
  tag: "tokenizer-transplant",
  fields: () => ({
    task: sourceField("model that gets the tokenizer").refine(...MODEL_ONLY),
    tokenizer: sourceField("model whose tokenizer it gets, with weights").refine(...MODEL_ONLY),
    k: z.int().min(1).max(1024).default(64).describe("most shared tokens that a new token is made of"),
  }),
  layersOnly: true,
  example: { method: "transplant", task: "math-expert", tokenizer: "base", k: 32 },
  describe: (_, name, layers) => {
    return `${name("task")}, of ${layers} layers, with the tokenizer of ${name("tokenizer")}.`;
  },
  tensors: (_, sources) => {
    const task = sources.get("task");
    return new Map([...task.tensors.keys()].map((name) => [name, copyTensor(name, task)]));
  },
});
