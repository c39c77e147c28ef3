// Parts of the page whose script comes after the first view.
import { signal } from "@preact/signals";
import type { ComponentType, JSX } from "preact";
import { useEffect } from "preact/hooks";
import { inBackground } from "../store.js";

/** A component that is loaded when it is shown, or before by `load`. */
export function lazy<P extends object>(find: () => Promise<ComponentType<P>>, waiting: JSX.Element) {
  const loaded = signal<ComponentType<P> | null>(null);
  const load = () =>
    inBackground(async () => {
      loaded.value = await find();
    });
  function Lazy(props: P) {
    useEffect(() => void load(), []);
    const Found = loaded.value;
    return Found ? <Found {...props} /> : waiting;
  }
  return Object.assign(Lazy, { load });
}
