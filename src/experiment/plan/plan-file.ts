// Reads a plan and reports all its problems at once, with their lines. Opens no model and no data.
import { dirname } from "node:path";
import { RecipeError } from "../../kit/index.js";
import {
  checkedIn,
  checkSettings,
  formatProblem,
  openSettings,
  type Problem,
  readSettingsText,
  type SettingsKind,
} from "../../kit/settings/index.js";
import { type SettledVariants, settleVariants, type Variant } from "./matrix.js";
import type { ExperimentInput, ExperimentPlan } from "./plan-schema.js";

/** A plan that fits its schema, with what is wrong across its fields. It must not run while there are problems. */
export interface InspectedPlan {
  /** The plan; with a matrix, that of the first variant. */
  readonly plan: ExperimentPlan;
  /** The plan of each combination of the matrix's values; without a matrix, the plan alone. */
  readonly variants: readonly Variant[];
  readonly problems: readonly (readonly Problem[])[];
  /** Path of the plan, for messages. */
  readonly file: string;
  /** Folder that relative paths start from. */
  readonly folder: string;
  /** Formats the problems of each variant where they are written, with their lines in the file, each once. */
  readonly inLines: (problems: readonly (readonly Problem[])[]) => readonly string[];
}

/**
 * Reads a plan from a file.
 * @throws RecipeError with every problem and its line
 */
export async function readPlan(file: string): Promise<InspectedPlan> {
  return valid(await inspectPlan(file));
}

/**
 * Reads a plan together with its problems, so that the models and data it names can be checked too.
 * @param source a file, or a plan whose relative paths start from the working folder
 * @throws RecipeError if it breaks the schema, with every problem; if a value has any problem
 */
export async function inspectPlan(source: string | ExperimentInput): Promise<InspectedPlan> {
  if (typeof source !== "string") {
    const where = { file: "the plan", folder: ".", format: (found: readonly Problem[]) => found.map(formatProblem) };
    return valid(inspected(checkSettings(source, KIND), where), "This is not a valid plan:");
  }
  return inspectText(await readSettingsText(source, "plan"), source);
}

/** Parses the text of a plan; `file` is for messages. @throws RecipeError with every problem and its line */
export function parsePlan(text: string, file = "plan"): ExperimentPlan {
  return valid(inspectText(text, file)).plan;
}

/** Parses the text of a plan to its variants. @throws RecipeError with every problem and its line */
export function parseVariants(text: string, file = "plan"): readonly Variant[] {
  return valid(inspectText(text, file)).variants;
}

function inspectText(text: string, file: string): InspectedPlan {
  const document = openSettings(text, file);
  return inspected(checkedIn(document, file, KIND), { file, folder: dirname(file), format: document.inLines });
}

type Settled = Required<SettledVariants>;

/** Plans that fit their schema, whatever is wrong across their fields. */
const KIND: SettingsKind<Settled> = {
  kind: "plan",
  check: (value) => {
    const { variants, problems, locate } = settleVariants(value);
    return variants ? { value: { variants, problems, locate }, problems: [] } : { problems: locate(problems) };
  },
};

function inspected(
  { variants, problems, locate }: Settled,
  {
    format,
    ...where
  }: Pick<InspectedPlan, "file" | "folder"> & { format: (found: readonly Problem[]) => readonly string[] },
): InspectedPlan {
  const { plan } = variants[0] as Variant;
  return { plan, variants, problems, ...where, inLines: (found) => format(locate(found)) };
}

function valid(one: InspectedPlan, summary = `${one.file} is not a valid plan:`): InspectedPlan {
  if (one.problems.flat().length === 0) return one;
  throw new RecipeError(summary, one.inLines(one.problems), { file: one.file });
}
