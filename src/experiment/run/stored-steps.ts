// The steps of an experiment as far as the results on the disk say them: expanded once, and again only where there are more results.
import { type Expanded, expandVariants, type PlannedVariant } from "../expand/expand-variants.js";
import type { Facts } from "../expand/facts.js";
import type { Step } from "../steps/step.js";
import { Store } from "./store.js";

export class StoredSteps<V extends PlannedVariant = PlannedVariant> {
  readonly facts: Facts;
  readonly store: Store;
  readonly #variants: readonly V[];
  #expanded: Expanded<V> | undefined;
  /** Results that were known when the variants were expanded. */
  #known = 0;

  /** @param out folder of the experiment */
  constructor(variants: readonly V[], facts: Facts, out: string) {
    this.#variants = variants;
    this.facts = facts;
    this.store = new Store(out);
  }

  /** Whether no result was read since `read`. */
  get isCurrent(): boolean {
    return this.#expanded !== undefined && this.#known === this.store.size;
  }

  /**
   * Reads the results that are new, and what follows from them.
   * @param running steps whose results are read when they end
   */
  async read(running: ReadonlyMap<string, Step> = new Map()): Promise<Expanded<V>> {
    // Each result may lead to more steps: those of the last run are known before the first expansion.
    if (!this.#expanded) await this.store.loadIndexed();
    for (;;) {
      const expanded = this.#expand();
      for (const { key } of expanded.expansion.steps) {
        if (!this.store.result(key) && !running.has(key)) await this.store.load(key);
      }
      if (this.isCurrent) return expanded;
    }
  }

  #expand(): Expanded<V> {
    if (this.#expanded && this.isCurrent) return this.#expanded;
    this.#known = this.store.size;
    this.#expanded = expandVariants(this.#variants, this.facts, this.store);
    return this.#expanded;
  }
}
