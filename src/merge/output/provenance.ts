// What an output says about itself: layergraft.json, from which it can be verified, and the model card, from which a
// person learns what it is.

import { readFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { stringify } from "yaml";
import { z } from "zod";
import { isDType, isFile, LayergraftError, readJsonObject, VERSION, visible } from "../../core/index.js";
import { recordOf } from "../../settings/index.js";
import { type Checkpoint, folderName, locateSource, type SourceLocation } from "../../weights/index.js";
import { leavesOf, type Measured } from "../expressions/expression.js";
import { packedResult, packResult, unpackResult } from "../expressions/measured.js";
import { valueSchema } from "../expressions/value-schema.js";
import { PLAN_FORMAT, type Plan, PROVENANCE_FILE } from "../plan/plan.js";
import { type MergeRecipe, mapSources, methodOf } from "../plan/recipe.js";
import { MOST_PROVENANCE_BYTES } from "./output-folder.js";

/** Characters from which the file is written without indentation: nobody reads it through any more. */
const LARGE = 5_000_000;
/** The content of layergraft.json: the plan, with paths relative to the output, and the values measured for it. */
export function provenanceOf(
  plan: Plan,
  planDigest: string,
  measured: Measured,
  companions: Readonly<Record<string, string>>,
  folder: string,
): string {
  const path = (absolute: string) => relative(folder, absolute);
  const sources = plan.sources.map(({ folder: source, adapter, ...rest }) => ({
    ...rest,
    folder: path(source),
    ...(adapter === undefined ? {} : { adapter: path(adapter) }),
  }));
  // What measurements were made of follows from the recipe; their values are enough.
  const measurements = plan.measurements.map(({ id, kind, label }) => {
    return { id, kind, label, result: packResult(measured.get(id) ?? []) };
  });
  const document = { layergraft: VERSION, planDigest, ...plan, sources, measurements, companions };
  const compact = JSON.stringify(document);
  return `${compact.length > LARGE ? compact : JSON.stringify(document, null, 1)}\n`;
}

const provenanceSchema = z.object({
  layergraft: z.string(),
  format: z.literal(PLAN_FORMAT),
  recipe: z.record(z.string(), z.unknown()),
  layers: z.int(),
  layerOrder: z.array(z.int().min(0)).optional(),
  architecture: z.string(),
  sources: z.array(
    z.object({
      id: z.string(),
      folder: z.string().refine((path) => !path.includes("\0")),
      adapter: z
        .string()
        .refine((path) => !path.includes("\0"))
        .optional(),
      name: z.string(),
      digest: z.string(),
      files: z.array(z.object({ name: z.string(), bytes: z.number(), headerDigest: z.string() })),
    }),
  ),
  measurements: z.array(z.object({ id: z.string(), kind: z.string(), label: z.string(), result: packedResult })),
  steps: z.array(
    z.object({
      tensor: z.string(),
      dtype: z.string().refine(isDType, "must be a safetensors dtype"),
      shape: z.array(z.int().min(0)),
      layer: z.int().nullable(),
      part: z.string(),
      origin: z.array(z.string()),
      value: valueSchema,
    }),
  ),
  vocabulary: z.object({ rows: z.int(), digest: z.string(), added: z.array(z.looseObject({})) }).optional(),
  configFrom: z.string(),
  tokenizerFrom: z.string(),
  notes: z.array(z.string()),
  companions: recordOf(z.string()),
});

/** The plan that a folder was made by, its sources' paths made absolute again, and the values measured for it. */
export interface Provenance {
  readonly plan: Plan;
  readonly measured: Measured;
  /** SHA-256 of the files beside the weights, as they were written, by name. */
  readonly companions: ReadonlyMap<string, string>;
}

/**
 * Reads the provenance of a folder that layergraft made.
 * @param moved where sources are that are no longer where they were, by id: FOLDER, or FOLDER+ADAPTER
 * @throws {LayergraftError} if there is none, or it cannot be understood
 */
export async function readProvenance(
  folder: string,
  moved: ReadonlyMap<string, string> = new Map(),
): Promise<Provenance> {
  const file = join(folder, PROVENANCE_FILE);
  const json = await readJsonObject(file, MOST_PROVENANCE_BYTES).catch((error: unknown) => {
    throw new LayergraftError(
      "provenance",
      `${folder} has no readable ${PROVENANCE_FILE}, so it cannot be verified. Only layergraft outputs can.`,
      { file },
      error,
    );
  });
  const parsed = parse(json, file);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new LayergraftError(
      "provenance",
      `${file} cannot be understood: ${issue?.path.join(".")} ${issue?.message}; it was edited, or made by another version (${String(json.layergraft)})`,
      { file },
    );
  }
  const { sources, measurements, companions, ...rest } = parsed.data;
  const unknown = [...moved.keys()].filter((id) => !sources.some((source) => source.id === id));
  if (unknown.length > 0) {
    throw new LayergraftError(
      "provenance",
      `${folder} has no source ${unknown.join(", ")}; it has ${sources.map(({ id }) => id).join(", ")}`,
      {
        file,
      },
    );
  }
  const places = new Map<string, SourceLocation>();
  for (const [id, source] of moved) places.set(id, await locateSource(source));
  const plan = {
    ...rest,
    measurements: [],
    sources: sources.map((source) => ({
      ...source,
      folder: resolve(folder, source.folder),
      ...(source.adapter === undefined ? {} : { adapter: resolve(folder, source.adapter) }),
      ...places.get(source.id),
    })),
  } as unknown as Plan;
  return {
    plan,
    measured: new Map(measurements.map(({ id, result }) => [id, unpackResult(result)])),
    companions: new Map(Object.entries(companions)),
  };
}

