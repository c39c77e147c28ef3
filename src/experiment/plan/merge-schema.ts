import { z } from "zod";
import { count, flag, formatLimit, MAX_CONFIGURATIONS, mapping, oneOf, text, whole } from "./plan-values.js";

type Grid = Readonly<Record<string, readonly unknown[]>>;

function combinationsOf(grid: Grid): number {
  return Object.values(grid).reduce((product, values) => product * values.length, 1);
}

const finite = z.number("must be a number");

/** More numbers than a model has layers are a mistake. */
const MAX_GRADIENT = 200;

const range = z
  .strictObject({
    from: finite.describe("least value"),
    to: finite.describe("greatest value"),
    whole: flag.optional().describe("whole numbers only (default: where the field takes no others)"),
    gradient: z
      .int("must be a whole number")
      .min(2, "must be at least 2")
      .max(MAX_GRADIENT, `must be at most ${MAX_GRADIENT}`)
      .optional()
      .describe("a gradient of this many numbers over the layers, instead of one number"),
  })
  .refine(({ from, to }) => from < to, { path: ["to"], error: "must be above from" })
  .refine(({ from, to, whole }) => !whole || (Number.isInteger(from) && Number.isInteger(to)), {
    path: ["whole"],
    error: "needs whole numbers for from and to",
  });

export const merge = z.strictObject({
  name: text
    .max(200, "must be at most 200 characters")
    // Not a pattern: editors that check plans may read it without Unicode's classes.
    .refine((name) => !/\p{Cc}/u.test(name), "must not contain line breaks or other control characters")
    .describe("name in tables"),
  recipe: mapping
    .optional()
    .describe(
      "recipe of any method, with names for its sources: an expert; a family or role, for each of its experts in turn (two families make all pairs); `all FAMILY` in a list, for all of them at once; another merge of one combination; `base`",
    ),
  from: text
    .optional()
    .describe(
      "expert or merge that `base` means in the recipe, such as what the experts started from (default: the plan's base)",
    ),
  suggest: z
    .strictObject({
      task: text.describe("task expert, or a family of task experts"),
      language: text.describe("language expert, or a family of language experts"),
    })
    .optional()
    .describe("take the configurations that an analysis of the two experts suggests; instead of `recipe`"),
  grid: z
    .record(z.string(), z.array(z.json()).min(1, "must list at least one value"))
    // Counted before any is made.
    .refine((grid) => combinationsOf(grid) <= MAX_CONFIGURATIONS, {
      error: ({ input }) =>
        `has ${formatLimit(combinationsOf(input as Grid))} combinations; the limit is ${formatLimit(MAX_CONFIGURATIONS)}. List fewer values, or split the merge`,
    })
    .default({})
    .describe("recipe fields with the values to try; all combinations are tried"),
  space: z
    .record(
      z.string(),
      z.union([z.array(z.json()).min(1, "must list at least one value"), range], {
        error: "must be a list of values, or { from, to }",
      }),
    )
    .optional()
    .describe(
      "recipe fields with a list or range of values, for search.how random, cma-es or halving; a name with dots is an inner field, such as `models.0.weight`",
    ),
  configurations: z
    .array(mapping)
    .max(MAX_CONFIGURATIONS, `must be at most ${formatLimit(MAX_CONFIGURATIONS)}`)
    .default([])
    .describe("more configurations to try; each lists the recipe fields that it sets"),
  default: mapping.optional().describe("configuration that is always reported, without a search"),
  pairs: z
    .union([z.literal("all"), z.array(z.array(text).min(1)).min(1)], {
      error: "must be all, or a list of lists of experts",
    })
    .default("all")
    .describe("combinations of experts to merge; each is a list of names"),
  figure: z
    .literal("line", "must be line")
    .optional()
    .describe(
      "line: evaluate every configuration on all reported items, without a search, and draw the scores over the grid's one field of numbers, with a line for each combination of the others",
    ),
});

export const CONTROLS = ["random", "reverse", "into-base", "from-base", "itself"] as const;
export type ControlKind = (typeof CONTROLS)[number];

const MAX_DRAWS = 100;

const controlKinds = z
  .array(oneOf(CONTROLS, `must be one of ${CONTROLS.join(", ")}`))
  .min(1, "must list at least one control");

const controlFields = z.strictObject({
  kinds: controlKinds
    .default([...CONTROLS])
    .describe(
      "random: as many layers, drawn at random; reverse: the experts exchanged; into-base: the base in place of the task expert; from-base: the base in place of the language expert; itself: the task expert with itself",
    ),
  of: z
    .array(text)
    .min(1, "must list at least one merge")
    .optional()
    .describe("names of the merges that get controls (default: every merge with method swap)"),
  draws: count
    .max(MAX_DRAWS, `must be at most ${MAX_DRAWS}`)
    .default(3)
    .describe("sets of layers to draw, each another one; their scores are averaged"),
  seed: whole.default(0).describe("random seed for drawing layers"),
});

export const controls = z
  .union([flag, controlKinds, controlFields], {
    error: "must be true, a list of controls, or { kinds, of, draws, seed }",
  })
  .transform((given) => {
    if (given === false) return undefined;
    return controlFields.parse(given === true ? {} : Array.isArray(given) ? { kinds: given } : given);
  });
