// How commands that are no verbs open a model.

import type { Engine } from "../../engine/index.js";
import { Model, type OpenModelOptions, openModel } from "../../verbs/index.js";
import { factsOf } from "../../verbs/shared/index.js";
import { hubAccess } from "./hub-access.js";
import { type CommonOptions, elapsed, info, interruptSignal, runWithProgress } from "./output.js";

/** Opens a model, runs some work with it, closes it; Ctrl-C aborts the signal. */
export async function withEngine<T>(
  source: string,
  flags: CommonOptions,
  options: OpenModelOptions,
  work: (engine: Engine, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const start = performance.now();
  const signal = interruptSignal("this pass");
  let computed = 0;
  const model = await runWithProgress(flags, ({ onProgress }) =>
    openModel(source, {
      ...options,
      signal,
      hub: hubAccess("files", { signal, onProgress }),
      onProgress(progress) {
        computed = progress.total;
        onProgress?.(progress);
      },
    }),
  );
  try {
    for (const note of model.notes) info(flags, `note: ${note}`);
    const facts = [model.family, ...factsOf(model, computed)].join(", ");
    info(flags, `${model.name}: ${facts}, ready in ${elapsed(start)}`);
    return await work(Model.engineOf(model), signal);
  } finally {
    await model.close();
  }
}
