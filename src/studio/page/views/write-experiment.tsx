// The plan of an experiment around the open recipe, or of a map of its scores over two fields.

import { Fragment } from "preact";
import { useState } from "preact/hooks";
import type { Output } from "../../protocol/index.ts";
import { LAYER_COUNTS } from "../../recipe/board.ts";
import { call } from "../client.ts";
import { Button, Form } from "../components/basics.tsx";
import { Select } from "../components/inputs.tsx";
import { useTask } from "../components/task-fields.tsx";
import { pathField, Way } from "../components/way.tsx";
import { choose } from "../experiments/experiment-store.ts";
import { recipeOfText } from "../recipe/board-of-text.ts";
import { check, methods, text, whenSaved } from "../recipe/recipe-store.ts";

interface Axis {
  readonly field: string;
  readonly values: string;
}

/** Fields of the open recipe that are numbers, with values to begin with. */
function axesOf(): Axis[] {
  const recipe = recipeOfText(text.value);
  const half = Math.floor((check.value?.plan?.layers ?? 0) / 2);
  const { fields = [] } = methods.value.find(({ name }) => name === recipe?.method) ?? {};
  return fields.flatMap(({ name, type }) => {
    if (name === "seed" || !/number$|^parameter$/.test(type)) return [];
    const counts = [0, 1, 2, 3].filter((count) => count <= Math.max(1, half));
    return [{ field: name, values: type === "whole number" ? counts.join(", ") : "0.25, 0.5, 0.75, 1" }];
  });
}

const numbersOf = (text: string) => text.split(/[\s,]+/).flatMap((word) => (word === "" ? [] : Number(word)));

export function Experiment({ recipe }: { recipe: string }) {
  const { task, choice, name } = useTask();
  const [made, setMade] = useState<Output<"recipe.experiment"> | null>(null);
  const [isMap, setMap] = useState(false);
  const possible = axesOf();
  const [chosen, setAxes] = useState<readonly Axis[]>();
  const axes = chosen ?? possible.slice(0, 2);
  const make = (force: boolean) =>
    whenSaved(async () => {
      setMade(null);
      const given = isMap
        ? { grid: Object.fromEntries(axes.map(({ field, values }) => [field, numbersOf(values)])) }
        : {};
      if (task !== null) setMade(await call("recipe.experiment", { name: recipe, task, force, ...given }));
    });
  return (
    <Way
      title="Experiment"
      text="A plan that evaluates this recipe, its models and their soup, with intervals."
      command={["experiment", `${recipe}.plan.yaml`, "run"]}
    >
      <Form class="stack" onSubmit={() => void make(false)}>
        {choice}
        {name}
        <label class="check">
          <input
            {...{ type: "checkbox", checked: isMap, disabled: possible.length === 0, onChange: () => setMap(!isMap) }}
          />
          Map the scores over two fields of the recipe
          {possible.length === 0 ? <span class="about">This recipe's method has no numbers to map.</span> : null}
        </label>
        {isMap && axes.some(({ field }) => LAYER_COUNTS.includes(field)) && recipeOfText(text.value)?.layers ? (
          <p class="soft">In the map, bottom and top take the place of the layers that this recipe lists.</p>
        ) : null}
        {isMap
          ? axes.map(({ field, values }, i) => {
              const set = (change: Partial<Axis>) => setAxes(axes.with(i, { field, values, ...change }));
              return (
                <div class="roles" key={i}>
                  <Select
                    {...{ label: "Field", value: field, options: possible.map((one) => one.field) }}
                    onChange={(to) => set(possible.find((one) => one.field === to) ?? {})}
                  />
                  {pathField("Values, with commas", values, (to) => set({ values: to }), "")}
                </div>
              );
            })
          : null}
        <Button text="Make the plan" type="submit" disabled={task === null} />
      </Form>
      {made === null ? null : (
        <Fragment>
          <p role="status">{made.isThere ? "There is already a plan at this place." : "Wrote the plan."}</p>
          <p class="path">{made.file}</p>
          {made.isThere ? <Button text="Replace what is there" class="danger" onClick={() => make(true)} /> : null}
          <Button
            text="Run and watch it"
            onClick={() => {
              choose(made.plan);
              location.hash = "#/experiments";
            }}
          />
        </Fragment>
      )}
    </Way>
  );
}
