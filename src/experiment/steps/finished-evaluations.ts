// The finished evaluations in the folder of an experiment, read without opening its plan or models.
import { join } from "node:path";
import { z } from "zod";
import { kindOfMethod } from "../../evaluate/findings/index.js";
import type { ModelKind } from "../../figures/index.js";
import { exists, readBounded, readJsonObject } from "../../kit/files/index.js";
import { LayergraftError } from "../../kit/index.js";
import { EVALUATION } from "./run-evaluation.js";
import type { ModelName, ModelSource } from "./step.js";
import { STEP_FILES, withFolders } from "./step-state.js";

/** Evaluations that are read; more are left out. */
const MAX_READ = 2000;
/** Bytes of the list of steps. */
const MAX_BYTES = 10_000_000;

const source = z.union([z.string(), z.looseObject({ method: z.string() })]);
const order = z.object({
  step: z.object({
    kind: z.literal("evaluate"),
    of: z.object({ name: z.string(), entry: z.string(), configuration: z.string() }),
    model: source,
  }),
  folders: z.record(z.string(), z.string()),
});

export interface FinishedEvaluation {
  /** How the plan calls the model. */
  readonly of: Pick<ModelName, "name" | "entry" | "configuration">;
  readonly kind: ModelKind;
  /** With absolute folders. */
  readonly model: ModelSource;
  /** Folder of the step, and that of its results in it, which is one of `layergraft eval`. */
  readonly folder: string;
  readonly results: typeof EVALUATION;
}

/** A control's name ends in the merge that it is of. */
const CONTROL = /, control of /;

function kindOf({ of, model }: z.output<typeof order>["step"]): ModelKind {
  if (typeof model === "string") return of.entry === "base" ? "base" : "expert";
  return CONTROL.test(of.entry) ? "control" : kindOfMethod(model.method);
}

/** @param out folder of the experiment @returns those of its current steps, in their order; none if it was never run */
export async function finishedEvaluations(out: string): Promise<FinishedEvaluation[]> {
  const steps = join(out, "steps");
  const tooLarge = () => new LayergraftError("usage", "the list of steps is too large");
  const text = await readBounded(join(steps, "index.txt"), MAX_BYTES, tooLarge).then(String, () => "");
  const keys = text.split("\n").flatMap((line) => line.match(/^evaluate-\w+(?= )/)?.[0] ?? []);
  const found = await Promise.all(
    keys.slice(0, MAX_READ).map(async (key): Promise<FinishedEvaluation[]> => {
      const folder = join(steps, key);
      if (!(await exists(join(folder, "result.json")))) return [];
      const { data } = order.safeParse(await readJsonObject(join(folder, STEP_FILES.order)).catch(() => undefined));
      if (!data) return [];
      const { step, folders } = data;
      return [
        { of: step.of, kind: kindOf(step), model: withFolders(step.model, folders), folder, results: EVALUATION },
      ];
    }),
  );
  return found.flat();
}
