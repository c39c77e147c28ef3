// The model card of an output: front matter for the hub, and the recipe.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { isFile, VERSION, visible } from "../../core/index.js";
import { type Checkpoint, folderName, hubPlace } from "../../weights/index.js";
import { leavesOf } from "../expressions/expression.js";
import { type Plan, PROVENANCE_FILE } from "../plan/plan.js";
import { type MergeRecipe, mapSources, methodOf } from "../plan/recipe.js";

export async function modelCard(plan: Plan, sources: ReadonlyMap<string, Checkpoint>, title: string): Promise<string> {
  const lead = sources.get(plan.configFrom);
  const isAdapter = plan.recipe.as === "adapter";
  const entering = new Set(plan.steps.flatMap(({ value }) => leavesOf(value).map(({ source }) => source)));
  const opened = plan.sources.flatMap(({ id }) => (entering.has(id) ? (sources.get(id) ?? []) : []));
  // On the hub an adapter is its own model, so it is listed beside its base.
  const folders = opened.flatMap(({ folder, adapter }) => [folder, ...(adapter ? [adapter.path] : [])]);
  const bases = hubNames(isAdapter && lead ? [lead.folder] : folders);
  const license = lead ? await licenseOf(lead.folder) : undefined;
  const front = {
    ...(license === undefined ? {} : { license }),
    // The hub rejects a name that is not a model's there.
    ...(bases.length > 0 ? { base_model: bases } : {}),
    base_model_relation: isAdapter ? "adapter" : "merge",
    library_name: isAdapter ? "peft" : "transformers",
    pipeline_tag: "text-generation",
    tags: ["merge", "layergraft", methodOf(plan.recipe).tag, ...(isAdapter ? ["lora"] : [])],
  };
  const { stringify } = await import("yaml"); // loads slowly, and plans do not need it
  const recipe = stringify(publicRecipe(plan, publicPlace)).trimEnd();
  return `---
${stringify(front).trimEnd()}
---

# ${escapeMarkdown(title)}

${escapeMarkdown(describeMethod(plan))}
Method: ${withLinks(methodOf(plan.recipe).reference)}.

${describeSources(plan, entering)}

Made with layergraft ${VERSION} by this recipe:

\`\`\`yaml
${recipe}
\`\`\`

\`${PROVENANCE_FILE}\` records how each tensor was made; \`layergraft verify\` recomputes them.
`;
}

/** Models on the hub that are in these folders of its cache, without their subfolders. */
function hubNames(folders: readonly string[]): string[] {
  const names = folders.flatMap((folder) => hubPlace(folder)?.name.split("/").slice(0, 2).join("/") ?? []);
  return [...new Set(names)];
}

/** A list of the models: on the hub with their commits, others with the digests of their files. */
function describeSources({ sources }: Plan, entering: ReadonlySet<string>): string {
  const describe = (folder: string, digest?: string) => {
    const onHub = hubPlace(folder);
    if (!onHub)
      return `${escapeMarkdown(folderName(folder))}${digest ? `, a local folder (digest ${digest.slice(0, 12)})` : ""}`;
    const { name, commit } = onHub;
    const [organization = "", model = "", ...inside] = name.split("/");
    const url = ["https://huggingface.co", organization, model, "tree", commit, ...inside].join("/");
    return `[${escapeMarkdown(name)}](${url}) at commit \`${commit.slice(0, 12)}\``;
  };
  const lines = sources
    .filter(({ id }) => entering.has(id))
    .map(({ folder, adapter, digest }) =>
      adapter === undefined
        ? describe(folder, digest)
        : `${describe(folder)} with adapter ${describe(adapter, digest)}`,
    );
  return ["Models:", "", ...[...new Set(lines)].map((line) => `- ${line}`)].join("\n");
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

/** A folder's name on the hub, with its commit, or its own name. */
function publicPlace(folder: string): string {
  const onHub = hubPlace(folder);
  return onHub ? `${onHub.name}@${onHub.commit}` : folderName(folder);
}

/**
 * The recipe with public names in place of local paths.
 * @param placeOf public name of a source's folder
 */
export function publicRecipe(
  { recipe, sources, tokenizerFrom }: Pick<Plan, "recipe" | "sources" | "tokenizerFrom">,
  placeOf: (folder: string) => string,
): Plan["recipe"] {
  const named = <R extends MergeRecipe>(inner: R, prefix: string): R =>
    mapSources(inner, (source, label) => {
      const id = `${prefix}${label}`;
      if (typeof source !== "string") return named(source as unknown as MergeRecipe, `${id}.`);
      const known = sources.find((one) => one.id === id);
      return known ? [known.folder, known.adapter ?? []].flat().map(placeOf).join("+") : placeOf(source);
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
