// Try: one prompt, several models, side by side, before anything is written.
import { diffWords } from "diff";
import { useEffect, useState } from "preact/hooks";
import { z } from "zod";
import { type Job, jobInputs } from "../../protocol.ts";
import { call } from "../client.ts";
import { Empty, Field, ownClass, Segments } from "../components/basics.tsx";
import { JobProgress } from "../components/progress.tsx";
import { attempt, change, jobs, onEvent, project, settings } from "../store.ts";

const answers = z.record(z.string(), z.object({ text: z.string(), finish: z.string(), tokens: z.number() }));
type Answers = z.infer<typeof answers>;

interface Choice {
  readonly name: string;
  readonly source: string;
  /** Its colour; undefined for recipes. */
  readonly own: number | "base" | undefined;
}

const FINISHES: Readonly<Record<string, string>> = { length: "cut at the limit", end: "", stop: "" };

export function Try() {
  const now = settings.value;
  const { base = null, experts = [], prompts = [], recipe = null } = now ?? {};
  const choices: Choice[] = [
    ...(base === null ? [] : [{ name: "base", source: base, own: "base" as const }]),
    ...experts.map(({ name, source }, own) => ({ name, source, own })),
    ...(project.value?.recipes ?? []).map((name) => ({
      name: `recipe ${name}`,
      source: `recipes/${name}.yaml`,
      own: undefined,
    })),
  ];
  const [left, setLeft] = useState<readonly string[]>([]);
  const isChosen = ({ name, own }: Choice) =>
    !left.includes(name) && (own !== undefined || name === `recipe ${recipe}` || left.includes(`+${name}`));
  const chosen = choices.filter(isChosen);
  const [text, setText] = useState(prompts[0]?.text ?? "");
  const [system, setSystem] = useState("");
  const [chat, setChat] = useState(true);
  const [limit, setLimit] = useState(128);
  const [temperature, setTemperature] = useState(0);
  const [seed, setSeed] = useState(0);
  const asked = jobs.value.filter(({ kind }) => kind === "answer");
  const shown = asked[0];
  const isRunning = shown?.state === "running";

  if (choices.length === 0) {
    return (
      <section class="view">
        <h1 class="visually-hidden">Try</h1>
        <Empty title="Nothing to ask yet" text="Open models first; then prompt them side by side with your recipe.">
          <a class="button primary" href="#/models">
            Open models
          </a>
        </Empty>
      </section>
    );
  }
  const ask = () =>
    attempt(async () => {
      const prompt = { text, ...(system.trim() === "" ? {} : { system }) };
      await change(({ prompts: kept }) => ({
        prompts: [prompt, ...kept.filter((one) => one.text !== text)].slice(0, 50),
      }));
      const models = chosen.map(({ name, source }) => ({ name, source }));
      await call("job.start", {
        kind: "answer",
        input: { models, prompt, chat, maxNewTokens: limit, temperature, seed },
      });
    });
  const toggle = (one: Choice) => {
    const key = one.own === undefined && one.name !== `recipe ${recipe}` ? `+${one.name}` : one.name;
    setLeft(left.includes(key) ? left.filter((other) => other !== key) : [...left, key]);
  };
  return (
    <section class="view">
      <header>
        <div>
          <h1>Try</h1>
          <p>Recipes are merged in memory. Models answer one after another, so the memory is that of the largest.</p>
        </div>
      </header>
      <form
        class="ask"
        onSubmit={(event) => {
          event.preventDefault();
          void ask();
        }}
      >
        <div class="stack">
          <Field label="Prompt">
            {(attributes) => (
              <textarea
                {...{ ...attributes, rows: 4, maxLength: 100_000, value: text }}
                onInput={({ currentTarget }) => setText(currentTarget.value)}
                onKeyDown={(event) => {
                  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void ask();
                }}
              />
            )}
          </Field>
          {prompts.length > 0 ? (
            <Field label="Earlier prompts">
              {(attributes) => (
                <select
                  {...attributes}
                  value=""
                  onChange={({ currentTarget }) => {
                    const kept = prompts[Number(currentTarget.value)];
                    setText(kept?.text ?? "");
                    setSystem(kept?.system ?? "");
                  }}
                >
                  <option value="">Choose one</option>
                  {prompts.map((one, i) => (
                    <option key={one.text} value={i}>
                      {one.text.length > 80 ? `${one.text.slice(0, 80)}…` : one.text}
                    </option>
                  ))}
                </select>
              )}
            </Field>
          ) : null}
        </div>
        <div class="stack">
          <fieldset class="model-list">
            <legend class="label">Models</legend>
            {choices.map((one) => (
              <label key={one.name} class={`row ${one.own === undefined ? "own-merge" : ownClass(one.own)}`}>
                <input {...{ type: "checkbox", checked: isChosen(one), onChange: () => toggle(one) }} />
                <span class="mark" aria-hidden="true" />
                {one.name}
              </label>
            ))}
          </fieldset>
          <Segments
            label="Form of the prompt"
            options={[
              [1, "Chat"],
              [0, "Text"],
            ]}
            value={chat ? 1 : 0}
            onChange={(value) => setChat(value === 1)}
          />
          <details>
            <summary>Options</summary>
            <div class="method-form">
              {chat ? (
                <Field label="System message">
                  {(attributes) => (
                    <input
                      {...{ ...attributes, type: "text", value: system }}
                      onInput={({ currentTarget }) => setSystem(currentTarget.value)}
                    />
                  )}
                </Field>
              ) : null}
              <NumberField label="Most new tokens" value={limit} onChange={setLimit} min={1} max={4096} />
              <NumberField
                label="Temperature"
                value={temperature}
                onChange={setTemperature}
                min={0}
                max={10}
                step={0.1}
              />
              <NumberField label="Seed" value={seed} onChange={setSeed} min={0} max={2 ** 31} />
            </div>
          </details>
          <button type="submit" class="primary" disabled={isRunning || chosen.length === 0 || text === ""}>
            Ask {chosen.length === 1 ? chosen[0]?.name : `${chosen.length} models`}
          </button>
        </div>
      </form>
      {shown ? <AnswersOf key={shown.id} job={shown} choices={choices} /> : null}
    </section>
  );
}

