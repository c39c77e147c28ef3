// Writes and reads layergraft.json, the record of how an output was made.

import { basename, join, relative, resolve } from "node:path";
import { z } from "zod";
import { cachedFolder, folderName, hubPlace, locateSource } from "../../formats/checkpoint/index.js";
import { exists, isFile, readJsonObject } from "../../kit/files/index.js";
import { isDType, LayergraftError, own, VERSION } from "../../kit/index.js";
import { checkSchema, formatProblem, recordOf } from "../../kit/settings/index.js";
import type { Measured } from "../../tensor/expressions/index.js";
import { packedResult, packResult, unpackResult, valueSchema } from "../../tensor/expressions/index.js";
import { PLAN_FORMAT, PROVENANCE_FILE } from "../model-plan.js";
import type { Plan } from "../recipe/recipe.js";
import { MAX_PROVENANCE_BYTES } from "./journal.js";
import { publicRecipe } from "./model-card.js";

/** Characters above which the file is written without indentation. */
const LARGE = 5_000_000;

/** A folder of the hub's cache, as a source that names it on any machine. */
const HUB_SOURCE = /^(?!\.)[\w.-]+\/[\w./-]+@[0-9a-f]{40}$/;

/** A folder as layergraft.json names it: as a source on the hub, or by its path from the output. */
export function placeOf(path: string, folder: string): string {
  const onHub = hubPlace(path);
  const source = `${onHub?.name}@${onHub?.commit}`;
  return HUB_SOURCE.test(source) ? source : relative(folder, path);
}

/**
 * The content of layergraft.json: the plan, with sources by their names on the hub or by paths from the output, and the
 * values measured for it.
 */
export function provenanceOf(
  plan: Plan,
  planDigest: string,
  measured: Measured,
  companions: Readonly<Record<string, string>>,
  folder: string,
): string {
  const path = (absolute: string) => placeOf(absolute, folder);
  const sources = plan.sources.map(({ folder: source, adapter, ...rest }) => ({
    ...rest,
    folder: path(source),
    ...(adapter === undefined ? {} : { adapter: path(adapter) }),
  }));
  // Inputs of measurements follow from the recipe; only results are stored.
  const measurements = plan.measurements.map(({ id, kind, label }) => {
    return { id, kind, label, result: packResult(measured.get(id) ?? []) };
  });
  const code = plan.code?.map(({ file, ...rest }) => ({ ...rest, file: relative(folder, file) }));
  const document = { layergraft: VERSION, planDigest, ...plan, sources, measurements, companions, code };
  return format(document);
}

function format(document: object): string {
  const compact = JSON.stringify(document);
  return `${compact.length > LARGE ? compact : JSON.stringify(document, null, 1)}\n`;
}

/**
 * The content of a folder's layergraft.json for other machines: sources that are not on the hub have a name and a digest,
 * and no path.
 * @param rewritten SHA-256 of files that are published with another content, by name
 * @throws LayergraftError if it is missing or invalid
 */
export async function publicProvenance(folder: string, rewritten: Readonly<Record<string, string>>): Promise<string> {
  const { planDigest, ...document } = await readDocument(folder);
  const name = (path: string) => {
    const place = HUB_SOURCE.test(path) ? path : placeOf(resolve(folder, path), folder);
    return HUB_SOURCE.test(place) ? place : folderName(resolve(folder, path));
  };
  const sources = document.sources.map((source) => ({
    ...source,
    folder: name(source.folder),
    ...(source.adapter === undefined ? {} : { adapter: name(source.adapter) }),
  }));
  const recipe = publicRecipe(document as unknown as Plan, name);
  const { layergraft, ...plan } = document;
  const code = plan.code?.map(({ file, ...rest }) => ({ ...rest, file: basename(file) }));
  const companions = { ...plan.companions, ...rewritten };
  return format({ layergraft, planDigest, ...plan, recipe, sources, companions, code });
}

