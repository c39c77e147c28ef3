// ONNX Runtime computes all outputs of a session, so a loss without its gradients needs a session of its own.

import type { Node } from "../../engine/graph/index.js";
import {
  type Chunks,
  lowerGraph,
  openSession,
  type Session,
  type TensorValue,
  type Weight,
} from "../../engine/runtime/index.js";

/** Frozen weights of more bytes are not held twice: a session with more outputs is used instead. */
const MAX_REPEATED_BYTES = 1e9;

interface SessionsOptions {
  /** Bound in every session; others are fed. */
  readonly weights: ReadonlyMap<string, Weight>;
  readonly threads: number | undefined;
  readonly chunks: Chunks;
}

/** Opens a session for each set of outputs when it is first fetched. */
export function sessionsOf(outputs: Readonly<Record<string, Node>>, { weights, threads, chunks }: SessionsOptions) {
  const opened = new Map<string, { readonly names: readonly string[]; readonly session: Session }>();
  const bytes = [...weights.values()].reduce((sum, { values }) => {
    return sum + (values instanceof Uint8Array ? values.byteLength : values.length);
  }, 0);
  const sessionFor = async (fetches: readonly string[]): Promise<Session> => {
    const key = fetches.join(" ");
    const known = opened.get(key);
    if (known) return known.session;
    if (bytes > MAX_REPEATED_BYTES) {
      const wider = [...opened.values()].find(({ names }) => fetches.every((name) => names.includes(name)));
      if (wider) return wider.session;
    }
    const model = lowerGraph(Object.fromEntries(fetches.map((name) => [name, outputs[name] as Node])), {
      weights,
      chunks,
    });
    const session = await openSession(model, {
      // Packing would hold frozen weights once more for the forward and the backward pass each. Packing them again for each
      // batch costs little.
      config: { "session.disable_prepacking": "1" },
      threads,
    });
    opened.set(key, { names: fetches, session });
    return session;
  };
  return {
    /**
     * Computes outputs.
     * @param feeds may have more than is needed
     * @param into memory that outputs are written to
     * @throws RuntimeMissingError if there is no runtime for this platform
     */
    run: async (
      feeds: Readonly<Record<string, TensorValue>>,
      fetches: readonly string[],
      into: Readonly<Record<string, TensorValue>> = {},
    ): Promise<Record<string, TensorValue>> => (await sessionFor(fetches)).run(feeds, fetches, into),
    close: async (): Promise<void> => {
      for (const { session } of opened.values()) await session.close();
      opened.clear();
    },
  };
}
