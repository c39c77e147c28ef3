// Undo and redo of a text: the texts before it, and after it where changes were undone.
import { computed, signal } from "@preact/signals";

const MOST = 200;

interface Texts {
  /** The latest last. */
  readonly before: readonly string[];
  /** The next last. */
  readonly after: readonly string[];
}

const NONE: Texts = { before: [], after: [] };

export class Undo {
  readonly #texts = signal(NONE);
  #typed = Number.NEGATIVE_INFINITY;
  /** Milliseconds. */
  readonly #together: number;
  readonly canUndo = computed(() => this.#texts.value.before.length > 0);
  readonly canRedo = computed(() => this.#texts.value.after.length > 0);

  /** @param together typed changes with no more milliseconds in between are undone together */
  constructor(together: number) {
    this.#together = together;
  }

  /** Takes the text before a change. @param typed the time in milliseconds, where it was typed */
  changed(before: string, typed?: number): void {
    const isContinued = typed !== undefined && typed - this.#typed < this.#together;
    this.#typed = typed ?? Number.NEGATIVE_INFINITY;
    const texts = this.#texts.peek().before;
    this.#texts.value = { before: isContinued ? texts : [...texts, before].slice(-MOST), after: [] };
  }

  /** @returns the text before the last change, or undefined if there is none */
  undo(present: string): string | undefined {
    const { before, after } = this.#texts.peek();
    return this.#go(before, { before: before.slice(0, -1), after: [...after, present] });
  }

  /** @returns the text after the change that was undone last, or undefined if there is none */
  redo(present: string): string | undefined {
    const { before, after } = this.#texts.peek();
    return this.#go(after, { before: [...before, present], after: after.slice(0, -1) });
  }

  /** What is typed from here on is a change of its own. */
  #go(texts: readonly string[], next: Texts): string | undefined {
    if (texts.length === 0) return undefined;
    this.#texts.value = next;
    this.#typed = Number.NEGATIVE_INFINITY;
    return texts.at(-1);
  }

  forget(): void {
    this.#texts.value = NONE;
  }
}
