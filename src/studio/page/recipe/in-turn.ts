// When work is done that several changes ask for.

/** Work that waits for a pause, and is done once at a time. */
export class AfterPause {
  readonly #work: () => Promise<void>;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #done: Promise<void> = Promise.resolve();

  constructor(work: () => Promise<void>) {
    this.#work = work;
  }

  /** Does it after so many milliseconds without another call. */
  wait(milliseconds: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.now(), milliseconds);
  }

  /** Does it as soon as work that began before is done. */
  now(): Promise<void> {
    clearTimeout(this.#timer);
    this.#done = this.#done.then(this.#work);
    return this.#done;
  }
}

/** Takes what is found by the work that began last; what is found by earlier work is dropped. */
export function latest<T>(take: (found: T) => void): (work: () => Promise<T>) => Promise<void> {
  let begun = 0;
  return async (work) => {
    const mine = ++begun;
    const found = await work();
    if (mine === begun) take(found);
  };
}
