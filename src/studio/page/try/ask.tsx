// One prompt, several models, side by side, before anything is written.
import { signal } from "@preact/signals";
import { Button, Either, Field, Form } from "../components/basics.js";
import { NumberField, Select, TextField } from "../components/inputs.js";
import { actionOf } from "../keys.js";
import { startSaved } from "../recipe/recipe-store.js";
import { attempt, change, choices, jobs, settings } from "../store.js";
import { AnswersOf } from "./answers.js";
import { chosen, ModelList, RunnerFields, runner, runnerText } from "./choices.js";

/** What is typed; null until something is. */
const typed = signal<string | null>(null);
const system = signal("");
const chat = signal(true);
const limit = signal(128);
const temperature = signal(0);
const seed = signal(0);

async function ask(text: string): Promise<void> {
  await attempt(async () => {
    const prompt = { text, ...(system.value.trim() === "" ? {} : { system: system.value }) };
    await change(({ prompts: kept }) => ({
      prompts: [prompt, ...kept.filter((one) => one.text !== text)].slice(0, 50),
    }));
    const models = chosen.value.map(({ name, source }) => ({ name, source }));
    const options = { maxNewTokens: limit.value, temperature: temperature.value, seed: seed.value };
    await startSaved({
      kind: "answer",
      input: { models, prompt, chat: chat.value, ...options, runner: runner.value },
    });
  });
}

export function Ask() {
  const prompts = settings.value?.prompts ?? [];
  const text = typed.value ?? prompts[0]?.text ?? "";
  const [shown] = jobs.value.filter(({ kind }) => kind === "answer");
  const count = chosen.value.length;
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
              <NumberField
                {...{ label: "New tokens, at most", value: limit.value, min: 1, max: 4096 }}
                onChange={(value) => (limit.value = value)}
              />
              <NumberField
                {...{ label: "Temperature", value: temperature.value, min: 0, max: 10, step: 0.1 }}
                onChange={(value) => (temperature.value = value)}
              />
              <NumberField
                {...{ label: "Seed", value: seed.value, min: 0, max: 2 ** 31 }}
                onChange={(value) => (seed.value = value)}
              />
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
