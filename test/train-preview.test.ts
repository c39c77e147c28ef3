// What `train --preview` prints of data as published sets write it: shapes of theirs, rows of our own.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { temporaryFolder } from "./support/checkpoints.js";
import { DONE, layergraft } from "./support/command.js";
import { writeBase, writeItems } from "./support/world.js";

const work = temporaryFolder();

const fixture = (name: string) =>
  JSON.parse(readFileSync(join(import.meta.dirname, "fixtures/tokenizers", `${name}.json`), "utf8"));

// Tools and calls as Qwen 2.5 writes them, in short.
const TEMPLATE =
  "{% if tools %}<|im_start|>system\nTools: {{ tools | map(attribute='function') | map(attribute='name') | join(', ') }}<|im_end|>\n{% endif %}" +
  "{% for m in messages %}{% if m.role == 'tool' %}<|im_start|>user\n<tool_response>{{ m.content }}</tool_response><|im_end|>\n" +
  "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for call in m.tool_calls %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>\n" +
  "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const call = { id: "c1", type: "function", function: { name: "add", arguments: '{"a": 2, "b": 3}' } };
const tool = { type: "function", function: { name: "add", parameters: { type: "object", properties: {} } } };
const user = { role: "user", content: "What is 2 + 3?" };
const answer = { role: "assistant", content: "2 + 3 = 5." };
const system = { role: "system", content: "Be brief." };
const said = (from: string, value: string) => ({ from, value });

const USER = "<|im_start|>user\nWhat is 2 + 3?<|im_end|>\n<|im_start|>assistant\n";
const PLAIN = `${USER}⟦2 + 3 = 5.<|im_end|>⟧\n`;
const SYSTEM = "<|im_start|>system\nBe brief.<|im_end|>\n";
const CALLED =
  `<|im_start|>system\nTools: add<|im_end|>\n${USER}` +
  '⟦<tool_call>{"name": "add", "arguments": {"a": 2, "b": 3}}</tool_call><|im_end|>⟧\n' +
  "<|im_start|>user\n<tool_response>5</tool_response><|im_end|>\n<|im_start|>assistant\n⟦2 + 3 = 5.<|im_end|>⟧\n";

const SHAPES: Record<string, { row: object; text: string; fields: string; notes?: string[] }> = {
  openai: {
    row: {
      messages: [
        ...[system, user, { role: "assistant", content: "9.", weight: 0 }],
        ...[user, { role: "assistant", content: "" }, user, answer],
      ],
    },
    text: `${SYSTEM}${USER}9.<|im_end|>\n${USER}<|im_end|>\n${PLAIN}`,
    fields: "conversations from messages",
    notes: ["marked weight: 0", "empty"],
  },
  "openai-tools": {
    row: {
      messages: [
        ...[user, { role: "assistant", content: null, tool_calls: [call] }],
        ...[{ role: "tool", tool_call_id: "c1", content: "5" }, answer],
      ],
      tools: [tool],
    },
    text: CALLED,
    fields: "conversations from messages, tools from tools",
  },
  sharegpt: {
    row: { conversations: [said("human", user.content), said("gpt", answer.content)], system: "Be brief." },
    text: `${SYSTEM}${PLAIN}`,
    fields: "conversations from conversations, system message from system",
  },
  "sharegpt-tools": {
    row: {
      conversations: [
        ...[said("human", user.content), said("function_call", JSON.stringify(call.function))],
        ...[said("observation", "5"), said("gpt", answer.content)],
      ],
      tools: JSON.stringify([tool.function]),
    },
    text: CALLED,
    fields: "conversations from conversations, tools from tools",
  },
  alpaca: {
    row: { instruction: "What is", input: "2 + 3?", output: answer.content, text: "Below is an instruction" },
    text: PLAIN.replace("is 2", "is\n\n2"),
    fields: "prompt from instruction and input, response from output",
  },
  dolly: {
    row: { instruction: user.content, context: "", response: answer.content, category: "math" },
    text: PLAIN,
    fields: "prompt from instruction and context, response from response",
  },
  gsm8k: {
    row: { question: user.content, answer: answer.content },
    text: PLAIN,
    fields: "prompt from question, response from answer",
  },
  "trl-messages": {
    row: { prompt: [system, user, { role: "assistant", content: "9." }, user], completion: [answer] },
    text: `${SYSTEM}${USER}9.<|im_end|>\n${PLAIN}`,
    fields: "prompt from prompt, response from completion",
    notes: ["in the prompt"],
  },
  parts: {
    row: {
      messages: [user, answer].map(({ role, content }) => ({ role, content: [{ type: "text", text: content }] })),
    },
    text: PLAIN,
    fields: "conversations from messages",
  },
  ultrachat: {
    row: { prompt: user.content, prompt_id: "x", messages: [user, answer] },
    text: PLAIN,
    fields: "conversations from messages",
  },
  swift: {
    row: {
      messages: [
        ...[user, { role: "tool_call", content: JSON.stringify({ name: "add", arguments: { a: 2, b: 3 } }) }],
        ...[
          { role: "tool_response", content: "5" },
          { ...answer, loss: true },
        ],
      ],
      tools: JSON.stringify([tool]),
    },
    text: CALLED,
    fields: "conversations from messages, tools from tools",
  },
  "query-response": {
    row: { messages: null, query: user.content, response: answer.content, history: [] },
    text: PLAIN,
    fields: "prompt from query, response from response",
  },
  "input-output": {
    row: { input: user.content, output: answer.content },
    text: PLAIN,
    fields: "prompt from input, response from output",
  },
};

