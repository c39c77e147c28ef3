import { useEffect, useState } from "preact/hooks";
import { inBackground } from "../store.js";

/** What a question is answered, asked again whenever `when` changes; undefined until the first answer. */
export function useAnswer<T>(ask: () => Promise<T> | undefined, when: readonly unknown[]): T | undefined {
  const [found, setFound] = useState<T>();
  useEffect(() => {
    let isLatest = true;
    void inBackground(async () => {
      const answer = await ask();
      if (isLatest) setFound(answer);
    });
    return () => {
      isLatest = false;
    };
  }, when);
  return found;
}
