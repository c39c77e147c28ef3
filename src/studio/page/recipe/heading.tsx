// What is done with recipes as wholes: make, open, rename, duplicate, delete.

import { useState } from "preact/hooks";
import { name as recipeName } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, Dialog } from "../components/basics.js";
import { Select } from "../components/inputs.js";
import { NameDialog } from "../components/name-dialog.js";
import { nameFor } from "../names.js";
import { change, project } from "../store.js";
import type { Tower } from "./board-view.js";
import { NewRecipe } from "./new-recipe.js";
import * as recipe from "./recipe-store.js";

type Asked = "new" | "Rename" | "Duplicate" | "delete" | null;

export function Heading({ towers }: { towers: readonly Tower[] }) {
  const [asked, setAsked] = useState<Asked>(null);
  const names = project.value?.recipes ?? [];
  const shown = recipe.name.value;
  const experts = towers.filter(({ own }) => own !== "base");
  const make = (text: string) => recipe.create("recipe", text);
  const close = () => setAsked(null);
  const button = (text: string, onClick: () => void, isDisabled = false) => (
    <Button text={text} class="quiet" disabled={isDisabled} onClick={onClick} />
  );
  return (
    <header>
      <div>
        <h1>Recipe</h1>
      </div>
      <div class="row">
        {names.length > 0 ? (
          <Select
            {...{ label: "Open a recipe", isBare: true, value: shown ?? "" }}
            options={[...(shown === null ? [["", "Open a recipe"] as const] : []), ...names]}
            onChange={(name) => change(() => ({ recipe: name || null }))}
          />
        ) : null}
        {shown === null ? null : (
          <>
            {button("Undo", recipe.undo, !recipe.canUndo.value)}
            {button("Redo", recipe.redo, !recipe.canRedo.value)}
            {button("Rename", () => setAsked("Rename"))}
            {button("Duplicate", () => setAsked("Duplicate"))}
            {button("Delete", () => setAsked("delete"))}
          </>
        )}
        <Button
          text="New recipe"
          icon="plus"
          class={shown === null ? "primary" : ""}
          onClick={() => (experts.length > 1 ? setAsked("new") : void make(startOf(experts[0])))}
        />
      </div>
      {asked === "new" ? <NewRecipe experts={experts} onMake={make} onClose={close} /> : null}
      {shown !== null && (asked === "Rename" || asked === "Duplicate") ? (
        <Name what={asked} from={shown} taken={names} onClose={close} />
      ) : null}
      {shown !== null && asked === "delete" ? <Delete what={shown} onClose={close} /> : null}
    </header>
  );
}

/** All of the only expert. */
const startOf = (expert: Tower | undefined) =>
  expert ? `method: passthrough\nslices:\n  - model: ${JSON.stringify(expert.source)}\n` : "method: soup\nmodels: []\n";

interface NameProps {
  readonly what: "Rename" | "Duplicate";
  readonly from: string;
  readonly taken: readonly string[];
  readonly onClose: () => void;
}

function Name({ what, from, taken, onClose }: NameProps) {
  const problemOf = (name: string) => {
    if (taken.includes(name) && name !== from) return `${name} exists. Choose another name.`;
    return recipeName.safeParse(name).success ? undefined : "Use letters, digits, spaces, dots, - and _.";
  };
  const write = (name: string) =>
    recipe.whenSaved(async () => {
      if (what === "Rename") return void (await call("recipe.rename", { name: from, to: name }));
      await call("recipe.write", { name, text: recipe.text.peek(), version: null });
      await change(() => ({ recipe: name }));
    });
  const start = what === "Rename" ? from : nameFor(from, taken);
  return <NameDialog verb={what} onDone={(name) => void write(name)} {...{ from, start, problemOf, onClose }} />;
}

function Delete({ what, onClose }: { what: string; onClose: () => void }) {
  const remove = async () => {
    onClose();
    await recipe.whenSaved(async () => {
      await change(() => ({ recipe: null }));
      await call("recipe.remove", { name: what });
    });
  };
  return (
    <Dialog
      title={`Delete the recipe ${what}?`}
      onClose={onClose}
      footer={<Button text="Delete" class="danger" onClick={() => void remove()} />}
    >
      <p>Its file is removed from the project. Models and results that were made of it stay.</p>
    </Dialog>
  );
}
