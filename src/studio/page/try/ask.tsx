// One prompt, several models, side by side, before anything is written.
import { signal } from "@preact/signals";
import { Button, Either, Field, Form } from "../components/basics.js";
import { Select, TextField } from "../components/inputs.js";
import { type Values, VerbFields } from "../components/verb-fields.js";
import { actionOf } from "../keys.js";
import { startSaved } from "../recipe/recipe-store.js";
import { attempt, change, choices, jobs, settings } from "../store.js";
import { AnswersOf } from "./answers.js";
import { chosen, ModelList } from "./choices.js";

/** What is typed; null until something is. */
const typed = signal<string | null>(null);
const system = signal("");
const chat = signal(true);
/** Fields of the verb `generate`; several answers are to be read at once. */
const fields = signal<Values>({ maxNewTokens: 128 });
/** Those that are made of the models and the prompt. */
const MADE = ["source", "prompts", "ids", "chat", "system"];

async function ask(text: string): Promise<void> {
  await attempt(async () => {
    const prompt = { text, ...(system.value.trim() === "" ? {} : { system: system.value }) };
    await change(({ prompts: kept }) => ({
      prompts: [prompt, ...kept.filter((one) => one.text !== text)].slice(0, 50),
    }));
    const models = chosen.value.map(({ name, source }) => ({ name, source }));
    await startSaved({
      kind: "answer",
      input: {
        ...fields.value,
        models,
        prompts: [text],
        chat: chat.value,
        ...(chat.value && prompt.system !== undefined ? { system: prompt.system } : {}),
      },
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
          {chat.value ? (
            <TextField label="System message" value={system.value} onChange={(value) => (system.value = value)} />
          ) : null}
          <VerbFields verb="generate" made={MADE} values={fields.value} set={(values) => (fields.value = values)} />
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
