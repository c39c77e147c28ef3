import { mkdir, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "zod";
import { exists, writeFileAtomically } from "../kit/files/index.js";
import { OutputError } from "../kit/index.js";
import { commandLine, plural } from "../kit/printing/index.js";
import { loadYaml, namedField } from "../kit/settings/index.js";
import { concludeSuggestions, type Suggestion, suggestRecipes, trainingSentences } from "../merge/analysis/index.js";
import { analyzeWithRows, ON_HELP, textsField } from "./analyze.js";
import type { SuggestInput } from "./inputs.js";
import { sourceFrom } from "./sources.js";
import { callVerb, type Noted, type Verb, type VerbOptions, type WorkOptions } from "./verb.js";

const share = z.number().min(0, "must be a number from 0 to 1").max(1, "must be a number from 0 to 1").optional();

export const suggestSchema = z.strictObject({
  base: namedField("source", "model both were fine-tuned from"),
  task: namedField("source", "task expert"),
  language: namedField("source", "language expert"),
  tau: share.meta({ description: "smallest difference of shares that decides a layer", unset: "0.001" }),
  alpha: share.meta({ description: "task expert's weight in layers below `tau`", unset: "0.5" }),
  vocabulary: z
    .string()
    .optional()
    .meta({ description: "tokens to compare if vocabularies differ: task, language, base, or union" }),
  on: textsField(
    "4 to 1000 texts: also measure how alike the models represent them, and suggest a block of layers from it",
  ),
  called: z
    .strictObject({ task: z.string(), language: z.string() })
    .optional()
    .meta({ description: "what reasons call the experts", unset: "the task expert, the language expert" }),
  out: namedField("folder", "folder for the recipes, one YAML file each").optional(),
});

/** Merges to try. */
export interface SuggestResult extends Noted {
  /** Those that do not depend on the experts first; `file`: in `out`, if it is given. */
  readonly suggestions: readonly (Suggestion & { readonly file?: string })[];
  /** What to try first, and how sure it is. */
  readonly conclusion: string;
}

export const suggestVerb: Verb<typeof suggestSchema, SuggestResult> = {
  name: "suggest",
  description:
    "Analyze two experts in one pass and suggest recipes, each with its reason: the paper's layer range scaled to the depth, " +
    "shares of change by layer and by module, the experts' profiles, a reverse swap. Suggestions are starting points " +
    "for a search: evaluate what they give.",
  schema: suggestSchema,
  fetch: "stream",
  options: {
    threads: "physical cores",
    memory: "256MB",
    force: "write to a folder that is not empty; replaces recipes by name",
  },
  async run({ base, task, language, tau, alpha, vocabulary, called, on, out }, controls) {
    const { folder = "", force } = controls;
    if (out !== undefined && !force) await requireEmpty(resolve(folder, out), out);
    const experts = { task, language };
    const { analysis } = await analyzeWithRows({ base, experts, vocabulary, on }, controls);
    // Paths in a recipe start from the recipe's folder.
    const place = (source: string) => (out === undefined ? source : sourceFrom(source, resolve(folder, out), folder));
    const [ofBase, ofTask, ofLanguage] = await Promise.all([base, task, language].map(place));
    const sources = { base: ofBase ?? base, task: ofTask ?? task, language: ofLanguage ?? language };
    const found = suggestRecipes({ analysis, sources, called, tau, alpha, vocabulary });
    const same = "task and language are the same source; swapping layers between them changes nothing";
    return {
      suggestions: out === undefined ? found : await writeRecipes(resolve(folder, out), found),
      conclusion: concludeSuggestions(found, analysis),
      notes: trainingSentences(analysis.training),
      warnings: [...(task === language ? [same] : []), ...analysis.warnings],
    };
  },
  show: ({ suggestions }) => [
    {
      kind: "entries",
      entries: suggestions.map(({ name, reason, reference, layers }) => ({
        name,
        lines: [`${reason} (${reference})`, layers],
      })),
    },
  ],
  terminal: {
    groups: {
      Models: ["base", "task", "language"],
      Suggestions: ["tau", "alpha", "vocabulary", "on"],
      Output: ["out", "force"],
    },
    flags: {
      tau: { value: "share" },
      alpha: { value: "share" },
      vocabulary: { value: "name" },
      on: { value: "file", read: "texts", help: `${ON_HELP}, and suggest a block of layers from it` },
    },
    json: ({ suggestions }) => suggestions,
    closing({ suggestions, conclusion }, { out }) {
      if (out === undefined) return [`${conclusion} Pass \`out\` FOLDER to write them as recipes.`];
      const first = suggestions[0]?.name ?? "";
      const next = commandLine`merge ${join(out, `${first}.yaml`)} --out ${first}`;
      return [`${conclusion}\nWrote ${plural(suggestions.length, "recipe")} to ${out}; try one: ${next}`];
    },
  },
};

async function writeRecipes(out: string, found: readonly Suggestion[]): Promise<SuggestResult["suggestions"]> {
  const { yamlText } = await loadYaml();
  await mkdir(out, { recursive: true });
  for (const { name, reason, reference, layers, recipe } of found) {
    const head = `# ${reason}\n# ${reference}\n# ${layers}\n# A configuration to try, not a result.\n`;
    await writeFileAtomically(join(out, `${name}.yaml`), `${head}${yamlText(recipe)}`);
  }
  return found.map((one) => ({ ...one, file: `${one.name}.yaml` }));
}

/** @param name the folder as it was given */
async function requireEmpty(out: string, name: string): Promise<void> {
  if (!(await exists(out))) return;
  if ((await readdir(out).catch(() => ["?"])).length > 0) {
    throw new OutputError(`${name} is not empty.`, { file: name, option: "force" });
  }
}

/** Options of `suggest`. */
export interface SuggestOptions extends VerbOptions, Pick<WorkOptions, "threads" | "memory" | "force"> {}

/**
 * Suggests merges of two experts, by the depth of the model and by where they changed. Makes one pass over the weights.
 * @throws RecipeError if the input is not valid, with every problem
 * @throws OutputError if `out` is not empty and `force` is not set
 * @throws MismatchError if the models do not fit together
 * @throws CheckpointError or FormatError if a model cannot be read
 * @throws CancelledError if the signal fires
 */
export function suggest(input: SuggestInput, options: SuggestOptions = {}): Promise<SuggestResult> {
  return callVerb(suggestVerb, input, options);
}
