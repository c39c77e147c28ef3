import { chordText, PLACES } from "../keys.ts";
import { Dialog } from "./basics.tsx";

/** Lists the keys. */
export function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      {PLACES.map(([place, actions]) => (
        <section key={place} class="stack tight" aria-label={place}>
          <h3>{place}</h3>
          <dl class="keys">
            {Object.values(actions).map(({ chords, does }) => (
              <div key={does}>
                <dt>
                  {chords.map((chord) => (
                    <kbd key={chord}>{chordText(chord)}</kbd>
                  ))}
                </dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </Dialog>
  );
}
