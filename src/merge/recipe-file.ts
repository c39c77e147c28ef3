// Reading recipes: from YAML or JSON text, or from a value of the library; all faults at once, with lines where there
// are lines.
import { readFile, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { isNode, LineCounter, parseDocument } from "yaml";
import type { z } from "zod";
import { isSystemError, RecipeError } from "../core/errors.js";
import { closest } from "../core/format.js";
import { METHODS } from "./methods/index.js";
import { findMethod, mapSources, outputFields, type Recipe, sourcesOf } from "./recipe.js";

// A recipe of a page is 3 kB; this keeps a wrong argument, such as a weight file, from being read whole.
const MAX_RECIPE_BYTES = 5_000_000;

/** A recipe and the folder that its relative paths start from. */
export interface LocatedRecipe {
  readonly recipe: Recipe;
  readonly folder: string;
  /** The line of the file on which a field stands, such as `models[1].weight`, or the closest that does. */
  readonly lineOf: (field: string) => number | undefined;
}

/**
 * Reads a recipe from a YAML (or JSON) file.
 * @throws {RecipeError} with every fault and its line
 */
export async function readRecipe(file: string): Promise<LocatedRecipe> {
  let text: string;
  try {
    const { size } = await stat(file);
    if (size > MAX_RECIPE_BYTES) throw new RecipeError(`${file} is too large to be a recipe`, [], { file });
    text = await readFile(file, "utf8");
  } catch (error) {
    if (isSystemError(error, "ENOENT")) throw new RecipeError(`${file} does not exist`, [], { file });
    if (isSystemError(error, "EISDIR")) throw new RecipeError(`${file} is a folder; give a recipe file`, [], { file });
    throw error;
  }
  const recipe = parseRecipe(text, file);
  return { recipe, folder: dirname(file), lineOf: (field) => lineOfField(text, field) };
}

/** Parses the text of a recipe; `file` is for messages. */
export function parseRecipe(text: string, file = "recipe"): Recipe {
  try {
    return parseText(text, file);
  } catch (error) {
    // What the parsers throw when they refuse aliases of aliases, or when nesting exhausts the stack.
    if (!(error instanceof ReferenceError || error instanceof RangeError)) throw error;
    throw new RecipeError(
      `${file} nests too deep, or has an alias within itself or too many; write it out plainly`,
      [],
      {
        file,
      },
    );
  }
}

function lineOfField(text: string, field: string): number | undefined {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const path = field.match(/[^.[\]]+/g)?.map((key) => (/^\d+$/.test(key) ? Number(key) : key)) ?? [];
  for (let depth = path.length; depth > 0; depth--) {
    const node = document.getIn(path.slice(0, depth), true);
    if (isNode(node) && node.range) return lines.linePos(node.range[0]).line;
  }
  return undefined;
}

function parseText(text: string, file: string): Recipe {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const lineAt = (offset: number) => lines.linePos(offset).line;
  if (document.errors.length > 0) {
    const faults = document.errors.map((error) => `line ${lineAt(error.pos[0])}: ${error.message}`);
    throw new RecipeError(`${file} is not valid YAML:`, faults, { file });
  }
  const { recipe, faults: found } = validate(document.toJS({ maxAliasCount: 100 }), file);
  if (recipe) return recipe;
  const faults = found.map(({ path, message, at = path }) => {
    // The closest part of the file that exists; a missing field is reported at the mapping that lacks it.
    for (let depth = at.length; depth >= 0; depth--) {
      const node = depth === 0 ? document.contents : document.getIn(at.slice(0, depth), true);
      if (isNode(node) && node.range) return `line ${lineAt(node.range[0])}: ${formatPath(path)}${message}`;
    }
    return `${formatPath(path)}${message}`;
  });
  throw new RecipeError(`${file} is not a valid recipe:`, faults, { file });
}

/** Checks a recipe given as a value. */
export function checkRecipe(value: unknown): Recipe {
  const { recipe, faults } = validate(value, "the recipe");
  if (recipe) return recipe;
  throw new RecipeError(
    "This is not a valid recipe:",
    faults.map(({ path, message }) => `${formatPath(path)}${message}`),
  );
}

/** Each recipe within another takes up to three levels. */
const MAX_DEPTH = 60;

function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1));
}

