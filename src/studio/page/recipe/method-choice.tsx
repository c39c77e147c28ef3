// The choice of a merge method: those that people use first, the others by what they do, and a search in all.

import { useState } from "preact/hooks";
import type { Method } from "../../protocol/index.js";
import { boardOfOne, recipeOfBoard } from "../../recipe/board.js";
import { Button, Dialog, Icon } from "../components/basics.js";
import { TextField } from "../components/inputs.js";
import { misfitOf } from "../store.js";
import type { Tower } from "./board-view.js";
import { methods, writeRecipe } from "./recipe-store.js";

interface Props {
  readonly method: Method | undefined;
  readonly towers: readonly Tower[];
  readonly layers: number;
  readonly isBoard: boolean;
}

export function MethodChoice({ method, towers, layers, isBoard }: Props) {
  const [isOpen, setOpen] = useState(false);
  const last = towers.at(-1);
  const choose = (found: Method) => {
    setOpen(false);
    if (found.name !== method?.name) writeRecipe({ method: found.name, ...startOf(found, towers) });
  };
  return (
    <div class="method-choice">
      <div class="field">
        <span class="label" id="method-label">
          Method
        </span>
        <button
          type="button"
          class="choice"
          id="method"
          aria-labelledby="method-label method"
          onClick={() => setOpen(true)}
        >
          {method?.title ?? (methods.value.length === 0 ? "loading" : "unknown")}
        </button>
      </div>
      {!isBoard && last && layers > 0 ? (
        <div class="stack tight">
          <Button
            text="Start a board of layers"
            class="quiet"
            aria-describedby="board-hint"
            onClick={() => writeRecipe(recipeOfBoard(boardOfOne(last.source, layers)))}
          />
          <span id="board-hint" class="about">
            Replaces this recipe: all layers of {last.name}, and you say which to take from others. Undo brings it back.
          </span>
        </div>
      ) : null}
      {isOpen ? <Methods chosen={method} onChoose={choose} onClose={() => setOpen(false)} /> : null}
    </div>
  );
}

/** The fields that a method needs, with the project's models. */
function startOf({ fields, example }: Method, towers: readonly Tower[]): Record<string, unknown> {
  const experts = towers.filter(({ own }) => own !== "base").map(({ source }) => source);
  const fitting = experts.filter((source) => misfitOf(source) === undefined);
  const sources = fitting.length > 0 ? fitting : experts;
  const base = towers.find(({ own }) => own === "base")?.source;
  const needed = fields.filter(({ required }) => required);
  return Object.fromEntries(
    needed.map(({ name, type }, i): [string, unknown] => {
      if (name === "models") return [name, sources];
      if (name === "slices") return [name, [{ model: sources[0] }]];
      if (name === "base") return [name, base ?? ""];
      if (type !== "source") return [name, (example as Record<string, unknown>)[name]];
      return [name, sources[Math.min(i, sources.length - 1)]];
    }),
  );
}

const USED_FIRST = "Used most";

/** Methods by group; those that are used most come first, unless words are searched. */
function groupsOf(search: string): [title: string, methods: Method[]][] {
  const words = search.toLowerCase().split(/\s+/);
  const groups = new Map<string, Method[]>(search === "" ? [[USED_FIRST, []]] : []);
  for (const one of methods.value) {
    const { name, title, group, summary, isUsedMost } = one;
    const text = `${name} ${title} ${group} ${summary}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    const place = search === "" && isUsedMost ? USED_FIRST : group;
    groups.set(place, [...(groups.get(place) ?? []), one]);
  }
  return [...groups];
}

interface MethodsProps {
  readonly chosen: Method | undefined;
  readonly onChoose: (method: Method) => void;
  readonly onClose: () => void;
}

function Methods({ chosen, onChoose, onClose }: MethodsProps) {
  const [search, setSearch] = useState("");
  const groups = groupsOf(search.trim());
  return (
    <Dialog title="Methods" onClose={onClose}>
      <div class="stack">
        <TextField label={`Search ${methods.value.length} methods`} value={search} onChange={setSearch} />
        {groups.length === 0 ? <p class="soft">No method has these words. Try fewer.</p> : null}
        {groups.map(([title, found]) => (
          <section key={title} class="stack tight" aria-label={title}>
            <h3>{title}</h3>
            <ul class="entries">
              {found.map((one) => (
                <li key={one.name}>
                  <button
                    type="button"
                    class="quiet entry"
                    aria-pressed={one === chosen}
                    data-method={one.name}
                    onClick={() => onChoose(one)}
                  >
                    <span>
                      {one.title}
                      <span class="about">{one.summary}</span>
                    </span>
                    {one === chosen ? <Icon name="check" /> : null}
                  </button>
                </li>
              ))}
            </ul>
          </section>
        ))}
      </div>
    </Dialog>
  );
}
