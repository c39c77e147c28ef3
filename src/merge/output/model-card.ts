// The model card of an output: front matter for the hub, and the recipe.

import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { escapeMarkdown, type Figure, pageMarkdown } from "../../figures/index.js";
import { type Checkpoint, folderName, foldersOf, hubPlace } from "../../formats/checkpoint/index.js";
import { isHubName } from "../../formats/hub/index.js";
import type { SafetensorsFile } from "../../formats/safetensors/index.js";
import { digestOf, digestOfFile, isFile, writeFileAtomically } from "../../kit/files/index.js";
import { VERSION } from "../../kit/index.js";
import { commandLine, formatPercent } from "../../kit/printing/index.js";
import { frontMatterOf, loadYaml } from "../../kit/settings/index.js";
import { sourcesRead } from "../../tensor/expressions/index.js";
import { PROVENANCE_FILE } from "../model-plan.js";
import { type MergeRecipe, mapSources, methodOf, type Plan } from "../recipe/recipe.js";

export async function modelCard(plan: Plan, sources: ReadonlyMap<string, Checkpoint>, title: string): Promise<string> {
  const lead = sources.get(plan.configFrom);
  const isAdapter = plan.recipe.as === "adapter";
  const entering = sourcesRead(plan.steps.map(({ value }) => value));
  const opened = plan.sources.flatMap(({ id }) => (entering.has(id) ? (sources.get(id) ?? []) : []));
  const tags = ["merge", "layergraft", methodOf(plan.recipe).tag, ...(isAdapter ? ["lora"] : [])];
  const { yamlText } = await loadYaml();
  const recipe = yamlText(publicRecipe(plan, publicPlace)).trimEnd();
  return card(
    { title, isAdapter, bases: isAdapter && lead ? [lead] : opened, tags, models: opened },
    `${escapeMarkdown(describeMethod(plan))}
${sourceOf(plan)}

${await describeModels(opened)}

Made with layergraft ${VERSION} by this recipe:

\`\`\`yaml
${recipe}
\`\`\`

To reproduce the merge, save the recipe as \`recipe.yaml\` and run \`${commandLine`merge recipe.yaml --out ${title}`}\`.
\`${PROVENANCE_FILE}\` records how each tensor was made; \`layergraft verify\` recomputes them.
`,
  );
}

/** Where the method is from: a paper or program, or a user's file. */
function sourceOf({ recipe, code = [] }: Plan): string {
  const { reference } = methodOf(recipe);
  const linked = reference.replace(/arXiv (\d+\.\d+)/g, "[arXiv $1](https://arxiv.org/abs/$1)");
  if (reference !== "") return `Method: ${linked}.`;
  const own = code.find(({ name }) => name === recipe.method);
  return own ? `Method: \`${basename(own.file)}\`, SHA-256 \`${own.digest}\`.` : "";
}

/** The model card of an extracted adapter. @param share of the squared change that it keeps */
export async function extractionCard(
  {
    base,
    models,
    rank,
    share,
    rows,
  }: {
    base: Checkpoint;
    models: readonly Checkpoint[];
    rank: number;
    share: number;
    /** Rows of the vocabulary if they are not the base's. */
    rows: number | null;
  },
  title: string,
): Promise<string> {
  const text = `A LoRA adapter of rank ${rank} that keeps ${formatPercent(share)} of the squared change of a model from its base: the
best low-rank approximation of each weight's change, by randomised singular value decomposition ([arXiv
0909.4061](https://arxiv.org/abs/0909.4061)).
${rows === null ? "" : `\nThe vocabulary has ${rows} rows. In PEFT, call \`model.resize_token_embeddings(${rows})\` before the adapter is loaded.\n`}
${await describeModels([base, ...models])}

Made with layergraft ${VERSION}. \`extraction.json\` lists what each weight keeps.
`;
  return card({ title, isAdapter: true, bases: [base], tags: ["layergraft", "lora"], models: [base, ...models] }, text);
}

