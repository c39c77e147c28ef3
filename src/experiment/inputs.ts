// Plans as code writes them: the fields of the file, as the schema infers them. A build adds what each field means (types.js).
export type { ExperimentInput as PlanInput } from "./plan/plan-schema.js";
