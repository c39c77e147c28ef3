// Reading what to train, from YAML or JSON, or from a value of the library: presets filled in, all faults at once, with
// lines. What depends on the base is settled by run-settings.ts.

import { dirname } from "node:path";
import { parse as parseYaml } from "yaml";
import { z } from "zod";
import { isDeeperThan, own, RecipeError } from "../core/index.js";
import { mixtureFields, setFields } from "../data/index.js";
import {
  type Checked,
  type Fault,
  faultsOfIssues,
  formatFault,
  lineOfField,
  parseSettings,
  readSettingsText,
  withHint,
} from "../settings/index.js";
import { type PresetFields, presetFields, unknownPreset } from "./presets.js";
import { runSchema } from "./run-schema.js";

/** What to train, defaults filled in. */
export type Run = z.output<typeof runSchema>;
/** The same as it may be written. */
export type RunInput = z.input<typeof runSchema>;
/** A field's path and its value as text, such as `["optimizer.lr", "1e-5"]`: what a flag gives. */
export type FieldText = readonly [field: string, text: string];

export interface LocatedRun {
  readonly run: Run;
  /** The folder that relative paths of the file start from. */
  readonly folder: string;
  /** The line of the file on which a field stands, such as `optimizer.lr`, or the closest that does. */
  readonly lineOf: (field: string) => number | undefined;
}

/**
 * Reads what to train from a file.
 * @param options.fields values that go before those of the file
 * @throws {RecipeError} with every fault and its line
 */
export async function readRun(file: string, options: { fields?: readonly FieldText[] } = {}): Promise<LocatedRun> {
  const text = await readSettingsText(file, "run");
  const run = parseRun(text, { file, ...options });
  return { run, folder: dirname(file), lineOf: (field) => lineOfField(text, field) };
}

/** Parses the text of such a file. @param options.file its name, for messages */
export function parseRun(text: string, options: { file?: string; fields?: readonly FieldText[] } = {}): Run {
  const { file = "run", fields = [] } = options;
  return parseSettings(text, { file, kind: "run", check: (value) => check(withFields(value, fields), file) });
}

/** Checks a run given as a value. @throws {RecipeError} with every fault */
export function checkRun(value: unknown, options: { fields?: readonly FieldText[] } = {}): Run {
  const { value: run, faults } = check(withFields(value, options.fields ?? []), "the run");
  if (run) return run;
  throw new RecipeError("This is not a valid run:", faults.map(formatFault));
}

// Deeper than any declaration of data; what contains itself would fill the stack.
const MAX_DEPTH = 40;

type Mapping = Readonly<Record<string, unknown>>;

function isMapping(value: unknown): value is Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function check(value: unknown, name: string): Checked<Run> {
  if (isDeeperThan(value, MAX_DEPTH)) throw new RecipeError(`${name} nests too deep, or contains itself`);
  if (!isMapping(value)) return { faults: [{ path: [], message: "must be a mapping with base, out and data" }] };
  const preset = typeof value.preset === "string" ? presetFields(value.preset) : undefined;
  const whole = preset ? withPreset(value, preset) : value;
  const parsed = runSchema.safeParse(whole, { reportInput: true });
  const faults = [
    ...(parsed.success ? [] : faultsOfIssues(parsed.error.issues).map((fault) => withHint(fault, FIELD_NAMES))),
    ...acrossFields(whole),
  ];
  return parsed.success && faults.length === 0 ? { value: parsed.data, faults } : { faults };
}

const LENGTHS = ["steps", "epochs", "samples"] as const;

/** The preset's fields, those of the run before them; a run of another length has not the preset's. */
function withPreset(run: Mapping, preset: PresetFields): Mapping {
  const hasLength = LENGTHS.some((field) => Object.hasOwn(run, field));
  const kept = Object.entries(preset).filter(
    ([field]) => !(hasLength && (LENGTHS as readonly string[]).includes(field)),
  );
  return mergedOver(Object.fromEntries(kept), run);
}

function mergedOver(below: Mapping, above: Mapping): Mapping {
  const merged = new Map(Object.entries(below));
  for (const [key, value] of Object.entries(above)) {
    const under = merged.get(key);
    merged.set(key, isMapping(under) && isMapping(value) ? mergedOver(under, value) : value);
  }
  return Object.fromEntries(merged);
}