async function card(
  of: {
    readonly title: string;
    readonly isAdapter: boolean;
    readonly bases: readonly Checkpoint[];
    readonly tags: readonly string[];
    /** Models that it is made of. */
    readonly models: readonly Checkpoint[];
  },
  text: string,
): Promise<string> {
  const { yamlText } = await loadYaml();
  const { licenses, datasets, license, parents } = await inheritedFrom(of.models);
  const onHub = hubNames(of.bases);
  // Of local models, what their own cards say that they were made from.
  const bases = onHub.length > 0 ? onHub : parents;
  const front = {
    ...license,
    // The hub rejects a name that is not a model's there.
    ...(bases.length > 0 ? { base_model: bases } : {}),
    base_model_relation: of.isAdapter ? "adapter" : "merge",
    library_name: of.isAdapter ? "peft" : "transformers",
    pipeline_tag: "text-generation",
    tags: of.tags,
    ...(datasets.length > 0 ? { datasets } : {}),
  };
  const open = licenses.length > 1 ? `\nIts models have different licenses: ${licenses.join(", ")}.\n` : "";
  const asked = ASKED.filter((field) => !(field in front)).map(
    (field) => `# ${field}: add it; the models do not say theirs\n`,
  );
  return `---\n${asked.join("")}${yamlText(front).trimEnd()}\n---\n\n# ${escapeMarkdown(of.title)}\n\n${text}${open}\n${useOf(of)}`;
}

const USE = "## Use\n";
/** As no section that a person wrote is called. */
const EVALUATION = "Evaluation with layergraft";

/**
 * Puts what was found of a model into the card in its folder, before how it is used, in place of what an earlier evaluation found. A
 * folder without a card stays without.
 */
