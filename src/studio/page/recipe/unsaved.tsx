// Says that the open recipe is not on the disk, and settles whose text is.
import { useState } from "preact/hooks";
import { Versions } from "../components/different.tsx";
import { keepMine, takeTheirs, text, unsaved } from "./recipe-store.ts";

export function Unsaved() {
  const [isOpen, setOpen] = useState(false);
  const now = unsaved.value;
  if (now === null) return null;
  const { message, theirs } = now;
  return (
    <section class="notice problem unsaved" aria-label="Recipe that is not saved">
      <div class="stack tight">
        <span>{message} It is not written, asked or evaluated until you choose.</span>
        {isOpen && theirs ? <Versions first={["Mine", text.value]} second={["Theirs", theirs.text]} /> : null}
      </div>
      <div class="row">
        <button type="button" onClick={() => void keepMine()}>
          {theirs === undefined ? "Save again" : "Keep mine"}
        </button>
        {theirs === undefined ? null : (
          <button type="button" onClick={() => void takeTheirs()}>
            {theirs === null ? "Let it go" : "Take theirs"}
          </button>
        )}
        {theirs ? (
          <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Show the difference
          </button>
        ) : null}
      </div>
    </section>
  );
}
