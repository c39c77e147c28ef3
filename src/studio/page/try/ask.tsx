// One prompt, several models, side by side, before anything is written.
import { signal } from "@preact/signals";
import type { JobInput } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, Either, Field, Form } from "../components/basics.js";
import { Select, TextField } from "../components/inputs.js";
import { SchemaField } from "../components/schema-field.js";
import { actionOf } from "../keys.js";
import { startSaved } from "../recipe/recipe-store.js";
import { attempt, change, choices, jobs, settings, useAnswer } from "../store.js";
import { AnswersOf } from "./answers.js";
import { chosen, ModelList, RunnerFields, runner, runnerText } from "./choices.js";

/** What is typed; null until something is. */
const typed = signal<string | null>(null);
const system = signal("");
const chat = signal(true);
type Json = JobInput<"verb">["input"][string];

/** Fields of the verb `generate`. */
const options = signal<Readonly<Record<string, Json>>>({ maxNewTokens: 128 });
/** Those that say how an answer is drawn. */
const DRAWN = ["maxNewTokens", "temperature", "topK", "topP", "seed", "stop", "generationConfig"];

async function ask(text: string): Promise<void> {
  await attempt(async () => {
    const prompt = { text, ...(system.value.trim() === "" ? {} : { system: system.value }) };
    await change(({ prompts: kept }) => ({
      prompts: [prompt, ...kept.filter((one) => one.text !== text)].slice(0, 50),
    }));
    const models = chosen.value.map(({ name, source }) => ({ name, source }));
    await startSaved({
      kind: "answer",
      input: { models, prompt, chat: chat.value, ...options.value, runner: runner.value },
    });
  });
}

function setOption(name: string, value: unknown): void {
  const { [name]: _, ...others } = options.value;
  options.value = value === undefined ? others : { ...others, [name]: value as Json };
}

export function Ask() {
  const prompts = settings.value?.prompts ?? [];
  const text = typed.value ?? prompts[0]?.text ?? "";
  const [shown] = jobs.value.filter(({ kind }) => kind === "answer");
  const count = chosen.value.length;
  const verbs = useAnswer(() => call("verbs", {}), [])?.verbs ?? [];
  const fields = (verbs.find((verb) => verb.name === "generate")?.fields ?? []).filter((one) =>
    DRAWN.includes(one.name),
  );
  const canAsk = shown?.state !== "running" && count > 0 && text !== "";
  return (
    <div class="stack">
      <Form class="ask" onSubmit={() => void ask(text)}>
        <div class="stack">
          <Field label="Prompt">
            {(attributes) => (
              <textarea
                {...{ ...attributes, rows: 4, maxLength: 100_000, value: text }}
                onInput={({ currentTarget }) => (typed.value = currentTarget.value)}
                onKeyDown={(event) => {
                  if (actionOf("Prompt", event) === "ask" && canAsk) void ask(text);
                }}
              />
            )}
          </Field>
          {prompts.length > 0 ? (
            <Select
              {...{ label: "Earlier prompts", value: "" }}
              options={[
                ["", "Choose one"],
                ...prompts.map(({ text: one }, i): [string, string] => [
                  String(i),
                  one.length > 80 ? `${one.slice(0, 80)}…` : one,
                ]),
              ]}
              onChange={(at) => {
                const kept = prompts[Number(at)];
                typed.value = kept?.text ?? "";
                system.value = kept?.system ?? "";
              }}
            />
          ) : null}
        </div>
        <div class="stack">
          <ModelList />
          <Either
            label="Form of the prompt"
            texts={["Text", "Chat"]}
            value={chat.value}
            onChange={(value) => (chat.value = value)}
          />
          <details>
            <summary>
              Options <span class="small soft">{runnerText(runner.value)}</span>
            </summary>
            <div class="method-form">
              <RunnerFields />
              {chat.value ? (
                <TextField label="System message" value={system.value} onChange={(value) => (system.value = value)} />
              ) : null}
              {fields.map((field) => (
                <SchemaField
                  key={field.name}
                  {...{ field, models: [], value: options.value[field.name] }}
                  set={(value) => setOption(field.name, value)}
                />
              ))}
            </div>
          </details>
          <Button
            text={`Ask ${count === 1 ? chosen.value[0]?.name : `${count} models`}`}
            type="submit"
            class="primary"
            disabled={!canAsk}
          />
        </div>
      </Form>
      {shown ? <AnswersOf key={shown.id} job={shown} choices={choices.value} /> : null}
    </div>
  );
}