function validate(value: unknown, name: string): { recipe?: Recipe; faults: readonly Fault[] } {
  // What contains itself has no depth; nobody writes a recipe that would fill a stack.
  if (isDeeperThan(value, MAX_DEPTH)) throw new RecipeError(`${name} nests too deep, or contains itself`);
  const faults: Fault[] = [];
  const recipe = check(value, [], faults);
  return faults.length > 0 ? { faults } : { recipe: recipe as Recipe, faults };
}

/** Checks a recipe by its method's schema, then the recipes within it; adds to `faults`. */
function check(value: unknown, path: readonly PropertyKey[], faults: Fault[]): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    faults.push({ path, message: "must be a recipe: a mapping with a method and its sources" });
    return value;
  }
  const name = "method" in value ? value.method : undefined;
  const method = typeof name === "string" ? findMethod(name) : undefined;
  if (!method) {
    faults.push({ path: [...path, "method"], message: unknownMethod(name) });
    return value;
  }
  const schema = path.length === 0 ? method.schema.extend(outputFields) : method.schema;
  const parsed = schema.safeParse(value, { reportInput: true });
  if (!parsed.success) faults.push(...flattenIssues(parsed.error.issues, path).map((fault) => withHint(fault, schema)));
  // Of a recipe with faults too, the ones within it are looked at, so that all faults come at once.
  const checked: object = parsed.success ? parsed.data : value;
  const places = new Map(sourcesOf(checked).map(([label, , at]) => [label, at]));
  return mapSources(checked, (source, label) =>
    typeof source === "object" && source !== null && "method" in source
      ? check(source, [...path, ...(places.get(label) ?? [])], faults)
      : source,
  );
}

/** Names of fields within fields, as of an entry of a list or of a rule. */
const INNER_FIELDS = ["model", "weight", "density", "gamma", "epsilon", "scale", "layers", "parts", "tensors", "value"];

/** Names the field that a misspelt one was meant to be. */
function withHint(fault: Fault, schema: z.ZodObject): Fault {
  const unknown = /^unknown field "(.*)"$/.exec(fault.message)?.[1];
  const meant = unknown && closest(unknown, [...Object.keys(schema.shape), ...INNER_FIELDS, "gradient", "outside"]);
  return meant ? { ...fault, message: `${fault.message}; did you mean ${meant}?` } : fault;
}

function unknownMethod(name: unknown): string {
  const known = METHODS.map((method) => method.name as string);
  const meant = typeof name === "string" ? closest(name, known) : undefined;
  return `must be one of ${known.join(", ")}${meant === undefined ? "" : `; did you mean ${meant}?`}`;
}

interface Fault {
  readonly path: readonly PropertyKey[];
  /** Where it stands, if that is not the path that the message begins with. */
  readonly at?: readonly PropertyKey[];
  readonly message: string;
}

/**
 * Issues as a person wants them: within a union, those of the variant that was meant, which is the one with the
 * deepest complaint.
 */
function flattenIssues(issues: readonly z.core.$ZodIssue[], base: readonly PropertyKey[] = []): Fault[] {
  return issues.flatMap((issue): Fault[] => {
    const path = [...base, ...issue.path];
    const isMissing = issue.input === undefined && (issue.code === "invalid_type" || issue.code === "invalid_union");
    // A recipe without a method lacks it, but which methods there are says more.
    if (isMissing || (issue.code === "custom" && issue.input === undefined)) return [{ path, message: "is missing" }];
    if (issue.code === "invalid_union" && issue.errors.length > 0) {
      const variants = issue.errors.map((variant) => flattenIssues(variant, path));
      const depth = (faults: Fault[]) => Math.max(...faults.map((fault) => fault.path.length));
      const deepest = variants.toSorted((a, b) => depth(b) - depth(a))[0];
      if (deepest && depth(deepest) > path.length) return deepest;
      // A mapping with an unknown field complains at its own level, and still says more than the union does.
      const precise = variants.find((faults) => faults.every((fault) => fault.message.startsWith("unknown field")));
      return precise ?? [{ path, message: issue.message }];
    }
    if (issue.code === "unrecognized_keys") {
      return issue.keys.map((key) => ({
        path,
        at: [...path, key],
        message: `unknown field ${JSON.stringify(key)}`,
      }));
    }
    return [{ path, message: issue.message.replace(/^(Invalid (input|option)|Too (small|big)): /, "") }];
  });
}

function formatPath(path: readonly PropertyKey[]): string {
  if (path.length === 0) return "";
  const text = path.map((key, i) => (typeof key === "number" ? `[${key}]` : `${i ? "." : ""}${String(key)}`)).join("");
  return `${text}: `;
}
