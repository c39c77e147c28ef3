// Watch: experiments of the project, their scores as they arrive, and what runs.
import { useEffect, useState } from "preact/hooks";
import { formatDuration } from "../../../kit/printing/format.js";
import type { Experiment, Job, PlanEntry } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, Cautions, EmptyView, Facts, Notice } from "../components/basics.js";
import { Select } from "../components/inputs.js";
import { CancelButton, Command } from "../components/progress.js";
import * as store from "../experiments/experiment-store.js";
import { ScoreGrid } from "../experiments/score-grid.js";
import { ScoreMap } from "../experiments/score-map.js";
import { timeText } from "../format.js";
import { JobOutcome } from "../recipe/outcome.js";
import { attempt, jobs } from "../store.js";

export function Experiments() {
  useEffect(store.follow, []);
  const plans = store.plans.value;
  if (plans?.length === 0) {
    return (
      <EmptyView
        view="Experiments"
        title="No experiment in this project"
        text="Make one of a recipe under Write, or put a plan into the project's folder."
        link={["write", "Make an experiment"]}
      />
    );
  }
  return (
    <section class="view">
      <header>
        <div>
          <h1>Experiments</h1>
          <p>Scores appear as steps end. A run that stops keeps what is done.</p>
        </div>
        <a class="button" href="#/write">
          New experiment
        </a>
      </header>
      {plans && plans.length > 1 ? (
        <Select
          {...{ label: "Experiment", value: store.shown.value ?? "", onChange: store.choose }}
          options={plans.map((one) => [one.plan, `${one.name}: ${stateOf(one)}`])}
        />
      ) : null}
      <div class="experiments">
        <Shown />
      </div>
    </section>
  );
}

function stateOf({ plan, problem, runner, steps }: PlanEntry): string {
  if (problem !== null) return "Cannot be read";
  // The list is read every few seconds; a job begins at once.
  if (jobOf(plan)?.state === "running") return "Running here";
  if (runner) return runner.isStudio ? "Running here" : `Running in process ${runner.pid}`;
  if (steps === null) return "Not begun";
  return steps.done >= steps.known ? "Done" : `${steps.done} of ${steps.known} known steps done`;
}

function Shown() {
  const experiment = store.experiment.value;
  const plan = store.shown.value;
  if (store.problem.value !== null) {
    return (
      <div class="card stack">
        {plan === null ? null : <h2>{plan}</h2>}
        <Notice kind="problem" text={store.problem.value}>
          <Button text="Read again" onClick={() => store.read(true)} />
        </Notice>
      </div>
    );
  }
  if (!experiment) return <p class="soft">Reading the plan, its models and its data…</p>;
  return (
    <>
      <Head experiment={experiment} />
      <ScoreGrid experiment={experiment} />
      {experiment.maps.map((map) => (
        <ScoreMap key={map.title} map={map} />
      ))}
      <Steps experiment={experiment} />
    </>
  );
}

/** The latest run of a plan in this project. */
const jobOf = (plan: string): Job | undefined =>
  jobs.value.find(({ kind, input }) => kind === "experiment" && (input as { plan?: unknown }).plan === plan);

function Head({ experiment }: { experiment: Experiment }) {
  const { plan, title, folder, counts, seconds, secondsLeft, workers, problems, notes, reportUrl } = experiment;
  const { done, running, failed, left, waiting } = counts;
  const total = done + running + failed + left + waiting;
  const job = jobOf(plan);
  // Other programs need another consent.
  const programs = JSON.stringify([plan, experiment.programs]);
  const [trusted, setTrusted] = useState("");
  const isTrusted = experiment.programs.length === 0 || trusted === programs;
  const facts: [string, string][] = [
    ["Steps", `${done} of ${waiting > 0 ? "about " : ""}${total} done${failed > 0 ? `, ${failed} failed` : ""}`],
    ["Work so far", seconds > 0 ? formatDuration(seconds) : "none"],
  ];
  if (done < total) {
    facts.push(["Time left", secondsLeft === null ? "not known yet" : `about ${formatDuration(secondsLeft)}`]);
    facts.push(["In parallel", `up to ${workers} ${workers === 1 ? "step" : "steps"}`]);
  }
  return (
    <section class="card stack" aria-labelledby="experiment">
      <div class="experiment-head">
        <div class="stack tight">
          <h2 id="experiment">{title}</h2>
          <p class="path">{plan}</p>
        </div>
        <div class="row">
          <Run experiment={experiment} job={job} isTrusted={isTrusted} />
          {reportUrl === null ? null : (
            <a
              class={done === total ? "button primary" : "button"}
              href={reportUrl}
              target="_blank"
              rel="noopener noreferrer"
            >
              Open the report
            </a>
          )}
        </div>
      </div>
      <p role="status" class="experiment-state">
        {describe(experiment, job)}
      </p>
      <progress max={Math.max(1, total)} value={done} aria-label={`Steps of ${title}`} />
      <Facts facts={facts} />
      {problems.length > 0 ? (
        <Notice kind="problem" text={`It cannot run here:\n${problems.join("\n")}`}>
          <Button text="Check again" onClick={() => store.read(true)} />
        </Notice>
      ) : null}
      {experiment.programs.length > 0 && done < total ? (
        <div class="notice caution">
          <div class="stack tight">
            <strong>A run starts these programs:</strong>
            <dl class="programs">
              {experiment.programs.map(({ when, what }) => (
                <div key={`${when} ${what}`}>
                  <dt>{when}</dt>
                  <dd tabIndex={0}>
                    <code>{what}</code>
                  </dd>
                </div>
              ))}
            </dl>
            <label class="check">
              <input
                type="checkbox"
                checked={isTrusted}
                onChange={({ currentTarget }) => setTrusted(currentTarget.checked ? programs : "")}
              />
              I have read them and trust this plan
            </label>
          </div>
        </div>
      ) : null}
      {job?.state === "failed" && !experiment.runner ? <JobOutcome job={job} /> : null}
      <Cautions texts={notes} />
      <details>
        <summary>Folder and command</summary>
        <div class="stack">
          <p class="path">{folder}</p>
          <Command
            words={[
              "layergraft",
              "experiment",
              plan,
              "run",
              ...(experiment.programs.length > 0 ? ["--allow-code"] : []),
            ]}
          />
        </div>
      </details>
    </section>
  );
}

