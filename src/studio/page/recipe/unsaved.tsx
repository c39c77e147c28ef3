// Says that the open recipe is not on the disk, and settles whose text is.
import { useState } from "preact/hooks";
import { Different } from "../components/different.tsx";
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
        {isOpen && theirs ? (
          <div class="versions">
            <Version title="Mine" from={theirs.text} to={text.value} />
            <Version title="Theirs" from={text.value} to={theirs.text} />
          </div>
        ) : null}
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

/** One of two texts; what the other lacks is marked. */
function Version({ title, from, to }: { title: string; from: string; to: string }) {
  return (
    <div>
      <h2>{title}</h2>
      <pre tabIndex={0}>
        <Different from={from} to={to} />
      </pre>
    </div>
  );
}
