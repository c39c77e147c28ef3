// The model card of an output: front matter for the hub, and the recipe.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isFile, VERSION, visible } from "../../core/index.js";
import { type Checkpoint, folderName } from "../../weights/index.js";
import { leavesOf } from "../expressions/expression.js";
import { type Plan, PROVENANCE_FILE } from "../plan/plan.js";
import { type MergeRecipe, mapSources, methodOf } from "../plan/recipe.js";

export async function modelCard(plan: Plan, sources: ReadonlyMap<string, Checkpoint>, title: string): Promise<string> {
  // On the hub an adapter is its own model, so it is listed beside its base.
  const entering = new Set(plan.steps.flatMap(({ value }) => leavesOf(value).map(({ source }) => source)));
  const opened = plan.sources.flatMap(({ id }) => (entering.has(id) ? (sources.get(id) ?? []) : []));
  const names = [
    ...new Set(opened.flatMap(({ folder, adapter }) => [folderName(folder), ...(adapter ? [adapter.name] : [])])),
  ];
  const lead = sources.get(plan.configFrom);
  const license = lead ? await licenseOf(lead.folder) : undefined;
  const isAdapter = plan.recipe.as === "adapter";
  const front = {
    ...(license === undefined ? {} : { license }),
    base_model: isAdapter && lead ? [folderName(lead.folder)] : names,
    base_model_relation: isAdapter ? "adapter" : "merge",
    library_name: isAdapter ? "peft" : "transformers",
    pipeline_tag: "text-generation",
    tags: ["merge", "layergraft", methodOf(plan.recipe).tag, ...(isAdapter ? ["lora"] : [])],
  };
  const { stringify } = await import("yaml"); // loads slowly, and plans do not need it
  const recipe = stringify(publicRecipe(plan)).trimEnd();
  return `---
${stringify(front).trimEnd()}
---

# ${escapeMarkdown(title)}

${escapeMarkdown(describeMethod(plan))}
Method: ${withLinks(methodOf(plan.recipe).reference)}.

Made with layergraft ${VERSION} by this recipe:

\`\`\`yaml
${recipe}
\`\`\`

\`${PROVENANCE_FILE}\` records how each tensor was made; \`layergraft verify\` recomputes them.
`;
}

/** Escapes folder names for Markdown. */
function escapeMarkdown(text: string): string {
  return visible(text)
    .replace(/\s*\n\s*/g, " ")
    .replace(/[\\`*_[\]<>|#~]/g, "\\$&");
}

/** Links the arXiv numbers in a reference. */
function withLinks(reference: string): string {
  return reference.replace(/arXiv (\d+\.\d+)/g, "[arXiv $1](https://arxiv.org/abs/$1)");
}

function describeMethod({ recipe, layers, sources }: Plan): string {
  const name = (id: string) => sources.find((source) => source.id === id || source.id.startsWith(`${id}.`))?.name ?? id;
  return methodOf(recipe).describe(recipe, name, layers);
}

/** The recipe with model names in place of local paths. */
function publicRecipe({ recipe, sources, tokenizerFrom }: Plan): unknown {
  const named = (inner: MergeRecipe, prefix: string): MergeRecipe =>
    mapSources(inner, (source, label) => {
      const id = `${prefix}${label}`;
      if (typeof source !== "string") return named(source as unknown as MergeRecipe, `${id}.`);
      return sources.find((known) => known.id === id)?.name ?? source;
    });
  return recipe.tokenizer_from === undefined
    ? named(recipe, "")
    : { ...named(recipe, ""), tokenizer_from: tokenizerFrom };
}

/** The licence that a checkpoint's model card declares, if it has one. */
async function licenseOf(folder: string): Promise<string | undefined> {
  const file = join(folder, "README.md");
  const card = (await isFile(file)) ? await readFile(file, "utf8").catch(() => "") : "";
  const front = /^---\r?\n([\s\S]*?)\r?\n---/.exec(card)?.[1] ?? "";
  return /^license:\s*["']?([\w.-]+)["']?\s*$/m.exec(front)?.[1];
}
