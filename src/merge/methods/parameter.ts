// Recipe parameters that may differ by layer, part or tensor, and their value for each tensor.

import { z } from "zod";
import { blockOf, compareParts, type Part } from "../../formats/checkpoint/index.js";
import { RecipeError } from "../../kit/index.js";
import { closest, formatSome } from "../../kit/printing/index.js";
import { layersField, parseLayers } from "./layers.js";
import { layersOf, type Operand } from "./operand.js";

const number = z.number();

const gradient = z
  .strictObject({
    gradient: z
      .array(number)
      .min(1, "must have at least one number")
      .describe("values from the input to the output, at least one"),
    outside: number.optional().describe("value outside the layers; default the first of `gradient`"),
  })
  .meta({ title: "gradient", description: "Values at evenly spaced layers, interpolated linearly in between" });

const perLayer = z.array(number).min(1, "must have one number per layer");

const simple = z.union([number, perLayer, gradient], {
  error: "must be a number, a list of one number per layer, or { gradient: [...] }",
});

const rule = z
  .strictObject({
    layers: layersField.optional().describe("layers it holds for; default all"),
    parts: z
      .union([z.string(), z.array(z.string()).min(1)])
      .optional()
      .describe("parts it holds for, such as `attention`, `mlp` or `q_proj`; default all"),
    tensors: z.string().optional().describe("pattern of tensor names it holds for, with `*` for any text; default all"),
    value: simple.describe("the value"),
  })
  .meta({
    title: "rule",
    description: "A value for some tensors, which match all of `layers`, `parts` and `tensors` that are given",
  });

/** A number, one per layer, a gradient over the layers, or rules, where the first match wins. */
export const parameterField = z
  .union([number, perLayer, gradient, z.array(rule).min(1), rule], {
    error:
      "must be a number, a list of one number per layer, { gradient: [...] }, or a list of rules such as { parts: mlp, value: 0.5 }",
  })
  .meta({ title: "parameter" });

export type Parameter = z.output<typeof parameterField>;

/** A number between bounds wherever it is written. */
export function boundedParameter(low: number, high: number): typeof parameterField {
  return parameterField.refine((parameter) => numbersIn(parameter).every((x) => x >= low && x <= high), {
    error: `must be from ${low} to ${high}`,
  });
}

/** `true` or `false`, or a parameter whose numbers other than 0 are true. */
export const switchField = z.union([z.boolean(), parameterField], {
  error: "must be true or false, or a parameter that is 0 where it is false",
});

export type Switch = z.output<typeof switchField>;

/** All numbers in a parameter; a gradient's values stay between its numbers. */
export function numbersIn(parameter: Parameter): number[] {
  if (typeof parameter === "number") return [parameter];
  if (Array.isArray(parameter)) {
    return parameter.flatMap((entry) => (typeof entry === "number" ? [entry] : numbersIn(entry.value)));
  }
  if ("value" in parameter) return numbersIn(parameter.value);
  return [...parameter.gradient, ...(parameter.outside === undefined ? [] : [parameter.outside])];
}

/** Value of a parameter by tensor name. */
export type Resolved = (tensor: string) => number;

/**
 * Resolves a parameter for the tensors of a model.
 * @param field its path in the recipe, for errors
 * @param fallback value if the parameter is missing or no rule matches
 * @throws RecipeError if a list does not have one number per layer, or a rule matches no tensor
 */
export function resolveParameter(
  parameter: Parameter | undefined,
  fallback: number,
  field: string,
  operand: Operand,
  between = interpolate,
): Resolved {
  if (parameter === undefined) return () => fallback;
  if (typeof parameter === "number") return () => parameter;
  // A rule alone is a list of one.
  if (typeof parameter === "object" && "value" in parameter) {
    return resolveParameter([parameter], fallback, field, operand, between);
  }
  if (!Array.isArray(parameter) || typeof parameter[0] === "number") {
    const at = spread(parameter as z.output<typeof simple>, field, operand, between);
    return (tensor) => at(operand.tensors.get(tensor)?.layer ?? null);
  }
  const left = new Set(operand.tensors.keys());
  const rules = (parameter as readonly z.output<typeof rule>[]).map((one, i) => {
    const fits = matcher(one, `${field}[${i}]`, operand);
    const own = [...left].filter(fits);
    if (own.length === 0 && !operand.isPart) {
      throw RecipeError.at(
        { field: `${field}[${i}]` },
        `${field}[${i}] never applies: the rules before it match all of its tensors. Move it before them.`,
      );
    }
    for (const tensor of own) left.delete(tensor);
    return { fits, at: spread(one.value, `${field}[${i}].value`, operand, between) };
  });
  return (tensor) => {
    const found = rules.find(({ fits }) => fits(tensor));
    return found ? found.at(operand.tensors.get(tensor)?.layer ?? null) : fallback;
  };
}

/** Resolves a switch as `resolveParameter` does; a gradient keeps each of its numbers until the next one. */
export function resolveSwitch(written: Switch, fallback: boolean, field: string, operand: Operand) {
  if (typeof written === "boolean") return () => written;
  const at = resolveParameter(written, Number(fallback), field, operand, (anchors, position) => {
    return anchors[Math.floor(position * (anchors.length - 1))] ?? 0;
  });
  return (tensor: string) => at(tensor) !== 0;
}