interface NumberProps {
  readonly label: string;
  readonly value: number;
  readonly onChange: (value: number) => void;
  readonly min: number;
  readonly max: number;
  readonly step?: number;
}

function NumberField({ label, value, onChange, min, max, step = 1 }: NumberProps) {
  return (
    <Field label={label}>
      {(attributes) => (
        <input
          {...{ ...attributes, type: "number", value, min, max, step }}
          onInput={({ currentTarget }) => {
            if (currentTarget.validity.valid && currentTarget.value !== "") onChange(currentTarget.valueAsNumber);
          }}
        />
      )}
    </Field>
  );
}

/** The answers of a job: as they come, and what differs from the first when all are there. */
function AnswersOf({ job, choices }: { job: Job; choices: readonly Choice[] }) {
  const { data: input } = jobInputs.answer.safeParse(job.input);
  const [streamed, setStreamed] = useState<Readonly<Record<string, string>>>({});
  const [done, setDone] = useState<Answers | null>(null);
  useEffect(
    () =>
      onEvent((event) => {
        if (event.type !== "text" || event.job !== job.id) return;
        setStreamed((texts) => ({ ...texts, [event.stream]: (texts[event.stream] ?? "") + event.text }));
      }),
    [job.id],
  );
  useEffect(() => {
    if (job.state !== "done") return;
    void attempt(async () => setDone(answers.parse(await call("job.result", { id: job.id }))));
  }, [job.id, job.state]);
  if (!input) return null;
  const textOf = (name: string) => done?.[name]?.text ?? streamed[name] ?? "";
  const [first] = input.models;
  return (
    <>
      <p class="asked">
        <span class="label">Prompt</span> {input.prompt.text}
      </p>
      <JobProgress job={job} />
      {job.error === null ? null : <p class="notice problem">{job.error}</p>}
      <div class="answers">
        {input.models.map(({ name }, i) => {
          const own = choices.find((one) => one.name === name)?.own;
          return (
            <article key={name} class={`card ${own === undefined ? "own-merge" : ownClass(own)}`} aria-label={name}>
              <h2 class="row">
                <span class="mark" aria-hidden="true" />
                {name}
              </h2>
              <p class="answer" aria-live={job.state === "running" ? "polite" : "off"}>
                {i > 0 && first && done ? <Different from={textOf(first.name)} to={textOf(name)} /> : textOf(name)}
              </p>
              {done?.[name] ? (
                <p class="soft">
                  {done[name].tokens} tokens{FINISHES[done[name].finish] ? `, ${FINISHES[done[name].finish]}` : ""}
                </p>
              ) : null}
            </article>
          );
        })}
      </div>
      {done && input.models.length > 1 ? (
        <p class="soft">Words that {first?.name} does not have at that place are marked.</p>
      ) : null}
    </>
  );
}

/** A text whose words that are not in another one are marked. */
function Different({ from, to }: { from: string; to: string }) {
  // Long texts would take seconds; people do not compare them by word.
  if (from.length + to.length > 20_000) return <>{to}</>;
  return (
    <>
      {diffWords(from, to).map(({ value, added, removed }, i) => {
        if (removed) return null;
        return added ? <mark key={`${i} ${value}`}>{value}</mark> : value;
      })}
    </>
  );
}
