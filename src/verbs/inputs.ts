// Recipes, runs and what verbs take, as code writes them: the fields of the files, as the schemas infer them. A build adds what each
// field means (types.js).
import type { z } from "zod";
import type { AsWritten } from "../kit/settings/index.js";
import type { RecipeInput } from "../merge/index.js";
import type { analyzeSchema } from "./analyze.js";
import type { compareSchema } from "./compare.js";
import type { diffSchema } from "./diff.js";
import type { evalSchema } from "./evaluate.js";
import type { exportSchema } from "./export.js";
import type { extractSchema } from "./extract.js";
import type { generateSchema } from "./generate.js";
import type { inspectSchema } from "./inspect.js";
import type { measureSchema } from "./measure.js";
import type { mergeSchema } from "./merge.js";
import type { neuronsSchema } from "./neurons.js";
import type { pushSchema } from "./push.js";
import type { scoreSchema } from "./score.js";
import type { suggestSchema } from "./suggest.js";
import type { verifySchema } from "./verify.js";

export type { RecipeInput, SourceRecipe as Source } from "../merge/index.js";
export type { RunInput } from "../train/index.js";

/** The recipe of one method, such as `RecipeOf<"ties">`. */
export type RecipeOf<Method extends RecipeInput["method"]> = Extract<RecipeInput, { readonly method: Method }>;

/** What `extract` takes. */
export type ExtractInput = AsWritten<z.input<typeof extractSchema>>;

/** What `analyze` takes. */
export type AnalyzeInput = AsWritten<z.input<typeof analyzeSchema>>;

/** What `suggest` takes. */
export type SuggestInput = AsWritten<z.input<typeof suggestSchema>>;

/** What `measure` takes. */
export type MeasureInput = AsWritten<z.input<typeof measureSchema>>;

/** What `neurons` takes. */
export type NeuronsInput = AsWritten<z.input<typeof neuronsSchema>>;

/** What `verify` takes. */
export type VerifyInput = AsWritten<z.input<typeof verifySchema>>;
/** What `exportModel` takes. */
export type ExportInput = AsWritten<z.input<typeof exportSchema>>;

/** What `inspect` takes. */
export type InspectInput = AsWritten<z.input<typeof inspectSchema>>;

/** What `diff` takes. */
export type DiffInput = AsWritten<z.input<typeof diffSchema>>;

/** What `push` takes. */
export type PushInput = AsWritten<z.input<typeof pushSchema>>;

/** What `generate` takes. */
export type GenerateInput = AsWritten<z.input<typeof generateSchema>>;

/** What `score` takes. */
export type ScoreInput = AsWritten<z.input<typeof scoreSchema>>;
/** What `eval` takes. */
export type EvalInput = AsWritten<z.input<typeof evalSchema>>;

/** What `compare` takes. */
export type CompareInput = AsWritten<z.input<typeof compareSchema>>;

/** What `merge` takes. */
export type MergeInput = AsWritten<z.input<typeof mergeSchema>>;

/** How the result of a merge is written. */
type WriteInput = Omit<MergeInput, "recipe" | "seed" | "allowCode" | "asMergekit">;
/** What a verb of one method takes. */
type MethodInput<Method extends RecipeInput["method"]> = Omit<RecipeOf<Method>, "method" | keyof WriteInput> &
  WriteInput;

/** What `swap` takes. */
export type SwapInput = MethodInput<"swap">;

/** What `soup` takes. */
export type SoupInput = MethodInput<"soup">;

/** What `revert` takes. */
export type RevertInput = MethodInput<"revert">;

/** What `transplant` takes. */
export type TransplantInput = MethodInput<"transplant">;
