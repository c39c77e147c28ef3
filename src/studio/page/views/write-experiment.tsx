// The plan of an experiment around the open recipe, or of a map of its scores over two fields.

import { Fragment } from "preact";
import { useState } from "preact/hooks";
import type { Output } from "../../protocol/index.ts";
import { call } from "../client.ts";
import { Button, Form } from "../components/basics.tsx";
import { useTask } from "../components/task-fields.tsx";
import { pathField, Way } from "../components/way.tsx";
import { choose } from "../experiments/experiment-store.ts";
import { whenSaved } from "../recipe/recipe-store.ts";

interface Axis {
  readonly field: string;
  readonly values: string;
}
const AXES: readonly Axis[] = ["bottom", "top"].map((field) => ({ field, values: "0, 1, 2, 3" }));
const numbersOf = (text: string) => text.split(/[\s,]+/).flatMap((word) => (word === "" ? [] : Number(word)));

export function Experiment({ recipe }: { recipe: string }) {
  const { task, choice, name } = useTask();
  const [made, setMade] = useState<Output<"recipe.experiment"> | null>(null);
  const [isMap, setMap] = useState(false);
  const [axes, setAxes] = useState(AXES);
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
        <label class="row">
          <input {...{ type: "checkbox", checked: isMap, onChange: () => setMap(!isMap) }} />
          Map the scores over two fields of the recipe
        </label>
        {isMap
          ? axes.map(({ field, values }, i) => {
              const set = (change: Partial<Axis>) => setAxes(axes.with(i, { field, values, ...change }));
              return (
                <div class="row" key={i}>
                  {pathField("Field", field, (to) => set({ field: to }), "Such as bottom or density.")}
                  {pathField("Values", values, (to) => set({ values: to }), "Numbers with commas.")}
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
