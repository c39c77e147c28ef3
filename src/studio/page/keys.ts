// The keys of the page, by the place where they work: what handles them and the list that `?` opens both read this table.

interface Key {
  /** As `chordOf` writes them. */
  readonly chords: readonly string[];
  readonly does: string;
}
type Keys = Readonly<Record<string, Readonly<Record<string, Key>>>>;

const KEYS = {
  Everywhere: { list: { chords: ["?"], does: "list the keys" } },
  Recipe: {
    undo: { chords: ["Control+z"], does: "undo a change of the recipe" },
    redo: { chords: ["Control+y", "Control+Z"], does: "redo it" },
  },
  Board: {
    move: {
      chords: ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End"],
      does: "move among the cells, to the output, outside the layers",
    },
    select: {
      chords: ["Shift+ArrowUp", "Shift+ArrowDown", "Shift+Home", "Shift+End"],
      does: "select layers of a tower",
    },
    take: { chords: ["Enter", " "], does: "take them from this model" },
    average: { chords: ["Control+Enter", "Control+ "], does: "average them with this model, or no longer" },
    drop: { chords: ["Escape"], does: "drop the selection" },
  },
  Heatmaps: {
    move: { chords: ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"], does: "move among the cells" },
    jump: { chords: ["PageUp", "PageDown", "Home", "End"], does: "move by an eighth of the layers, or to the ends" },
  },
  Prompt: { ask: { chords: ["Control+Enter"], does: "ask the models" } },
} as const satisfies Keys;

type Place = keyof typeof KEYS;
export const PLACES = Object.entries<Keys[string]>(KEYS);

/** `Control+Enter`, `Shift+ArrowUp`, `?`: of a key that writes a sign, the sign says whether Shift was down. */
function chordOf({ key, ctrlKey, metaKey, shiftKey }: KeyboardEvent): string {
  const parts = [ctrlKey || metaKey ? "Control" : "", shiftKey && key.length > 1 ? "Shift" : "", key];
  return parts.filter((part) => part !== "").join("+");
}

/** What a key does in a place; undefined if nothing. */
export function actionOf<P extends Place>(place: P, event: KeyboardEvent): keyof (typeof KEYS)[P] | undefined {
  const chord = chordOf(event);
  const actions = Object.entries(KEYS[place] as Keys[string]);
  const [found] = actions.find(([, { chords }]) => chords.includes(chord)) ?? [];
  return found as keyof (typeof KEYS)[P] | undefined;
}

const SIGNS: Readonly<Record<string, string>> = {
  ArrowUp: "↑",
  ArrowDown: "↓",
  ArrowLeft: "←",
  ArrowRight: "→",
  Control: "Ctrl",
  PageUp: "Page up",
  PageDown: "Page down",
  Escape: "Esc",
  " ": "Space",
};

/** `Ctrl+Shift+Z`. */
export const chordText = (chord: string): string =>
  chord
    .split("+")
    .map(
      (part) =>
        SIGNS[part] ?? (/^[A-Z]$/.test(part) ? `Shift+${part}` : /^[a-z]$/.test(part) ? part.toUpperCase() : part),
    )
    .join("+");