function describe({ runner, counts, problems }: Experiment, job: Job | undefined): string {
  const { done, running, failed, left, waiting } = counts;
  if (runner?.isStudio) return "Running in this studio.";
  if (runner) return `Running in process ${runner.pid} on ${runner.host}. Stop it where it was started.`;
  if (job?.state === "running") return "Starting.";
  if (done + running + failed === 0) return problems.length > 0 ? "Not begun." : "Not begun. It can run.";
  if (left + waiting + running === 0) return failed === 0 ? "Done." : `Ended; ${failed} failed. Run it again to retry.`;
  return "Stopped. Resume continues where it stopped.";
}

interface RunProps {
  readonly experiment: Experiment;
  readonly job: Job | undefined;
  /** Whether it may start the programs of its plan. */
  readonly isTrusted: boolean;
}

function Run({ experiment, job, isTrusted }: RunProps) {
  const [isAsked, setAsked] = useState(false);
  const { plan, planDigest, programs, counts, problems, runner } = experiment;
  useEffect(() => setAsked(false), [job?.id, job?.state]);
  if (job?.state === "running") return <CancelButton job={job} label="Stop" busyLabel="Stopping…" />;
  const { done, failed, left, waiting, running } = counts;
  if (left + waiting + running + failed === 0) return null;
  const start = async () => {
    setAsked(true);
    const allowCode = programs.length > 0 && isTrusted;
    const started = await attempt(() =>
      call("job.start", { kind: "experiment", input: { plan, planDigest, allowCode } }),
    );
    if (!started) setAsked(false);
  };
  return (
    <Button
      text={done === 0 ? "Run" : left + waiting + running === 0 ? "Retry what failed" : "Resume"}
      class="primary"
      disabled={isAsked || !isTrusted || runner !== null || problems.length > 0}
      onClick={() => void start()}
    />
  );
}

function Steps({ experiment }: { experiment: Experiment }) {
  const { plan, running, failed } = experiment;
  const job = jobOf(plan);
  const parts = job?.state === "running" ? (job.progress?.parts ?? []) : [];
  const labels = [...new Set([...parts.map(({ label }) => label), ...running.map(({ label }) => label)])];
  const now = labels.map((label): Listed => {
    const part = parts.find((one) => one.label === label);
    const since = running.find((one) => one.label === label)?.since;
    const about = part ? [`${Math.floor(100 * part.share)}%`, part.what].filter(Boolean).join(", ") : sinceText(since);
    return { label, about, share: part?.share ?? null };
  });
  return (
    <div class="step-lists">
      <StepList title="Running now" steps={now} />
      <StepList
        title="Failed"
        steps={failed.map(({ label, reason }) => ({ label, about: reason }))}
        note="Fix the cause, then run it again. Steps that are done are kept."
      />
    </div>
  );
}

interface Listed {
  readonly label: string;
  readonly about: string;
  /** How far it is, from 0 to 1; null where that is not known, undefined of a step that does not run. */
  readonly share?: number | null;
}

function StepList({ title, steps, note }: { title: string; steps: readonly Listed[]; note?: string }) {
  if (steps.length === 0) return null;
  return (
    <section class="card stack" aria-label={title}>
      <h2>{title}</h2>
      <ul class="steps">
        {steps.map(({ label, about, share }) => (
          <li key={label} class={share === undefined ? "" : "progress"}>
            <span>{label}</span>
            {share === undefined ? null : (
              <progress max={1} {...(share === null ? {} : { value: share })} aria-label={label} />
            )}
            {about === "" ? null : <span class="about">{about}</span>}
          </li>
        ))}
      </ul>
      {note ? <p class="soft">{note}</p> : null}
    </section>
  );
}

function sinceText(since: string | undefined): string {
  const at = Date.parse(since ?? "");
  return Number.isNaN(at) ? "" : `since ${timeText(at)}`;
}
