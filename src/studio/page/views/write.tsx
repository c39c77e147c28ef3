// Leave: the merge on the disk, as a GGUF file, on the hub, or as an experiment; and each as a command.

import { useState } from "preact/hooks";
import { LAYER_COUNTS } from "../../../merge/layer-owner.js";
import { type Job, type JobInput, type Output, recipeSource } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, EmptyView, Form, Notice } from "../components/basics.js";
import { Select } from "../components/inputs.js";
import { addressOf, pixelsOf } from "../components/pixels.js";
import { useTask } from "../components/task-fields.js";
import { type Values, VerbFields } from "../components/verb-fields.js";
import { runAndShow } from "../experiments/experiment-store.js";
import {
  check,
  methods,
  problemText,
  recipeOfText,
  text as recipeText,
  startSaved,
  unsaved,
} from "../recipe/recipe-store.js";
import {
  type Again,
  expired,
  Latest,
  Made,
  pathField,
  pathOf,
  type Started,
  Submit,
  useMade,
  Way,
} from "../recipe/way.js";
import { addExpert, attempt, jobs, project, settings, useAnswer } from "../store.js";

const SERVED = "Next, serve it: clients of OpenAI reach it at http://127.0.0.1:8000/v1.";
const RUN = "Next, run it in llama.cpp, which answers at http://127.0.0.1:8080.";

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
      {check.value?.plan === null && unsaved.value === null ? (
        <Notice
          kind="problem"
          text={[`Nothing can be made of ${recipe} as it is.`, ...check.value.problems.map(problemText)].join("\n")}
        >
          <a class="button" href="#/recipe">
            Open the recipe
          </a>
        </Notice>
      ) : null}
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

const latestOf = (kind: Job["kind"], isIt: (input: unknown) => boolean): Job | undefined =>
  jobs.value.find((job) => job.kind === kind && isIt(job.input));
/** Where a job wrote, as it was given. */
const outOf = (job: Job | undefined) => (Object(job?.input) as { out?: string }).out ?? "";
const isOf = (recipe: string) => (input: unknown) => (input as { recipe?: unknown }).recipe === recipe;

/** Fields of a verb: those of the latest job but for the page's own, or others to begin with. */
function useFields(start: Values, job: Job | undefined) {
  const own = ["recipe", "resume", "force", "allowUnrelated"];
  const before = Object.entries(Object(job?.input) as Values).filter(([name]) => !own.includes(name));
  return useState<Values>(job ? Object.fromEntries(before) : start);
}

/** Writes what a job wrote again. */
const againAs =
  (job: Job | undefined) =>
  (how: Again): Started =>
    ({ kind: job?.kind, input: { ...Object(job?.input), ...how } }) as Started;

/** Stages that have cards of their own, or that Try does. */
const STAGES = ["eval", "limit", "export", "pushAnyway"];

function Merge({ recipe }: { recipe: string }) {
  const job = latestOf("merge", isOf(recipe));
  const [fields, setFields] = useFields({ out: `models/${recipe}` }, job);
  const out = String(fields.out ?? "");
  const path = pathOf(job);
  return (
    <Way
      title="Merged model"
      text="A folder that transformers, vLLM and layergraft open."
      command={["merge", recipeSource(recipe), "--out", out]}
    >
      <Form class="stack" onSubmit={() => void startSaved({ kind: "merge", input: { ...fields, out, recipe } })}>
        <VerbFields verb="merge" made={["recipe", ...STAGES]} values={fields} set={setFields} />
        <Submit text="Write the model" class="primary" isBusy={job?.state === "running"} />
      </Form>
      <Latest job={job} again={againAs(job)} path={path} next={[SERVED, "layergraft", "serve", outOf(job)]}>
        {path === undefined || settings.value?.experts.some(({ source }) => source === path) ? null : (
          <Button text="Add as a model" onClick={() => addExpert(path)} />
        )}
      </Latest>
    </Way>
  );
}

function Export({ recipe }: { recipe: string }) {
  const job = latestOf("export", isOf(recipe));
  const [fields, setFields] = useFields({ type: "q4_k_m", out: `models/${recipe}.gguf` }, job);
  const out = String(fields.out ?? "");
  const looked = useAnswer(() => call("recipe.exportable", { name: recipe }), [project.value]);
  return (
    <Way
      title="GGUF file"
      text="One file for llama.cpp, merged and quantised in one pass."
      command={["export", recipeSource(recipe), "--type", String(fields.type ?? "q8_0"), "--out", out]}
    >
      <Form class="stack" onSubmit={() => void startSaved({ kind: "export", input: { ...fields, out, recipe } })}>
        <VerbFields
          {...{ verb: "export", made: ["source", "format"], values: fields, set: setFields }}
          choices={looked ? { type: looked.types } : {}}
        />
        <Submit
          text="Export"
          closed={looked === undefined ? "The recipe is being checked." : (looked.problem ?? undefined)}
          isBusy={job?.state === "running"}
        />
      </Form>
      <Latest job={job} again={againAs(job)} path={pathOf(job)} next={[RUN, "llama-server", "-m", outOf(job)]} />
    </Way>
  );
}

