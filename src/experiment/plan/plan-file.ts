// Reads a plan and reports all its problems at once, with their lines. Opens no model and no data.
import { dirname } from "node:path";
import { exists, isFile } from "../../kit/files/index.js";
import { RecipeError } from "../../kit/index.js";
import {
  checkSettings,
  formatProblem,
  openSettings,
  type Problem,
  parseSettings,
  readSettingsText,
  requireKind,
  type SettingsKind,
} from "../../kit/settings/index.js";
import { checkVariants, type Variant } from "./matrix.js";
import type { ExperimentInput, ExperimentPlan } from "./plan-schema.js";
import { settle } from "./settle.js";

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
export async function readPlan(file: string): Promise<Omit<InspectedPlan, "problems">> {
  const { problems, ...located } = await inspectPlan(file);
  if (problems.flat().length === 0) return located;
  throw new RecipeError(`${file} is not a valid plan:`, located.inLines(problems), { file });
}

/**
 * Reads a plan together with its problems, so that the models and data it names can be checked too.
 * @param source a file, or a plan whose relative paths start from the working folder
 * @throws RecipeError if it breaks the schema, with every problem; if a value has any problem
 */
export async function inspectPlan(source: string | ExperimentInput): Promise<InspectedPlan> {
  if (typeof source !== "string") {
    const variants = checkSettings(source, KIND);
    const inLines: InspectedPlan["inLines"] = (problems) =>
      checkVariants(source, settle).locate(problems).map(formatProblem);
    return { ...whole(variants), problems: [], file: "the plan", folder: ".", inLines };
  }
  if ((await exists(source)) && !(await isFile(source))) {
    const message = `${source} is not a regular file. Save the plan as a file, because every resume reads it again.`;
    throw RecipeError.at({ file: source }, message);
  }
  const { value, inLines } = openSettings(await readSettingsText(source, "plan"), source);
  const { variants, problems, locate } = checkVariants(value, settle);
  const located: InspectedPlan["inLines"] = (all) => inLines(locate(all));
  if (!variants) {
    requireKind(value, source, "plan");
    throw new RecipeError(`${source} is not a valid plan:`, located(problems), { file: source });
  }
  return { ...whole(variants), problems, file: source, folder: dirname(source), inLines: located };
}

function whole(variants: readonly Variant[]): Pick<InspectedPlan, "plan" | "variants"> {
  return { plan: (variants[0] as Variant).plan, variants };
}

/** Parses the text of a plan; `file` is for messages. @throws RecipeError with every problem and its line */
export function parsePlan(text: string, file = "plan"): ExperimentPlan {
  return whole(parseVariants(text, file)).plan;
}

/** Parses the text of a plan to its variants. @throws RecipeError with every problem and its line */
export function parseVariants(text: string, file = "plan"): readonly Variant[] {
  return parseSettings(text, file, KIND);
}

const KIND: SettingsKind<readonly Variant[]> = {
  kind: "plan",
  check: (value) => {
    const { variants, problems, locate } = checkVariants(value, settle);
    const located = locate(problems);
    return variants && located.length === 0 ? { value: variants, problems: [] } : { problems: located };
  },
};