function spread(
  parameter: z.output<typeof simple>,
  field: string,
  operand: Operand,
  between: typeof interpolate,
): (layer: number | null) => number {
  if (typeof parameter === "number") return () => parameter;
  const layers = layersOf(operand);
  if (!Array.isArray(parameter)) {
    const { gradient: anchors, outside = anchors[0] ?? 0 } = parameter;
    return (layer) => (layer === null ? outside : between(anchors, layers > 1 ? layer / (layers - 1) : 0));
  }
  if (parameter.length !== layers) {
    throw RecipeError.at(
      { field, expected: `${layers} numbers`, actual: `${parameter.length} numbers` },
      `${field} has ${parameter.length} numbers, but the model has ${layers} layers; give one per layer, or { gradient: [...] } to spread them`,
    );
  }
  // Tensors outside the layers get the first layer's number, as in other merging tools.
  return (layer) => parameter[layer ?? 0] ?? 0;
}

/** Interpolates linearly between evenly spaced numbers at a position from 0 to 1. */
export function interpolate(anchors: readonly number[], position: number): number {
  const at = position * (anchors.length - 1);
  const below = Math.min(Math.floor(at), anchors.length - 1);
  const above = Math.min(below + 1, anchors.length - 1);
  const low = anchors[below] ?? 0;
  return low + (at - below) * ((anchors[above] ?? 0) - low);
}

export interface Selection {
  readonly layers?: z.output<typeof layersField> | undefined;
  readonly parts?: string | readonly string[] | undefined;
  /** Tensor name pattern; * matches anything. */
  readonly tensors?: string | undefined;
}

/**
 * Makes a test for tensors of the given layers, parts and name.
 * @throws RecipeError if no tensor matches
 */
export function matcher(selection: Selection, field: string, operand: Operand): (tensor: string) => boolean {
  const { layers, parts, tensors } = selection;
  const within = (name: string) => (field === "" ? name : `${field}.${name}`);
  const chosen = layers === undefined ? undefined : parseLayers(layers, layersOf(operand), within("layers"));
  const names = parts === undefined ? undefined : typeof parts === "string" ? [parts] : parts;
  if (names) requireParts(names, within("parts"), operand);
  const fits = (tensor: string): boolean => {
    const place = operand.tensors.get(tensor);
    if (!place) return false;
    if (chosen && (place.layer === null || !chosen.has(place.layer))) return false;
    if (names && !names.some((name) => isOfPart(place, name))) return false;
    return tensors === undefined || matchesPattern(tensor, tensors);
  };
  if (!operand.isPart && ![...operand.tensors.keys()].some(fits)) {
    const example = formatSome([...operand.tensors.keys()].slice(-3));
    const written = tensors === undefined ? "" : ` (${tensors})`;
    throw RecipeError.at(
      { field },
      `${field || "the choice"}${written} matches no tensor of the model, which has such as ${example}`,
    );
  }
  return fits;
}

/** `attention`, `mlp`, `outside`, or the name of a part such as `q_proj`. */
export function isOfPart(
  { layer, part }: { readonly layer: number | null; readonly part: Part },
  name: string,
): boolean {
  if (name === "outside") return layer === null;
  if (name === "attention" || name === "mlp") return layer !== null && blockOf(part) === name;
  return part === name;
}

/** @throws RecipeError if the model has no such part, or tensors of which it is unclear whether they belong to a half */
export function requireParts(names: readonly string[], field: string, operand: Operand): void {
  const halves = names.filter((name) => name === "attention" || name === "mlp");
  const unclear = [...operand.tensors].filter(([name, { layer, part, shape }]) => {
    return layer !== null && part === "other" && (shape.length > 1 || /norm/i.test(name));
  });
  if (halves.length > 0 && unclear.length > 0) {
    throw RecipeError.at(
      { field, tensor: unclear[0]?.[0] ?? "" },
      `${field}: ${halves.join(", ")} is unclear in this family, as ${formatSome(unclear.map(([name]) => name))} may belong to either half. Name parts such as q_proj, or tensors, instead.`,
    );
  }
  const places = [...operand.tensors.values()];
  const missing = names.filter((name) => !places.some((place) => isOfPart(place, name)));
  if (missing.length === 0 || operand.isPart) return;
  const known = [...new Set(places.map(({ part }) => part))].sort(compareParts);
  const [meant] = missing.flatMap((name) => closest(name, [...known, "attention", "outside"]) ?? []);
  throw RecipeError.at(
    { field },
    `${field}: the model has no part ${formatSome(missing)}${meant === undefined ? "" : `, did you mean ${meant}?`}; it has attention, mlp, outside, ${known.join(", ")}`,
  );
}

/** Whether a name matches a pattern with * wildcards, in linear time. */
export function matchesPattern(name: string, pattern: string): boolean {
  const [head = "", ...rest] = pattern.split("*");
  if (rest.length === 0) return name === pattern;
  const tail = rest.pop() ?? "";
  if (!name.startsWith(head) || !name.endsWith(tail) || name.length < head.length + tail.length) return false;
  let at = head.length;
  for (const piece of rest) {
    const found = name.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return at <= name.length - tail.length;
}
