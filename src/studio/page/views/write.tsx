// Leave: the merge on the disk, as a GGUF file, on the hub, or as an experiment; and each as a command.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { formatDuration } from "../../../kit/printing/format.js";
import { LAYER_COUNTS } from "../../../merge/plain.js";
import { type Input, type Job, type JobInput, jobInputs, type Output, recipeSource } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, Cautions, EmptyView, Form, Notice } from "../components/basics.js";
import { Select, TextField } from "../components/inputs.js";
import { Command } from "../components/progress.js";
import { useTask } from "../components/task-fields.js";
import { choose } from "../experiments/experiment-store.js";
import { JobOutcome } from "../recipe/outcome.js";
import {
  check,
  methods,
  recipeOfText,
  text as recipeText,
  startSaved as start,
  whenSaved,
} from "../recipe/recipe-store.js";
import { addExpert, attempt, jobs, project, settings, useAnswer } from "../store.js";

const TYPES = jobInputs.export.shape.type.options;

export function Write() {
  const { recipe = null } = settings.value ?? {};
  if (recipe === null) {
    return (
      <EmptyView
        view="Write"
        title="No recipe is open"
        text="Make or open a recipe; then write its model."
        link={["recipe", "Open a recipe"]}
      />
    );
  }
  return (
    <section class="view">
      <header>
        <div>
          <h1>Write {recipe}</h1>
          <p>Outputs appear whole or not at all. What was interrupted is resumed to the same bytes.</p>
        </div>
      </header>
      <div class="ways">
        <Merge key={`merge ${recipe}`} recipe={recipe} />
        <Export key={`export ${recipe}`} recipe={recipe} />
        <Push key={`push ${recipe}`} recipe={recipe} />
        <Experiment key={`experiment ${recipe}`} recipe={recipe} />
        <Share key={`share ${recipe}`} recipe={recipe} />
      </div>
    </section>
  );
}

type Started = Extract<Input<"job.start">, { kind: "merge" | "export" }>;

interface Again {
  readonly force?: boolean;
  readonly allowUnrelated?: boolean;
}

interface LatestProps {
  readonly job: Job | undefined;
  readonly again: ((how: Again) => Started) | undefined;
  readonly done?: string;
  /** What was written, where it is on this machine. */
  readonly path?: string | undefined;
  readonly children?: ComponentChildren;
}

/** The latest job of a kind for a recipe, how it went, and what can follow. */
function Latest({ job, again, done = "Written", path, children }: LatestProps) {
  if (!job) return null;
  const { state, option, error, started, ended } = job;
  if (again && state === "failed" && option !== undefined) {
    const isThere = option === "force";
    return (
      <Notice kind="problem" text={isThere ? "There is already one at this place." : error}>
        <Button
          text={isThere ? "Replace what is there" : "Merge them anyway"}
          class="danger"
          onClick={() => start(again({ [option]: true }))}
        />
      </Notice>
    );
  }
  if (state !== "done") return <JobOutcome job={job} />;
  return (
    <>
      <p role="status" class="soft">
        {done} in {formatDuration(((ended ?? started) - started) / 1000)}.
      </p>
      {path === undefined ? null : (
        <>
          <p class="path">{path}</p>
          <div class="row">
            <Button text="Copy the path" onClick={() => attempt(() => navigator.clipboard.writeText(path))} />
            {children}
          </div>
        </>
      )}
    </>
  );
}

const latestOf = (kind: Job["kind"], isIt: (input: unknown) => boolean): Job | undefined =>
  jobs.value.find((job) => job.kind === kind && isIt(job.input));
const isOf = (recipe: string) => (input: unknown) => (input as { recipe?: unknown }).recipe === recipe;
/** Where a merge or an export was written: absolute, so that recipes find it, too. */
function pathOf(job: Job | undefined): string | undefined {
  const { out } = (job?.input ?? {}) as { out?: string };
  return out === undefined || /^([/~]|[A-Za-z]:)/.test(out) ? out : `${project.value?.folder}/${out}`;
}
function Merge({ recipe }: { recipe: string }) {
  const job = latestOf("merge", isOf(recipe));
  const before = job?.input as JobInput<"merge"> | undefined;
  const [out, setOut] = useState(before?.out ?? `models/${recipe}`);
  const input = ({ force = false, allowUnrelated = false }: Again): Started => ({
    kind: "merge",
    input: { recipe, out, resume: false, force, allowUnrelated },
  });
  const path = pathOf(job);
  // One refusal may follow another, so what was allowed stays allowed.
  const again = (how: Again) =>
    input({ force: before?.force ?? false, allowUnrelated: before?.allowUnrelated ?? false, ...how });
  return (
    <Way
      title="Merged model"
      text="A folder that transformers, vLLM and layergraft open."
      command={["merge", recipeSource(recipe), "--out", out]}
    >
      <Form class="stack" onSubmit={() => void start(input({}))}>
        {pathField("Folder", out, setOut, "Relative to the project.")}
        <Button text="Write the model" type="submit" class="primary" disabled={job?.state === "running"} />
      </Form>
      <Latest job={job} again={again} path={path}>
        {path === undefined || settings.value?.experts.some(({ source }) => source === path) ? null : (
          <Button text="Add as a model" onClick={() => addExpert(path)} />
        )}
      </Latest>
    </Way>
  );
}

