import { type Command, InvalidArgumentError } from "commander";
import { methodOf, type RecipeInput } from "../../merge/index.js";
import { type MergeOptions, outputFields, runMerge, withMergeOptions } from "../shared/merge-run.js";
import { addRecipeFlags, type RecipeFlags, recipeFields } from "../shared/recipe-flags.js";

type Models = readonly { readonly model: string; readonly weight?: number }[];

/** SOURCE or SOURCE=WEIGHT; a path may contain '=', so only a number after the last one is a weight. */
function parseModel(text: string, earlier: Models = []): Models {
  const equals = text.lastIndexOf("=");
  const weight = equals > 0 && equals < text.length - 1 ? Number(text.slice(equals + 1)) : Number.NaN;
  if (text === "" || text.endsWith("=")) throw new InvalidArgumentError("It must be SOURCE or SOURCE=WEIGHT.");
  return [...earlier, Number.isFinite(weight) ? { model: text.slice(0, equals), weight } : { model: text }];
}

const FLAGS: RecipeFlags = { "Models:": ["base", "weights"] };

export function add(program: Command): void {
  const command = program
    .command("soup")
    .description("Average models tensor by tensor: equally, with weights, or by the inverse magnitude of their change.")
    .optionsGroup("Models:")
    .requiredOption("--model <source[=weight]>", "model to average; repeatable", parseModel);
  addRecipeFlags(command, methodOf({ method: "soup" }).schema, FLAGS);
  withMergeOptions(command).action(({ model: models, ...options }: MergeOptions & { readonly model: Models }) =>
    runMerge(
      { method: "soup", models, ...recipeFields(FLAGS, options), ...outputFields(options) } as RecipeInput,
      options,
    ),
  );
}
