import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { exists, writeFileAtomically } from "../../kit/files/index.js";
import { OutputError } from "../../kit/index.js";
import { commandLine, plural } from "../../kit/printing/index.js";
import { yamlText } from "../../kit/settings/index.js";
import { concludeSuggestions, type Suggestion, suggestRecipes, trainingSentences } from "../../merge/analysis/index.js";
import { analyze } from "../../verbs/index.js";
import { runWithHub } from "../shared/hub-access.js";
import { info, paletteFor, parseShare, print, printJson, warn, withWorkOptions } from "../shared/output.js";
import { ON_HELP, readTexts } from "../shared/prompt-files.js";
import { sourceFrom } from "../shared/sources.js";
import type { Command } from "../shared/typed.js";

export function add(program: Command): void {
  const command = program
    .command("suggest")
    .description(
      "Analyze two experts in one pass and suggest recipes, each with its reason: the paper's layer range scaled to the depth, " +
        "shares of change by layer and by module, the experts' profiles, a reverse swap. Suggestions are starting points " +
        "for a search: evaluate what they give.",
    )
    .optionsGroup("Models:")
    .requiredOption("--base <source>", "model both were fine-tuned from")
    .requiredOption("--task <source>", "task expert")
    .requiredOption("--language <source>", "language expert")
    .optionsGroup("Suggestions:")
    .option("--tau <share>", "smallest difference of shares that decides a layer (default: 0.001)", parseShare)
    .option("--alpha <share>", "task expert's weight in layers below --tau (default: 0.5)", parseShare)
    .option("--vocabulary <name>", "tokens to compare if vocabularies differ: task, language, base, or union")
    .option("--on <file>", `${ON_HELP}, and suggest a block of layers from it`)
    .optionsGroup("Output:")
    .option("-o, --out <folder>", "folder for the recipes, one YAML file each")
    .option("--force", "write to a folder that is not empty; replaces recipes by name");
  withWorkOptions(command).action(async (options) => {
    const { base, task, language, tau, alpha, vocabulary, out } = options;
    if (out !== undefined && !options.force) await requireEmpty(out);
    if (task === language) warn("task and language are the same source; swapping layers between them changes nothing");
    const on = options.on === undefined ? undefined : await readTexts(options.on);
    const experts = { task, language };
    const analysis = await runWithHub(options, (controls) => analyze({ base, experts, vocabulary, on, ...controls }));
    for (const warning of analysis.warnings) warn(warning);
    for (const sentence of trainingSentences(analysis.training)) info(options, `note: ${sentence}`);
    const sources = { base, task, language };
    if (out === undefined) {
      const suggestions = suggestRecipes({ analysis, sources, tau, alpha, vocabulary });
      if (options.json) printJson(suggestions);
      else print(describe(suggestions));
      info(options, `${concludeSuggestions(suggestions, analysis)} Pass --out FOLDER to write them as recipes.`);
      return;
    }
    // Paths in a recipe start from the recipe's folder.
    const moved = {
      base: await sourceFrom(base, out),
      task: await sourceFrom(task, out),
      language: await sourceFrom(language, out),
    };
    const suggestions = suggestRecipes({ analysis, sources: moved, tau, alpha, vocabulary });
    await mkdir(out, { recursive: true });
    for (const suggestion of suggestions) {
      await writeFileAtomically(join(out, `${suggestion.name}.yaml`), recipeFile(suggestion));
    }
    if (options.json) printJson(suggestions.map((one) => ({ ...one, file: `${one.name}.yaml` })));
    else print(describe(suggestions));
    const first = suggestions[0]?.name ?? "";
    info(
      options,
      `${concludeSuggestions(suggestions, analysis)}\nWrote ${plural(suggestions.length, "recipe")} to ${out}; try one: ${commandLine`merge ${join(out, `${first}.yaml`)} --out ${first}`}`,
    );
  });
}

function describe(suggestions: readonly Suggestion[]): string[] {
  const palette = paletteFor(process.stdout);
  return suggestions.flatMap(({ name, reason, reference, layers }) => [
    palette.bold(name),
    `  ${reason} ${palette.dim(`(${reference})`)}`,
    `  ${layers}`,
  ]);
}

function recipeFile({ reason, reference, layers, recipe }: Suggestion): string {
  return `# ${reason}\n# ${reference}\n# ${layers}\n# A configuration to try, not a result.\n${yamlText(recipe)}`;
}

async function requireEmpty(out: string): Promise<void> {
  if (!(await exists(out))) return;
  if ((await readdir(out).catch(() => ["?"])).length > 0) {
    throw new OutputError(`${out} is not empty. Pass --force to write into it, or choose another --out.`, {
      file: out,
    });
  }
}
