// ONNX Runtime computes all outputs of a session, so a loss without its gradients needs a session of its own.
import { lowerGraph, type Node, openSession, type Session, type TensorValue, type Weight } from "../../engine/index.js";

/** Frozen weights of more bytes are not held twice: a session with more outputs is used instead. */
const MAX_REPEATED_BYTES = 1e9;

/** Opens a session for each set of outputs when it is first fetched. */
export class Sessions {
  readonly #outputs: Readonly<Record<string, Node>>;
  readonly #weights: ReadonlyMap<string, Weight>;
  readonly #threads: number | undefined;
  readonly #open = new Map<string, { readonly outputs: ReadonlySet<string>; readonly session: Session }>();
  readonly #isHeavy: boolean;

  /** @param weights bound in every session; others are fed */
  constructor(
    outputs: Readonly<Record<string, Node>>,
    weights: ReadonlyMap<string, Weight>,
    threads: number | undefined,
  ) {
    this.#outputs = outputs;
    this.#weights = weights;
    this.#threads = threads;
    const bytes = [...weights.values()].reduce((sum, { values }) => {
      return sum + (values instanceof Uint8Array ? values.byteLength : values.length);
    }, 0);
    this.#isHeavy = bytes > MAX_REPEATED_BYTES;
  }

  /**
   * Computes outputs.
   * @param feeds may have more than is needed
   * @param into memory that outputs are written to
   * @throws RuntimeMissingError if there is no runtime for this platform
   */
  async run(
    feeds: Readonly<Record<string, TensorValue>>,
    fetches: readonly string[],
    into: Readonly<Record<string, TensorValue>> = {},
  ): Promise<Record<string, TensorValue>> {
    const session = await this.#sessionFor(fetches);
    return session.run(feeds, fetches, into);
  }

  async close(): Promise<void> {
    for (const { session } of this.#open.values()) await session.close();
    this.#open.clear();
  }

  async #sessionFor(fetches: readonly string[]): Promise<Session> {
    const key = fetches.join(" ");
    const known = this.#open.get(key);
    if (known) return known.session;
    if (this.#isHeavy) {
      const wider = [...this.#open.values()].find(({ outputs }) => fetches.every((name) => outputs.has(name)));
      if (wider) return wider.session;
    }
    const outputs = Object.fromEntries(fetches.map((name) => [name, this.#outputs[name] as Node]));
    const model = lowerGraph(outputs, { weights: this.#weights });
    const session = await openSession(model, {
      // Packing would hold frozen weights once more for the forward and the backward pass each. Packing them again for each
      // batch costs little.
      config: { "session.disable_prepacking": "1" },
      threads: this.#threads,
    });
    this.#open.set(key, { outputs: new Set(fetches), session });
    return session;
  }
}
