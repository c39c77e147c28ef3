// A new swap: its experts, and layers from the paper's default or from where these experts changed, side by side.
import { useState } from "preact/hooks";
import { stringify } from "yaml";
import { PAPER_DEPTH, presetLayers, profileLayers } from "../../../merge/layer-owner.js";
import type { Analysis } from "../../protocol/index.js";
import { boardOfRecipe, describeBoard, type RecipeValue, rangesOf } from "../../recipe/board.js";
import { Button, Dialog } from "../components/basics.js";
import { inputOf, isCurrent, measured, useAnalysis } from "../explorer/analysis-store.js";
import { layersOfModels } from "../store.js";
import type { Tower } from "./board-view.js";
import { Roles } from "./roles.js";
import { Thumbnail } from "./thumbnail.js";

interface Props {
  readonly experts: readonly Tower[];
  readonly onMake: (text: string) => void;
  readonly onClose: () => void;
}

export function NewRecipe({ experts, onMake, onClose }: Props) {
  const [roles, setRoles] = useState<readonly [number, number]>([0, 1]);
  const [isDefault, setDefault] = useState(false);
  const [task, language] = roles.map((at) => experts[at]) as [Tower, Tower];
  const job = measured.value.find(isCurrent);
  const data = useAnalysis(job?.id);
  const places = [task, language].map(
    ({ source }) => data?.experts.indexOf(inputOf(job)?.experts.find((one) => one.source === source)?.name ?? "") ?? -1,
  );
  const found = data && !places.includes(-1) ? changedMore(data, places[1] ?? 0, places[0] ?? 0) : undefined;
  const layers = data?.layers ?? layersOfModels(experts.map(({ source }) => source));
  const swap = { method: "swap", task: task.source, language: language.source };
  const counts = presetLayers(Math.max(2, layers));
  const ways = [
    ...(found && found.length > 0
      ? [
          {
            name: "Where these experts changed",
            why: `The layers in which ${language.name} has more of its change than ${task.name} has of its own.`,
            recipe: { ...swap, layers: { language: rangesOf(found) } },
          },
        ]
      : []),
    {
      name: "The paper's default",
      why: `${layers === PAPER_DEPTH ? "5 layers at the input and 2 at the output" : `5 layers at the input and 2 at the output of ${PAPER_DEPTH}, in proportion`}, whatever these experts changed.`,
      recipe: swap,
    },
  ];
  const chosen = (isDefault ? ways.at(-1) : ways[0]) as (typeof ways)[number];
  const make = () => {
    onMake(stringify(chosen.recipe));
    onClose();
  };
  return (
    <Dialog
      title="New recipe"
      onClose={onClose}
      footer={<Button text="Make the recipe" class="primary" onClick={make} />}
    >
      <p class="soft">The language expert gives some layers, the task expert the others.</p>
      <Roles experts={experts} roles={roles} onChange={setRoles} />
      <fieldset class="ways" aria-label="Which layers">
        {ways.map((way, i) => (
          <Way
            key={way.name}
            {...{ ...way, towers: experts, layers, counts, isChosen: way === chosen }}
            onChoose={() => setDefault(i === ways.length - 1)}
          />
        ))}
      </fieldset>
      {ways.length > 1 ? null : (
        <p class="soft small">
          <a href="#/changes">Measure the changes</a> to start from where these experts changed.
        </p>
      )}
    </Dialog>
  );
}

interface WayProps {
  readonly name: string;
  readonly why: string;
  readonly recipe: RecipeValue;
  readonly towers: readonly Tower[];
  readonly layers: number;
  readonly counts: { readonly bottom: number; readonly top: number };
  readonly isChosen: boolean;
  readonly onChoose: () => void;
}

function Way({ name, why, recipe, towers, layers, counts, isChosen, onChoose }: WayProps) {
  const board = boardOfRecipe(recipe, layers, counts);
  const nameOf = (source: string) => towers.find((tower) => tower.source === source)?.name ?? source;
  return (
    <label class={`card row ${isChosen ? "chosen" : ""}`}>
      <input type="radio" name="layers" checked={isChosen} onChange={onChoose} />
      {board ? <Thumbnail {...{ board, towers }} /> : null}
      <span>
        {name}
        <span class="about">{why}</span>
        {board && layers > 0 ? <span class="about">{describeBoard(board, nameOf)}</span> : null}
      </span>
    </label>
  );
}

/** Layers in which an expert has more of its change than another has of its own: the rule of the suggestion `profile`. */
function changedMore(data: Analysis, of: number, over: number): number[] {
  const [own = [], other = []] = [of, over].map((expert) =>
    (data.cells[expert] ?? []).map((cells) => Math.hypot(...cells.map((cell) => cell?.relative ?? 0))),
  );
  return profileLayers(own, other);
}
