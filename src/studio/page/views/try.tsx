// Try: prompts and evaluations of models and recipes, before anything is written.
import { useEffect, useState } from "preact/hooks";
import { call } from "../client.js";
import { Either, EmptyView } from "../components/basics.js";
import { useTasks } from "../components/task-fields.js";
import { choices, jobs, project, useAnswer } from "../store.js";
import { Ask } from "../try/ask.js";
import { Evaluate } from "../try/evaluate.js";
import { EvaluationJob, latestEvaluation, versionOf } from "../try/evaluation-job.js";
import { Results } from "../try/results.js";

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
      {evaluates ? <Evaluations /> : <Ask />}
    </section>
  );
}

/** What was found leads; the form is folded once there is something. */
function Evaluations() {
  const job = latestEvaluation();
  const all = useAnswer(() => call("evaluation.list", {}), [versionOf(job), project.value]);
  const [isOpen, setOpen] = useState<boolean>();
  const [begun, setBegun] = useState(job?.id);
  useEffect(() => {
    // It stays open where the first results come from elsewhere, as by a drop.
    if (isOpen === undefined && all !== undefined) setOpen(all.length === 0);
  }, [all]);
  useEffect(() => {
    if (job?.id === begun) return;
    setBegun(job?.id);
    setOpen(false);
  }, [job?.id]);
  if (all === undefined || isOpen === undefined) return <p class="soft">Reading results…</p>;
  const hasResults = all.length > 0;
  return (
    <div class="stack wide">
      {job && job.state !== "done" ? <EvaluationJob job={job} /> : null}
      <details class="fold" open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>Evaluate models</summary>
        <Evaluate />
      </details>
      {hasResults ? (
        <Results all={all} />
      ) : (
        <p class="soft">Results appear here, and stay in the project's folder evaluations.</p>
      )}
      {job?.state === "done" ? <EvaluationJob job={job} /> : null}
    </div>
  );
}
