// Plans, and what verbs of experiments take, as code writes them: the fields, as the schemas infer them. A build adds what each field
// means (types.js).
import type { z } from "zod";
import type { AsWritten } from "../kit/settings/index.js";
import type { tuneSchema } from "./plan/tune-plan.js";

export type { ExperimentInput as PlanInput } from "./plan/plan-schema.js";

/** What `tune` takes. */
export type TuneInput = AsWritten<z.input<typeof tuneSchema>>;