export async function writeCardFindings(folder: string, figures: readonly Figure[]): Promise<void> {
  const file = join(folder, "README.md");
  if (figures.length === 0 || !(await isFile(file))) return;
  const [front = "", ...sections] = (await readFile(file, "utf8")).split(/^(?=## )/m);
  const section = { id: "evaluation", title: EVALUATION, figures };
  const text = pageMarkdown({ title: "", lead: "", verdicts: [], notes: [], sections: [section], footer: "" });
  const others = sections.filter((one) => !one.startsWith(`## ${EVALUATION}\n`));
  const use = others.findIndex((one) => one.startsWith(USE));
  await writeFileAtomically(file, [front, ...others.toSpliced(use < 0 ? others.length : use, 0, `${text}\n`)].join(""));
}

/** How the model is loaded and asked. */
function useOf({ title, isAdapter }: { readonly title: string; readonly isAdapter: boolean }): string {
  const path = JSON.stringify(title);
  const load = isAdapter
    ? `from peft import AutoPeftModelForCausalLM

model = AutoPeftModelForCausalLM.from_pretrained(${path})  # this folder, or the name of its repository`
    : `from transformers import AutoModelForCausalLM, AutoTokenizer

path = ${path}  # this folder, or the name of its repository
model, tokenizer = AutoModelForCausalLM.from_pretrained(path), AutoTokenizer.from_pretrained(path)`;
  const source = isAdapter ? `BASE+${title}` : title;
  return `${USE}
\`\`\`python
${load}
\`\`\`

\`\`\`sh
${commandLine`generate ${source} --prompt ${"Hello"}`}
${commandLine`serve ${source}`}
\`\`\`
`;
}

/** What the hub asks for beside what every card has. */
const ASKED = ["license", "base_model"];

/** Fields of a model card that the hub asks for and that this one lacks. */
export async function unknownFields(folder: string): Promise<string[]> {
  const front = await frontOf(folder);
  return ASKED.filter((field) => front[field] === undefined);
}

/** Names on the hub of models and of their adapters, which are models of their own there. */
function hubNames(models: readonly Checkpoint[]): string[] {
  const folders = models.flatMap(foldersOf);
  const names = folders.flatMap((folder) => hubPlace(folder)?.name.split("/").slice(0, 2).join("/") ?? []);
  return [...new Set(names)];
}

/** A quarter of a second of hashing. Larger models are not read again only to be named. */
const MAX_BYTES_HASHED = 5e8;

/** SHA-256 of local weights, which no other model shares: of the only file, or of what `sha256sum` prints for several. */
async function describeWeights(files: readonly SafetensorsFile[]): Promise<string> {
  const digests: string[] = [];
  for (const { path } of files) digests.push(await digestOfFile(path));
  const [only = ""] = digests;
  if (files.length === 1) return ` (SHA-256 of its weights \`${only}\`)`;
  const lines = files.map(({ path }, i) => `${digests[i]}  ${basename(path)}\n`);
  return ` (SHA-256 of the \`sha256sum\` lines of its ${files.length} weight files \`${digestOf(lines.join(""))}\`)`;
}

/** A list of models: those on the hub with their commits, others with the digest of their weights. */
async function describeModels(models: readonly Checkpoint[]): Promise<string> {
  const bytes = models.flatMap(({ files }) => files.map((file) => (file.remote ? 0 : file.bytes)));
  const isSmall = bytes.reduce((sum, size) => sum + size, 0) <= MAX_BYTES_HASHED;
  const describe = async (folder: string, files: readonly SafetensorsFile[]) => {
    const onHub = hubPlace(folder);
    if (!onHub) {
      return `${escapeMarkdown(folderName(folder))}, a local folder${isSmall ? await describeWeights(files) : ""}`;
    }
    const { name, commit } = onHub;
    const [organization = "", model = "", ...inside] = name.split("/");
    const url = ["https://huggingface.co", organization, model, "tree", commit, ...inside].join("/");
    return `[${escapeMarkdown(name)}](${url}) at commit \`${commit.slice(0, 12)}\``;
  };
  const lines = models.map(async ({ folder, adapter, files }) => {
    const base = await describe(
      folder,
      files.filter((file) => file !== adapter?.file),
    );
    return adapter ? `${base} with adapter ${await describe(adapter.path, [adapter.file])}` : base;
  });
  return ["Models:", "", ...[...new Set(await Promise.all(lines))].map((line) => `- ${line}`)].join("\n");
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

/** What the cards of models say of the merge, too: their data sets on the hub, and the license if they have the same. */
async function inheritedFrom(models: readonly Checkpoint[]) {
  const cards = await Promise.all([...new Set(models.flatMap(foldersOf))].map(frontOf));
  const text = (value: unknown) => (typeof value === "string" && /^[\w. /:#-]+$/.test(value) ? [value] : []);
  // The hub knows other licenses by a name and a link beside `other`.
  const licensed = cards
    .filter(({ license }) => text(license).length > 0)
    .map((front) =>
      ["license", "license_name", "license_link"].flatMap((key) => text(front[key]).map((own) => [key, own])),
    )
    .map((fields): Readonly<Record<string, string>> => Object.fromEntries(fields));
  const licenses = [...new Set(licensed.map(({ license, license_name: name = license }) => name))];
  // The hub refuses a card that names a folder as a data set; those of its first years have no owner.
  const isDataSet = (name: string) => isHubName(name) || /^\w[\w.-]*$/.test(name);
  const datasets = [...new Set(cards.flatMap((front) => [front.datasets].flat().flatMap(text)))].filter(isDataSet);
  const parents = [...new Set(cards.flatMap((front) => [front.base_model].flat().flatMap(text)))].filter(isHubName);
  return { licenses, datasets, parents, license: licenses.length === 1 ? licensed[0] : {} };
}

/** The front matter of a folder's model card; empty if there is none that can be read. */
async function frontOf(folder: string): Promise<Readonly<Record<string, unknown>>> {
  const file = join(folder, "README.md");
  const card = (await isFile(file)) ? await readFile(file, "utf8").catch(() => "") : "";
  return frontMatterOf(card);
}

/** The picture of a merge in its folder. */
export const CARD_PICTURE = "merge.png";

/**
 * Puts the picture of a merge into the card of its folder, below the title.
 * @param alt what the picture shows
 */
export async function pictureInCard(folder: string, png: Buffer, alt: string): Promise<void> {
  const file = join(folder, "README.md");
  const card = await readFile(file, "utf8");
  await writeFileAtomically(join(folder, CARD_PICTURE), png);
  if (card.includes(`](${CARD_PICTURE})`)) return;
  await writeFileAtomically(
    file,
    // Comments of the front matter begin like a title.
    card.replace(/(?<=^---\n\n)# .*\n/m, (title) => `${title}\n![${escapeMarkdown(alt)}](${CARD_PICTURE})\n`),
  );
}
