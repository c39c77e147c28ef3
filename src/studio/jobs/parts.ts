// What an experiment runs at the moment, from its events.
import type { ExperimentProgress } from "../../api/index.js";
import { clip } from "../experiments/summary.js";
import type { Progress } from "../protocol/index.js";

type Part = NonNullable<Progress["parts"]>[number];

const MAX_PARTS = 64;
/** Milliseconds between reports of the same steps. */
const PAUSE = 200;

export class PartsInParallel {
  readonly #parts = new Map<string, Part>();
  #last = 0;

  /** @returns whether to report it now */
  update(event: NonNullable<ExperimentProgress["event"]>): boolean {
    const label = clip(event.label);
    if (event.event === "started") this.#parts.set(event.key, { label, share: 0, what: "" });
    else if (event.event === "progress") {
      this.#parts.set(event.key, { label, share: event.share, what: clip(event.what) });
    } else this.#parts.delete(event.key);
    const now = performance.now();
    if (event.event === "progress" && now - this.#last < PAUSE) return false;
    this.#last = now;
    return true;
  }

  list(): Part[] {
    return [...this.#parts.values()].slice(0, MAX_PARTS);
  }
}