describe("train --preview", () => {
  let preview: string;
  let dryRun: string;

  beforeAll(async () => {
    writeBase(join(work, "base"), { tokenizer: { json: fixture("qwen"), size: 512 } });
    writeFileSync(join(work, "base", "chat_template.jinja"), TEMPLATE);
    writeFileSync(join(work, "base", "generation_config.json"), JSON.stringify({ eos_token_id: 362 }));
    for (const [name, { row }] of Object.entries(SHAPES)) writeItems(join(work, `${name}.jsonl`), [row]);
    writeFileSync(join(work, "cells.csv"), "question,answer\nWhat is 2 + 3?,nan\n");
    const sets = [...Object.keys(SHAPES).map((name) => ({ name, source: `${name}.jsonl` })), "cells.csv"];
    const run = { base: "base", out: "out", data: sets, sequence_length: 1000, steps: 1 };
    writeFileSync(join(work, "run.json"), JSON.stringify(run));
    const outcomes = await Promise.all(
      [["--preview", "20"], ["--dry-run"]].map((flags) => layergraft(["train", "run.json", ...flags], { cwd: work })),
    );
    expect(outcomes.map(({ status, stderr }) => ({ status, stderr }))).toEqual(
      outcomes.map(() => ({ status: DONE, stderr: "" })),
    );
    [preview = "", dryRun = ""] = outcomes.map(({ stdout }) => stdout);
  });

  it.each(Object.entries(SHAPES))("prints %s as the model sees it", (name, { text }) => {
    const [, shown] = preview.split(new RegExp(`^example \\d+ of ${name}, \\d+ tokens\n`, "m"));
    // An empty line ends an example.
    expect(`${shown}\n`.split(/\n\n(?=example |$)/)[0]?.trimEnd()).toBe(text.trimEnd());
  });

  it.each(Object.entries(SHAPES))(
    "names the columns of %s, and what is not learned",
    (name, { fields, notes = [] }) => {
      const columns = `${fields}; formatted with the model's chat template`;
      expect(dryRun).toContain(`  ${name}: ${columns}\n`);
      const found = [...preview.matchAll(new RegExp(`^  ${name}: (.*)$`, "gm"))].map(([, note]) => note);
      expect(found).toEqual([
        columns,
        ...notes.map(
          (note) => `1 turn of the assistant not learned: ${note} (first: ${join(".", `${name}.jsonl`)}, line 1)`,
        ),
      ]);
    },
  );

  it("names cells that may mean a missing value", () => {
    const note = "note: 1 row with the text answer: nan. Leave a missing value empty (first: cells.csv, line 2)";
    for (const printed of [preview, dryRun]) expect(printed).toContain(`  cells.csv: ${note}\n`);
  });
});