function Export({ recipe }: { recipe: string }) {
  const job = latestOf("export", isOf(recipe));
  const before = job?.input as JobInput<"export"> | undefined;
  const [type, setType] = useState<JobInput<"export">["type"]>(before?.type ?? "q4_k_m");
  const [out, setOut] = useState(before?.out ?? `models/${recipe}.gguf`);
  const looked = useAnswer(() => call("recipe.exportable", { name: recipe }), [project.value]);
  const input = ({ force = false }: Again): Started => ({
    kind: "export",
    input: { recipe, out, type, resume: false, force },
  });
  return (
    <Way
      title="GGUF file"
      text="One file for llama.cpp, merged and quantised in one pass."
      command={["export", recipeSource(recipe), "--type", type, "--out", out]}
    >
      <Form class="stack" onSubmit={() => void start(input({}))}>
        {pathField("File", out, setOut, "Relative to the project.")}
        <Select label="Encoding" value={type} options={TYPES} onChange={setType} />
        <Button text="Export" type="submit" disabled={looked?.problem !== null || job?.state === "running"} />
        <Cautions texts={looked?.problem ? [looked.problem] : []} />
      </Form>
      <Latest job={job} again={input} path={pathOf(job)} />
    </Way>
  );
}

function Push({ recipe }: { recipe: string }) {
  const merged = latestOf("merge", isOf(recipe));
  const folder = merged?.state === "done" ? (merged.input as JobInput<"merge">).out : undefined;
  const job = latestOf("push", (input) => (input as { folder?: unknown }).folder === folder);
  const [repository, setRepository] = useState("");
  const [isPrivate, setPrivate] = useState(true);
  return (
    <Way
      title="Hub"
      text="Pushes the merged model as one commit, with the token that huggingface_hub finds on this machine."
      command={["push", folder ?? `models/${recipe}`, repository || "org/name", ...(isPrivate ? ["--private"] : [])]}
    >
      <Form
        class="stack"
        onSubmit={() => {
          if (folder) void start({ kind: "push", input: { folder, repository, isPrivate } });
        }}
      >
        {pathField("Repository", repository, setRepository, "Such as org/name.")}
        <label class="row">
          <input {...{ type: "checkbox", checked: isPrivate, onChange: () => setPrivate(!isPrivate) }} />
          Private
        </label>
        <Button text="Push" type="submit" disabled={folder === undefined || job?.state === "running"} />
        {folder === undefined ? <p class="soft">Write the model first.</p> : null}
      </Form>
      <Latest
        job={job}
        again={undefined}
        done={`Pushed to ${(job?.input as JobInput<"push"> | undefined)?.repository}`}
      />
    </Way>
  );
}

function Share({ recipe }: { recipe: string }) {
  const [made, setMade] = useState<Output<"recipe.share"> | null>(null);
  const share = () => whenSaved(async () => setMade(await call("recipe.share", { name: recipe })));
  return (
    <Way
      title="Page to share"
      text="One HTML file with layers, models, scores and what was gained and lost. It opens anywhere, and has no paths of this machine."
      command={["studio", ".", "--share", recipe]}
    >
      <div class="row">
        <Button text="Write the page" onClick={() => void share()} />
        {made === null ? null : (
          <a class="button" href={made.url} target="_blank" rel="noopener noreferrer">
            Open the page
          </a>
        )}
      </div>
      {made === null ? null : <p class="path">{made.file}</p>}
    </Way>
  );
}

interface Axis {
  readonly field: string;
  readonly values: string;
}

/** Fields of the open recipe that are numbers, with values to begin with. */
function axesOf(): Axis[] {
  const recipe = recipeOfText(recipeText.value);
  const half = Math.floor((check.value?.plan?.layers ?? 0) / 2);
  const { fields = [] } = methods.value.find(({ name }) => name === recipe?.method) ?? {};
  return fields.flatMap(({ name, type }) => {
    if (name === "seed" || !/number$|^parameter$/.test(type)) return [];
    const counts = [0, 1, 2, 3].filter((count) => count <= Math.max(1, half));
    return [{ field: name, values: type === "whole number" ? counts.join(", ") : "0.25, 0.5, 0.75, 1" }];
  });
}

const numbersOf = (text: string) => text.split(/[\s,]+/).flatMap((word) => (word === "" ? [] : Number(word)));

/** The plan of an experiment around the recipe, or of a map of its scores over two fields. */
function Experiment({ recipe }: { recipe: string }) {
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
        {isMap && axes.some(({ field }) => LAYER_COUNTS.includes(field)) && recipeOfText(recipeText.value)?.layers ? (
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
        <>
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
        </>
      )}
    </Way>
  );
}

interface WayProps {
  readonly title: string;
  readonly text: string;
  readonly command: readonly string[];
  readonly children: ComponentChildren;
}

/** A way to leave: what it makes, its form, and the command that does the same. */
function Way({ title, text, command, children }: WayProps) {
  return (
    <article class="card way" aria-label={title}>
      <h2>{title}</h2>
      <p class="soft">{text}</p>
      {children}
      <details>
        <summary>Command</summary>
        <Command words={command} />
      </details>
    </article>
  );
}

const pathField = (label: string, value: string, onChange: (value: string) => void, hint: string) => (
  <TextField {...{ label, value, onChange, hint, isCode: true, required: true }} />
);
