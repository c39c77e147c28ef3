// Chat vector: adds what one model learned, such as to chat, to another model.
import { defineMethod, lambdaField, sourceField } from "./method.js";
import { computed, isEmpty, plus, requireBase, tensorOf } from "./operand.js";
import { resolveParameter } from "./parameter.js";

export const chatVector = defineMethod({
  name: "chat_vector",
  title: "Chat vector",
  summary:
    "Adds the change of an expert from its base to another model; with vocabulary: task, also to one with more tokens.",
  formula: "theta_task + lambda (theta_expert - theta_base)",
  reference: "Huang et al., ACL 2024, arXiv 2310.04799",
  tag: "task-arithmetic",
  fields: () => ({
    task: sourceField("the model that gets the change, such as one trained further in a language"),
    expert: sourceField("the model whose change is added, such as one that learned to chat"),
    base: sourceField("model that the expert was fine-tuned from"),
    lambda: lambdaField,
  }),
  example: { method: "chat_vector", task: "swahili-expert", expert: "math-expert", base: "base", lambda: 0.7 },
  tensors: (recipe, sources, context) => {
    const [task, expert] = [sources.get("task"), sources.get("expert")];
    const base = requireBase(sources.base, "a chat vector needs");
    const lambda = resolveParameter(recipe.lambda, 1, "lambda", task);
    return computed(task, [task, expert, base], context, (name, tensor) => {
      const weight = lambda(name);
      if (isEmpty(tensor) || weight === 0) return undefined;
      return plus(tensor.value, [
        { weight, value: tensorOf(expert, name).value },
        { weight: -weight, value: tensorOf(base, name).value },
      ]);
    });
  },
});