function Push({ recipe }: { recipe: string }) {
  const merged = latestOf("merge", isOf(recipe));
  const late = merged?.state === "done" ? expired(merged) : "Write the model first.";
  const source = late === null ? outOf(merged) : undefined;
  const latest = latestOf("push", (input) => (input as { source?: unknown }).source === source);
  // What was pushed before the model was written again is another one.
  const pushed = (latest?.input as JobInput<"push"> | undefined)?.name ?? "";
  const job = latest && latest.started >= (merged?.ended ?? 0) ? latest : undefined;
  // What is public cannot be taken back.
  const [fields, setFields] = useState<Values>({ private: true });
  const words = [source ?? `models/${recipe}`, String(fields.name ?? "org/name")];
  return (
    <Way
      title="Hub"
      text="Pushes the merged model as one commit, with the token that huggingface_hub finds on this machine."
      command={["push", ...words, ...(fields.private ? ["--private"] : [])]}
    >
      <Form
        class="stack"
        onSubmit={() => {
          if (source) void startSaved({ kind: "push", input: { ...fields, source, name: String(fields.name ?? "") } });
        }}
      >
        <VerbFields verb="push" made={["source", "dryRun"]} values={fields} set={setFields} />
        <Submit
          text="Push"
          closed={late !== null && (merged?.state === "done" ? `The written model cannot be pushed. ${late}` : late)}
          isBusy={job?.state === "running"}
        />
      </Form>
      <Latest job={job} of={merged} done={`Pushed to ${pushed}`} next={[SERVED, "layergraft", "serve", pushed]}>
        {job?.made?.url === undefined ? null : (
          <a class="button" href={job.made.url} target="_blank" rel="noopener noreferrer">
            Open it on the hub
          </a>
        )}
      </Latest>
    </Way>
  );
}

const IsThere = ({ what, file, onReplace }: { what: string; file: string; onReplace: () => void }) => (
  <Notice kind="problem" text={`There is already a ${what} at this place.\n${file}`}>
    <Button text="Replace what is there" class="danger" onClick={onReplace} />
  </Notice>
);

function Share({ recipe }: { recipe: string }) {
  const [made, make] = useMade<Output<"recipe.share">>(recipe);
  const share = (force: boolean) =>
    void make(async () => {
      const found = await call("recipe.share", { name: recipe, force });
      if (!found.isThere) await call("recipe.picture", { name: recipe, png: await pixelsOf(found.picture) });
      return found;
    });
  return (
    <Way
      title="Page to share"
      text="One HTML file with layers, models, scores and what was gained and lost. It opens anywhere, and has no paths of this machine. Beside it is one picture of the merge, 1200 by 630, which a link to the page is shown with."
      command={["studio", ".", "--share", recipe, "--force"]}
    >
      <Form class="stack" onSubmit={() => share(false)}>
        <Submit text="Write the page" />
      </Form>
      {made?.isThere ? <IsThere what="page" file={made.file} onReplace={() => share(true)} /> : null}
      {made && !made.isThere ? (
        <Made of={made} text="Wrote the page." path={made.file}>
          <a class="button" href={made.url} target="_blank" rel="noopener noreferrer">
            Open the page
          </a>
          <img class="shared" src={addressOf(made.picture)} alt={`Layers and scores of ${recipe}`} />
        </Made>
      ) : null}
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
  const [made, makePlan] = useMade<Output<"recipe.experiment">>(recipe);
  const [isMap, setMap] = useState(false);
  const possible = axesOf();
  const [chosen, setAxes] = useState<readonly Axis[]>();
  const axes = chosen ?? possible.slice(0, 2);
  const make = (force: boolean) =>
    makePlan(() => {
      const given = isMap
        ? { grid: Object.fromEntries(axes.map(({ field, values }) => [field, numbersOf(values)])) }
        : {};
      return call("recipe.experiment", { name: recipe, task: task ?? "", force, ...given });
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
        <Submit text="Make the plan" closed={task === null && "Choose a task first."} />
      </Form>
      {made?.isThere ? <IsThere what="plan" file={made.file} onReplace={() => void make(true)} /> : null}
      {made && !made.isThere ? (
        <Made of={made} text="Wrote the plan." path={made.file}>
          <Button text="Run and watch it" onClick={() => void attempt(() => runAndShow(made.plan))} />
        </Made>
      ) : null}
    </Way>
  );
}