/** What no single field can say; looked at even where fields have faults of their own. */
function acrossFields(run: Mapping): Fault[] {
  const has = (field: string) => run[field] !== undefined;
  const faults: Fault[] = [];
  const add = (field: string, message: string) => faults.push({ path: [field], message });
  if (typeof run.preset === "string" && !presetFields(run.preset)) add("preset", unknownPreset(run.preset));
  if (!has("data") && !has("partition")) add("data", "is missing; give data, or partition with streams of data");
  if (has("data") && has("partition")) add("data", "cannot stand beside partition, whose streams have their own data");
  if (has("train") && has("partition"))
    add("train", "cannot stand beside partition, whose streams say what they train");
  const lengths = LENGTHS.filter(has);
  for (const field of lengths.slice(1)) add(field, `cannot stand beside ${lengths[0]}; both are the length of the run`);
  if (has("lora") && run.method !== "lora") add("lora", "is for method: lora");
  if (has("revert") && run.method === "lora") {
    add(
      "revert",
      "cannot stand beside method: lora, which leaves the base as it is; train fewer layers, or all weights",
    );
  }
  if (has("early_stopping") && !has("holdout")) add("early_stopping", "needs a holdout to measure the loss on");
  if (isMapping(run.holdout) && (run.holdout.samples === undefined) === (run.holdout.share === undefined)) {
    faults.push({ path: ["holdout"], message: "must have either samples or share" });
  }
  const names = Array.isArray(run.partition)
    ? run.partition.map((stream) => (isMapping(stream) ? stream.name : undefined))
    : [];
  names.forEach((name, i) => {
    const isRepeated = typeof name === "string" && names.indexOf(name) < i;
    if (isRepeated) faults.push({ path: ["partition", i, "name"], message: `is the name of another stream, ${name}` });
  });
  const isScaled = run.preset === "math" || run.preset === "language";
  const hasRate = isMapping(run.optimizer) && run.optimizer.lr !== undefined;
  if (!hasRate && !isScaled) faults.push({ path: ["optimizer", "lr"], message: "is missing; give it, or a preset" });
  return faults;
}

/** A run with some fields replaced, as flags do. @throws {RecipeError} with every value that is no YAML */
function withFields(run: unknown, fields: readonly FieldText[]): unknown {
  const faults: string[] = [];
  let changed = run;
  for (const [field, text] of fields) {
    try {
      changed = replaced(changed, field.split("."), parseYaml(text) as unknown);
    } catch {
      // YAML takes a pattern such as *.jsonl for an alias.
      if (field === "data" && /^[^{[]*$/.test(text)) {
        changed = replaced(changed, [field], text);
        continue;
      }
      faults.push(`${field}: ${JSON.stringify(text)} is not a value that can be read`);
    }
  }
  if (faults.length > 0) throw new RecipeError("These values cannot be read:", faults);
  return changed;
}

function replaced(run: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const mapping = isMapping(run) ? run : {};
  return { ...mapping, [key]: replaced(own(mapping, key), rest, value) };
}

/** A field of a run, for documentation and flags. */
export interface RunField {
  /** Such as `optimizer.lr`. */
  readonly field: string;
  /** As JSON Schema, to say in words what may stand there. */
  readonly schema: Readonly<Record<string, unknown>>;
  readonly required: boolean;
  /** As JSON; undefined where there is none. */
  readonly default?: unknown;
  readonly description: string;
}

/** The schema of run files, as JSON Schema (draft 2020-12). */
export function runJsonSchema(): Readonly<Record<string, unknown>> {
  const json = z.toJSONSchema(runSchema, { io: "input", reused: "inline", unrepresentable: "any" });
  return { title: "layergraft run", ...json };
}

/** All fields, those within `lora`, `optimizer` and so on by their path, in the order of the schema. */
export function runFields(): RunField[] {
  return fieldsOf(runJsonSchema(), "");
}

/** Mappings whose fields are listed one by one; data and partition have words of their own. */
function fieldsOf(json: Mapping, prefix: string): RunField[] {
  const required = new Set((json.required ?? []) as string[]);
  return Object.entries((json.properties ?? {}) as Record<string, Mapping>).flatMap(([name, field]) => {
    if (field.properties !== undefined) return fieldsOf(field, `${prefix}${name}.`);
    return {
      ...{ field: `${prefix}${name}`, schema: field, required: required.has(name) },
      ...(field.default === undefined ? {} : { default: field.default }),
      description: String(field.description ?? ""),
    };
  });
}

const FIELD_NAMES: readonly string[] = [
  ...Object.keys(runSchema.shape),
  ...runFields().map(({ field }) => field),
  ...Object.keys(mixtureFields.shape).map((field) => `data.${field}`),
  ...Object.keys(setFields.shape).map((field) => `data.sets[].${field}`),
  // Of a set's map, and of a stream.
  ...["prompt", "response", "messages"].map((field) => `map.${field}`),
  "partition[].name",
];