// Lazily, as most commands read no layergraft.json, and a large schema takes time to build.
const provenanceSchema = z.lazy(() =>
  z.object({
    layergraft: z.string(),
    planDigest: z.string().optional(),
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
        revision: z.string().optional(),
        adapterRevision: z.string().optional(),
        name: z.string(),
        asStored: z.literal(true).optional(),
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
    blocks: recordOf(recordOf(z.string())).optional(),
    configFrom: z.string(),
    config: z.record(z.string(), z.unknown()).optional(),
    tokenizerFrom: z.string(),
    notes: z.array(z.string()),
    companions: recordOf(z.string()),
    code: z.array(z.object({ name: z.string(), file: z.string(), digest: z.string() })).optional(),
  }),
);

/** The plan of a folder, with absolute source paths, and its measured values. */
export interface Provenance {
  readonly plan: Plan;
  readonly measured: Measured;
  /** SHA-256 of the other files as written, by name. */
  readonly companions: ReadonlyMap<string, string>;
}

async function readDocument(folder: string): Promise<z.output<typeof provenanceSchema>> {
  const file = join(folder, PROVENANCE_FILE);
  const json = await readJsonObject(file, MAX_PROVENANCE_BYTES).catch(async (error: unknown) => {
    const reason = (await isFile(folder))
      ? `${folder} is a file. Pass a folder that layergraft wrote; GGUF files do not keep what they were made of.`
      : (await exists(folder))
        ? `${folder} has no readable ${PROVENANCE_FILE}, so it cannot be verified. Only layergraft outputs can, and models with a recipe in their model card.`
        : `There is no folder ${folder}. Pass the folder of a merge, or the name of a model on the hub, such as org/model.`;
    throw new LayergraftError("provenance", reason, { file }, error);
  });
  return parse(json, file);
}

/**
 * Reads the provenance of a folder that layergraft made.
 * @param moved new places of moved sources by id: FOLDER, or FOLDER+ADAPTER
 * @throws LayergraftError if it is missing or invalid
 */
export async function readProvenance(
  folder: string,
  moved: Readonly<Record<string, string>> = {},
): Promise<Provenance> {
  const { sources, measurements, companions, planDigest: _, ...rest } = await readDocument(folder);
  const unknown = Object.keys(moved).filter((id) => !sources.some((source) => source.id === id));
  if (unknown.length > 0) {
    throw new LayergraftError(
      "provenance",
      `${folder} has no source ${unknown.join(", ")}; it has ${sources.map(({ id }) => id).join(", ")}`,
      { file: join(folder, PROVENANCE_FILE) },
    );
  }
  const find = async (path: string) => (HUB_SOURCE.test(path) ? await cachedFolder(path) : resolve(folder, path));
  // What has no branch or tag was given by its commit.
  const asked = (path: string, revision: string | undefined) =>
    revision ?? (HUB_SOURCE.test(path) ? path.slice(path.indexOf("@") + 1) : undefined);
  const located = sources.map(async ({ folder: home, adapter, revision, adapterRevision, ...source }) => {
    const place = own(moved, source.id);
    return {
      ...source,
      ...(adapter === undefined
        ? {}
        : { adapter: await find(adapter), adapterRevision: asked(adapter, adapterRevision) }),
      ...(place === undefined
        ? { folder: await find(home), revision: asked(home, revision) }
        : { adapterRevision: undefined, ...(await locateSource(place)) }),
    };
  });
  const code = rest.code?.map((one) => ({ ...one, file: resolve(folder, one.file) }));
  const plan = { ...rest, code, measurements: [], sources: await Promise.all(located) } as unknown as Plan;
  return {
    plan,
    measured: new Map(measurements.map(({ id, result }) => [id, unpackResult(result)])),
    companions: new Map(Object.entries(companions)),
  };
}

function parse(json: Readonly<Record<string, unknown>>, file: string): z.output<typeof provenanceSchema> {
  const invalid = (what: string) => {
    const writer = typeof json.layergraft === "string" ? ` (${json.layergraft}; this is ${VERSION})` : "";
    const message = `${file} is not valid: ${what}. It was edited, or written by another version of layergraft${writer}. Merge again.`;
    return new LayergraftError("provenance", message, { file });
  };
  try {
    const { value, problems } = checkSchema(provenanceSchema, json);
    if (value) return value;
    throw invalid(problems.slice(0, 3).map(formatProblem).join("; "));
  } catch (error) {
    // Deep nesting exhausts the stack.
    throw error instanceof RangeError ? invalid("it nests too deep") : error;
  }
}
