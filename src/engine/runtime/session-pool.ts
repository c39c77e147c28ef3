import type { Session } from "./session.js";

export class SessionPool {
  readonly #shared = new Map<string, { readonly session: Promise<Session>; users: number }>();

  /**
   * The session of a key.
   * @param make opens it, if no one has it open
   * @returns closing it frees its memory when no one else uses it
   */
  async open(key: string, make: () => Promise<Session>): Promise<Session> {
    const shared = this.#shared.get(key) ?? { session: make(), users: 0 };
    this.#shared.set(key, shared);
    shared.users++;
    let isOpen = true;
    const close = async () => {
      if (!isOpen) return;
      isOpen = false;
      if (--shared.users > 0) return;
      this.#shared.delete(key);
      await (await shared.session).close();
    };
    try {
      const session = await shared.session;
      return { run: (feeds, fetches, into) => session.run(feeds, fetches, into), close };
    } catch (error) {
      this.#shared.delete(key);
      throw error;
    }
  }
}