function parse(json: unknown, file: string): z.ZodSafeParseResult<z.output<typeof provenanceSchema>> {
  try {
    return provenanceSchema.safeParse(json);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error; // the stack is exhausted
    throw new LayergraftError("provenance", `${file} cannot be understood: it nests too deep; it was edited`, { file });
  }
}

/** The model card: front matter that the hub reads, and the recipe for people. */
export async function modelCard(plan: Plan, sources: ReadonlyMap<string, Checkpoint>, title: string): Promise<string> {
  // An adapter is a model of its own on the hub, so it is named beside its base.
  const entering = new Set(plan.steps.flatMap(({ value }) => leavesOf(value).map(({ source }) => source)));
  const opened = plan.sources.flatMap(({ id }) => (entering.has(id) ? (sources.get(id) ?? []) : []));
  const names = [
    ...new Set(opened.flatMap(({ folder, adapter }) => [folderName(folder), ...(adapter ? [adapter.name] : [])])),
  ];
  const lead = sources.get(plan.configFrom);
  const license = lead ? await licenseOf(lead.folder) : undefined;
  const front = {
    ...(license === undefined ? {} : { license }),
    base_model: names,
    base_model_relation: "merge",
    library_name: "transformers",
    pipeline_tag: "text-generation",
    tags: ["merge", "layergraft", methodOf(plan.recipe).tag],
  };
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

/** Text from names of folders, as Markdown shows it. */
function escapeMarkdown(text: string): string {
  return visible(text)
    .replace(/\s*\n\s*/g, " ")
    .replace(/[\\`*_[\]<>|#~]/g, "\\$&");
}

/** A reference whose arXiv numbers are links. */
function withLinks(reference: string): string {
  return reference.replace(/arXiv (\d+\.\d+)/g, "[arXiv $1](https://arxiv.org/abs/$1)");
}

function describeMethod({ recipe, layers, sources }: Plan): string {
  const name = (id: string) => sources.find((source) => source.id === id || source.id.startsWith(`${id}.`))?.name ?? id;
  return methodOf(recipe).describe(recipe, name, layers);
}

/** The recipe with names in place of local paths, which would mean nothing to others. */
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
