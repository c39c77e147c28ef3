// Writes and reads layergraft.json, the record of how an output was made.

import { join, relative, resolve } from "node:path";
import { z } from "zod";
import { isDType, LayergraftError, readJsonObject, VERSION } from "../../core/index.js";
import { checkSchema, formatProblem, recordOf } from "../../settings/index.js";
import { locateSource, type SourceLocation } from "../../weights/index.js";
import type { Measured } from "../expressions/expression.js";
import { packedResult, packResult, unpackResult } from "../expressions/measured.js";
import { valueSchema } from "../expressions/value-schema.js";
import { PLAN_FORMAT, type Plan, PROVENANCE_FILE } from "../plan/plan.js";
import { MOST_PROVENANCE_BYTES } from "./output-folder.js";

/** Characters above which the file is written without indentation. */
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
  // Inputs of measurements follow from the recipe; only results are stored.
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

/** The plan of a folder, with absolute source paths, and its measured values. */
export interface Provenance {
  readonly plan: Plan;
  readonly measured: Measured;
  /** SHA-256 of the other files as written, by name. */
  readonly companions: ReadonlyMap<string, string>;
}

/**
 * Reads the provenance of a folder that layergraft made.
 * @param moved new places of moved sources by id: FOLDER, or FOLDER+ADAPTER
 * @throws LayergraftError if it is missing or invalid
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
  const { sources, measurements, companions, ...rest } = parse(json, file);
  const unknown = [...moved.keys()].filter((id) => !sources.some((source) => source.id === id));
  if (unknown.length > 0) {
    throw new LayergraftError(
      "provenance",
      `${folder} has no source ${unknown.join(", ")}; it has ${sources.map(({ id }) => id).join(", ")}`,
      { file },
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
