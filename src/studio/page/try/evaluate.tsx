// Scores of models on a task, as `layergraft eval` gives them.

import { signal } from "@preact/signals";
import { jobInputs } from "../../protocol/index.js";
import { Button, Form } from "../components/basics.js";
import { NumberField, TextField } from "../components/inputs.js";
import { NewTask, useTask } from "../components/task-fields.js";
import { startSaved } from "../recipe/recipe-store.js";
import { chosen, ModelList, RunnerFields, runner, runnerText } from "./choices.js";
import { latestEvaluation } from "./evaluation-job.js";

const data = signal("");
const limit = signal<number | null>(100);

export function Evaluate() {
  const latest = latestEvaluation();
  const { data: before } = jobInputs.evaluate.safeParse(latest?.input);
  const { task, pick, choice, name } = useTask(before?.task);
  const count = chosen.value.length;
  const canStart = latest?.state !== "running" && count > 0 && task !== null;
  const start = () =>
    startSaved({
      kind: "evaluate",
      input: {
        ...{ models: chosen.value.map(({ name, source }) => ({ name, source })), task: task ?? "", limit: limit.value },
        ...{ data: data.value.trim() === "" ? null : data.value, runner: runner.value },
      },
    });
  return (
    <div class="stack wide">
      <Form class="ask" onSubmit={() => void start()}>
        <div class="stack">
          <div class="task-fields">
            {choice}
            <NumberField
              {...{ label: "Items, at most", value: limit.value, min: 1, max: 10_000_000, placeholder: "all" }}
              onChange={(value) => (limit.value = value)}
            />
          </div>
          {name}
          <div>
            <NewTask onChange={pick} />
          </div>
          <details>
            <summary>
              Options <span class="small soft">{runnerText(runner.value)}</span>
            </summary>
            <div class="method-form">
              <RunnerFields />
              <TextField
                label="Data folder"
                hint="Without one, built-in tasks are downloaded from the hub."
                {...{ value: data.value, isCode: true, onChange: (value) => (data.value = value) }}
              />
            </div>
          </details>
        </div>
        <div class="stack">
          <ModelList />
          <Button
            text={`Evaluate ${count === 1 ? chosen.value[0]?.name : `${count} models`}`}
            type="submit"
            class="primary"
            disabled={!canStart}
          />
        </div>
      </Form>
    </div>
  );
}
