import { isObject, mergeObjects, own, RecipeError } from "../../kit/index.js";
import {
  type Checked,
  checkSchema,
  checkSettings,
  type JsonSchema,
  type LocatedSettings,
  openSettings,
  type Problem,
  parseSettings,
  publishedSchema,
  readSettings,
  type SchemaField,
  type SettingsKind,
  schemaFields,
} from "../../kit/settings/index.js";
import { type PresetFields, presetFields, unknownPreset } from "./presets.js";
import { type Run, runSchema } from "./run-schema.js";

/** A field's path and its value as text, such as `["optimizer.lr", "1e-5"]`: what a flag gives. */
export type FieldText = readonly [field: string, text: string];

/** A run and the folder that its relative paths start from. */
export interface LocatedRun extends Omit<LocatedSettings<Run>, "value"> {
  readonly run: Run;
}

interface Flags {
  /** Values that override those of the file. */
  readonly fields?: readonly FieldText[];
}

function kindWith({ fields = [] }: Flags): SettingsKind<Run> {
  return { kind: "run", check: (value) => check(withFields(value, fields)) };
}

/**
 * Reads what to train from a file.
 * @throws RecipeError with every problem and its line
 */
export async function readRun(file: string, options: Flags = {}): Promise<LocatedRun> {
  const { value: run, ...where } = await readSettings(file, kindWith(options));
  return { run, ...where };
}

/** Parses the text of such a file. @param options.file its name, for messages */
export function parseRun(text: string, options: Flags & { readonly file?: string } = {}): Run {
  return parseSettings(text, options.file ?? "run", kindWith(options));
}

/** Checks a run given as a value. @throws RecipeError with every problem */
export function checkRun(value: unknown, options: Flags = {}): Run {
  return checkSettings(value, kindWith(options));
}

type Mapping = Readonly<Record<string, unknown>>;

function check(value: unknown): Checked<Run> {
  if (!isObject(value)) return { problems: [{ path: [], message: "must be a mapping with base, out and data" }] };
  const preset = typeof value.preset === "string" ? presetFields(value.preset) : undefined;
  const whole = preset ? withPreset(value, preset) : value;
  const checked = checkSchema(runSchema, whole);
  const problems = [...checked.problems, ...acrossFields(whole)];
  return problems.length === 0 ? checked : { problems };
}

const LENGTHS = ["steps", "epochs", "samples"] as const;

/** The run over the fields of its preset, whose length it ignores if it has its own. */
function withPreset(run: Mapping, preset: PresetFields): Mapping {
  const hasLength = LENGTHS.some((field) => Object.hasOwn(run, field));
  const kept = Object.entries(preset).filter(
    ([field]) => !(hasLength && (LENGTHS as readonly string[]).includes(field)),
  );
  return mergeObjects(Object.fromEntries(kept), run);
}

/** Problems across fields, reported together with those of single fields. */
function acrossFields(run: Mapping): Problem[] {
  const has = (field: string) => run[field] !== undefined;
  const problems: Problem[] = [];
  const add = (field: string, message: string) => problems.push({ path: [field], message });
  if (typeof run.preset === "string" && !presetFields(run.preset)) add("preset", unknownPreset(run.preset));
  if (!has("data") && !has("partition")) add("data", "is missing; set data, or partition with streams of data");
  if (has("data") && has("partition")) add("data", "cannot be used with partition, whose streams have their own data");
  if (has("train") && has("partition"))
    add("train", "cannot be used with partition, whose streams name what they train");
  const lengths = LENGTHS.filter(has);
  for (const field of lengths.slice(1)) add(field, `cannot be used with ${lengths[0]}; both set the length of the run`);
  if (has("lora") && run.method !== "lora") add("lora", "is for method: lora");
  if (has("revert") && run.method === "lora") {
    add("revert", "cannot be used with method: lora, which does not change the base; train fewer layers instead");
  }
  if (has("mask") && run.method === "lora")
    add("mask", "cannot be used with method: lora, which trains no weight of the base");
  if (has("early_stopping") && !has("holdout")) add("early_stopping", "needs a holdout to measure the loss on");
  if (isObject(run.holdout) && (run.holdout.samples === undefined) === (run.holdout.share === undefined)) {
    problems.push({ path: ["holdout"], message: "must have either samples or share" });
  }
  const names = Array.isArray(run.partition)
    ? run.partition.map((stream) => (isObject(stream) ? stream.name : undefined))
    : [];
  names.forEach((name, i) => {
    const isRepeated = typeof name === "string" && names.indexOf(name) < i;
    if (isRepeated) problems.push({ path: ["partition", i, "name"], message: `${name} is the name of another stream` });
  });
  return problems;
}

/** Replaces fields by the values of flags. @throws RecipeError with every value that is not YAML */
function withFields(run: unknown, fields: readonly FieldText[]): unknown {
  const problems: string[] = [];
  let changed = run;
  for (const [field, text] of fields) {
    try {
      changed = replaced(changed, field.split("."), openSettings(text, field).value);
    } catch {
      // YAML takes a pattern such as *.jsonl for an alias.
      if (field === "data" && /^[^{[]*$/.test(text)) {
        changed = replaced(changed, [field], text);
        continue;
      }
      problems.push(`${field}: ${JSON.stringify(text)} is not valid YAML`);
    }
  }
  if (problems.length > 0) throw new RecipeError("These flags are not valid:", problems);
  return changed;
}

function replaced(run: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const mapping = isObject(run) ? run : {};
  return { ...mapping, [key]: replaced(own(mapping, key), rest, value) };
}

/** The schema of run files, as JSON Schema (draft 2020-12). */
export function runJsonSchema(): JsonSchema {
  return publishedSchema("layergraft run", runSchema);
}

/** `data` has tables of its own, and the fields of a stream are those of a run. */
export const CLOSED = ["data", "partition"];

/** All fields, nested ones by their path, such as `optimizer.lr`, in the order of the schema. */
export function runFields(): SchemaField[] {
  const fields = schemaFields(runSchema, { closed: CLOSED });
  return fields.filter(({ name }) => !fields.some((other) => other.name.startsWith(`${name}.`)));
}
