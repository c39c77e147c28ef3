import { terminalLines } from "../../figures/index.js";
import { type LayergraftError, usageError } from "../../kit/index.js";
import { commandLine, didYouMean, removedAdvice, wrapped } from "../../kit/printing/index.js";
import { loadYaml, type SchemaField } from "../../kit/settings/index.js";
import { type MethodReference, methodReferences, outputReferences, recipeJsonSchema } from "../../merge/index.js";
import { asTyped } from "../shared/command-name.js";
import { paletteFor, print, printJson } from "../shared/output.js";
import { type Command, Option } from "../shared/typed.js";

export const isMethod = (name: string): boolean => methodReferences().some((method) => method.name === name);

export function add(program: Command): void {
  program
    .command("methods")
    .description("List the merge methods. With a name, print its formula, reference, fields and an example.")
    .argument("[method]", "method to explain")
    .optionsGroup("Output:")
    .option("--json", "print the result as JSON")
    .addOption(new Option("--schema", "print the JSON Schema of recipes").conflicts("json"))
    .action(async (name, options) => {
      if (options.schema) return printJson(recipeJsonSchema());
      const methods = methodReferences();
      if (name === undefined) {
        if (options.json) return printJson(methods);
        return print([
          ...terminalLines({
            columns: ["method", "what it does"],
            rows: methods.map((method) => [method.name, method.summary]),
          }),
          "",
          asTyped(`Explain one with ${commandLine`methods NAME`}, or read docs/methods.md.`),
        ]);
      }
      const method = methods.find((one) => one.name === name);
      if (!method) throw unknownMethod(name, methods);
      if (options.json) printJson(method);
      else print(await explain(method));
    });
}

function unknownMethod(name: string, methods: readonly MethodReference[]): LayergraftError {
  const removed = removedAdvice("method", name);
  if (removed !== undefined) return usageError(`${name} ${removed}.`);
  const known = methods.map((method) => method.name);
  const hint = didYouMean(name, known);
  return usageError(`unknown method ${name}${hint} (methods: ${known.join(", ")})`);
}

async function explain(method: MethodReference): Promise<string[]> {
  const { yamlText } = await loadYaml();
  const palette = paletteFor(process.stdout);
  const { title, summary, formula, reference, fields, entryFields, example } = method;
  return [
    palette.bold(`${method.name}: ${title}`),
    ...wrapped(summary),
    "",
    ...wrapped(formula),
    ...wrapped(reference).map(palette.dim),
    "",
    ...table(fields),
    ...(entryFields.length > 0 ? ["", "Fields of each entry of the list:", ...table(entryFields)] : []),
    "",
    "Fields of every recipe:",
    ...table(outputReferences()),
    "",
    ...wrapped(
      "A parameter is a number, a list with one number per layer, { gradient: [...] }, or rules; see docs/methods.md.",
    ),
    "",
    palette.dim("# example"),
    yamlText(example).trimEnd(),
  ];
}

function table(fields: readonly SchemaField[]): string[] {
  const rows = fields.map(({ name, type, required, default: value, description }) => {
    const fallback = required ? "required" : value === undefined ? "" : JSON.stringify(value);
    return [name, fallback, type.replaceAll("`", ""), description.replaceAll("`", "")];
  });
  return terminalLines({ columns: ["field", "default", "value", "meaning"], rows });
}
