// Every command that is a verb, with a form that its schema makes.
import { useState } from "preact/hooks";
import { type Job, type JobInput, recipeSource, type VerbFound, type VerbReference } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, Cautions, Form } from "../components/basics.js";
import { Select } from "../components/inputs.js";
import { useVerbs, type Values, VerbFields } from "../components/verb-fields.js";
import { JobOutcome } from "../recipe/outcome.js";
import { attempt, jobs, project, settings, useAnswer } from "../store.js";

const isOf = (name: string) => (job: Job) => job.kind === "verb" && (job.input as JobInput<"verb">).verb === name;

export function Verbs() {
  const verbs = useVerbs();
  const latest = jobs.value.find(({ kind }) => kind === "verb");
  const [chosen, choose] = useState((latest?.input as JobInput<"verb"> | undefined)?.verb);
  const verb = verbs.find(({ name }) => name === chosen) ?? verbs[0];
  return (
    <section class="view">
      <header>
        <div>
          <h1>Commands</h1>
          <p>Run a command of layergraft with the models of this project. Paths start from the project's folder.</p>
        </div>
      </header>
      {verb ? (
        <>
          <Select label="Command" value={verb.name} options={verbs.map(({ name }) => name)} onChange={choose} />
          <VerbForm key={verb.name} verb={verb} />
        </>
      ) : (
        <p class="soft">Loading…</p>
      )}
    </section>
  );
}

function VerbForm({ verb }: { readonly verb: VerbReference }) {
  const { base = null, experts = [] } = settings.value ?? {};
  const job = jobs.value.find(isOf(verb.name));
  const before = (job?.input as JobInput<"verb"> | undefined)?.input ?? {};
  const [input, setInput] = useState<Values>(before);
  const [isForced, force] = useState(false);
  const models = [
    ...(base === null ? [] : [{ name: "base", source: base }]),
    ...experts,
    ...(project.value?.recipes ?? []).map((name) => ({ name: `recipe ${name}`, source: recipeSource(name) })),
  ];
  const isRunning = job?.state === "running";
  const start = (resume: boolean) => {
    const how = { ...(verb.canReplace && isForced ? { force: true } : {}), ...(resume ? { resume } : {}) };
    return attempt(() => call("job.start", { kind: "verb", input: { verb: verb.name, input, ...how } }));
  };
  return (
    <>
      <p class="soft">{verb.description}</p>
      <Form class="stack" onSubmit={() => void start(false)}>
        <VerbFields {...{ verb: verb.name, values: input, set: setInput, models }} />
        {verb.canReplace ? (
          <label class="row">
            <input type="checkbox" checked={isForced} onChange={({ currentTarget }) => force(currentTarget.checked)} />
            Replace what an earlier run wrote
          </label>
        ) : null}
        <div class="row">
          <button type="submit" class="primary" disabled={isRunning}>
            Run {verb.name}
          </button>
          {verb.canResume && job && !isRunning && job.state !== "done" ? (
            <Button text="Resume" onClick={() => void start(true)} />
          ) : null}
        </div>
      </Form>
      {job ? <JobOutcome job={job} /> : null}
      {job?.state === "done" ? <Found key={job.id} job={job} /> : null}
    </>
  );
}

function Found({ job }: { readonly job: Job }) {
  const found = useAnswer(async () => (await call("job.result", { id: job.id })) as unknown as VerbFound, [job.id]);
  if (!found) return <p class="soft">Loading…</p>;
  return (
    <div class="card stack">
      <Cautions texts={found.notes.slice(0, 20)} />
      {found.figures.map((figure, i) => (
        <FigureView key={i} figure={figure} />
      ))}
    </div>
  );
}

function FigureView({ figure }: { readonly figure: VerbFound["figures"][number] }) {
  if (figure.kind === "text") return <pre>{figure.lines.join("\n")}</pre>;
  if (figure.kind === "entries") {
    return (
      <dl>
        {figure.entries.map(({ name, lines }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{lines.join("; ")}</dd>
          </div>
        ))}
      </dl>
    );
  }
  return (
    <table>
      {figure.title === "" ? null : <caption>{figure.title}</caption>}
      <thead>
        <tr>
          {figure.columns.map((column) => (
            <th key={column} scope="col">
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {figure.rows.map((row) => (
          <tr key={row.join(" ")}>
            {row.map((cell, i) => (
              <td key={figure.columns[i]}>{cell}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
