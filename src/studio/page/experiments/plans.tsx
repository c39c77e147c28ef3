import type { PlanEntry } from "../../protocol/index.ts";
import * as store from "./experiment-store.ts";

export function Plans({ plans }: { plans: readonly PlanEntry[] }) {
  return (
    <nav class="plans" aria-label="Experiments of the project">
      {plans.map((entry) => {
        const isShown = entry.plan === store.shown.value;
        return (
          <button
            type="button"
            key={entry.plan}
            aria-current={isShown ? "true" : undefined}
            onClick={() => store.choose(entry.plan)}
          >
            <span class="name">{entry.name}</span>
            <span class="about">{stateOf(entry)}</span>
          </button>
        );
      })}
    </nav>
  );
}

function stateOf({ problem, runner, steps }: PlanEntry): string {
  if (problem !== null) return "Cannot be read";
  if (runner) return runner.isStudio ? "Running here" : `Running in process ${runner.pid}`;
  if (steps === null) return "Not begun";
  return steps.done >= steps.known ? "Done" : `${steps.done} of ${steps.known} known steps done`;
}
