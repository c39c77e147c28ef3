import { formatDuration } from "../../../kit/printing/format.js";
import type { Job } from "../../protocol/index.js";
import { EmptyView } from "../components/basics.js";
import { timeText } from "../format.js";
import { JobNotes, JobOutcome, STATES } from "../recipe/outcome.js";
import { jobs } from "../store.js";

/** Where what a job made is shown. */
const VIEWS: Readonly<Record<Job["kind"], string>> = {
  verb: "verbs",
  analyze: "changes",
  suggest: "recipe",
  answer: "try",
  evaluate: "try",
  merge: "write",
  export: "write",
  push: "write",
  experiment: "experiments",
};

export function Jobs() {
  const all = jobs.value;
  if (all.length === 0) {
    return (
      <EmptyView
        view="Activity"
        title="Nothing has run yet"
        text="Analyses, merges and evaluations appear here while they run and after."
      />
    );
  }
  return (
    <section class="view">
      <header>
        <h1>Activity</h1>
      </header>
      <ul class="jobs">
        {all.map((job) => (
          <li key={job.id} class="card">
            <div class="stack tight">
              <h2>{job.title}</h2>
              <p class="small soft">
                {STATES[job.state]}
                {job.ended === null ? "" : ` after ${formatDuration((job.ended - job.started) / 1000)}`}, started{" "}
                <time dateTime={new Date(job.started).toISOString()}>{timeText(job.started)}</time>
              </p>
              <JobOutcome job={job} />
              <JobNotes job={job} />
            </div>
            {job.state === "running" ? null : (
              <a class="button quiet" href={`#/${VIEWS[job.kind]}`} aria-label={`Open ${job.title}`}>
                Open
              </a>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}
