// Try: prompts and evaluations of models and recipes, before anything is written.
import { useState } from "preact/hooks";
import { Either, EmptyView } from "../components/basics.js";
import { useTasks } from "../components/task-fields.js";
import { choices, jobs } from "../store.js";
import { Ask } from "../try/ask.js";
import { Evaluate } from "../try/evaluate.js";

export function Try() {
  const latest = jobs.value.find(({ kind }) => kind === "answer" || kind === "evaluate");
  const [evaluates, setEvaluates] = useState(latest?.kind === "evaluate");
  useTasks();
  if (choices.value.length === 0) {
    return (
      <EmptyView
        view="Try"
        title="Nothing to ask yet"
        text="Open models first; then prompt them side by side with your recipe."
        link={["models", "Open models"]}
      />
    );
  }
  return (
    <section class="view">
      <header>
        <div>
          <h1>Try</h1>
          <p>Recipes need no merge first. Models run one after another, so the memory is that of the largest.</p>
        </div>
      </header>
      <Either label="Ways to try" texts={["Ask", "Evaluate"]} value={evaluates} onChange={setEvaluates} />
      {evaluates ? <Evaluate /> : <Ask />}
    </section>
  );
}
