// Scores of models on a task, as `layergraft eval` gives them.

import { signal } from "@preact/signals";
import { jobInputs } from "../../protocol/index.js";
import { Button, Form } from "../components/basics.js";
import { NewTask, useTask } from "../components/task-fields.js";
import { type Values, VerbFields } from "../components/verb-fields.js";
import { startSaved } from "../recipe/recipe-store.js";
import { chosen, ModelList } from "./choices.js";
import { latestEvaluation } from "./evaluation-job.js";

/** Fields of the verb `eval`; few items at first, as they take seconds. */
const fields = signal<Values>({ limit: 100 });
/** Those that are made of the models and the task; results have folders of their own. */
const MADE = ["source", "tasks", "name", "out"];

export function Evaluate() {
  const latest = latestEvaluation();
  const { data: before } = jobInputs.evaluate.safeParse(latest?.input);
  const { task, pick, choice, name } = useTask(before?.tasks[0]);
  const count = chosen.value.length;
  const canStart = latest?.state !== "running" && count > 0 && task !== null;
  const start = () =>
    startSaved({
      kind: "evaluate",
      input: {
        ...fields.value,
        models: chosen.value.map(({ name, source }) => ({ name, source })),
        tasks: [task ?? ""],
      },
    });
  return (
    <div class="stack wide">
      <Form class="ask" onSubmit={() => void start()}>
        <div class="stack">
          {choice}
          {name}
          <div>
            <NewTask onChange={pick} />
          </div>
          <VerbFields verb="eval" made={MADE} values={fields.value} set={(values) => (fields.value = values)} />
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
