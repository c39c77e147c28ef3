// Says that the open recipe is not on the disk, and settles whose text is.

import { useState } from "preact/hooks";
import { Button } from "../components/basics.js";
import { Versions } from "../components/different.js";
import { keepMine, takeTheirs, text, unsaved } from "./recipe-store.js";

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
        <Button text={theirs === undefined ? "Save again" : "Keep mine"} onClick={() => void keepMine()} />
        {theirs === undefined ? null : (
          <Button text={theirs === null ? "Let it go" : "Take theirs"} onClick={() => void takeTheirs()} />
        )}
        {theirs ? <Button text="Show the difference" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)} /> : null}
      </div>
    </section>
  );
}
