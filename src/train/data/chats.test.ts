// Conversations as published sets write them: marks of what is learned, calls of tools, parts, and messages as prompts.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, describe, expect, it } from "vitest";
import { toyTokenizer } from "../../../test/support/toy-tokenizer.js";
import { makeChatTemplate } from "../../text/index.js";
import { parseRun } from "../run/run-file.js";
import { encoderOf, previewOf } from "./encode.js";
import type { Mapped } from "./example.js";
import { compileMapping, mappingSchema } from "./mapping.js";
import { prepareData } from "./prepare.js";
import type { Row } from "./read/index.js";
import { parseRow } from "./read/json-array.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-chats-"));
afterAll(() => rmSync(folder, { recursive: true }));

const tokenizer = toyTokenizer();

// As in Qwen 2.5: tools first, calls as JSON, answers of tools as messages of the user.
const chat = makeChatTemplate(
  "{% if tools %}<tools>{{ tools | tojson }}\n{% endif %}{% for m in messages %}" +
    "{% if m.role == 'tool' %}<user>={{ m.content }};{% else %}<{{ m.role }}>{{ m.content }}" +
    "{% for c in m.tool_calls %}+{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %};{% endif %}{% endfor %}" +
    "{% if add_generation_prompt %}<assistant>{% endif %}",
);

const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown, more: object = {}) => ({ role: "assistant", content, ...more });
const call = (values: unknown = '{"a": 2}', name = "add") => ({
  ...{ id: "c1", type: "function", function: { name, arguments: values } },
});

const map = (row: Row, declaration: unknown = { messages: "messages", tools: "tools" }) =>
  compileMapping(mappingSchema.parse(declaration)).map(row);

/** The text of a row, what is learned in brackets; or why it is left out. */
function shown(row: Row, { declaration, loss, template = chat }: Shown = {}): string {
  const mapped = map(row, declaration);
  if (mapped === "empty") return "empty";
  if ("problem" in mapped) return mapped.problem;
  const encode = encoderOf({
    tokenizer,
    template: template === "plain" ? template : { chat: template },
    loss,
    sequenceLength: 1000,
  });
  const { encoded, fate } = encode(mapped.examples[0] as Mapped["examples"][number]);
  if (!encoded) return fate;
  return previewOf(encoded, tokenizer)
    .map((piece) => (piece.loss ? `[${piece.text}]` : piece.text))
    .join("");
}

interface Shown {
  readonly declaration?: unknown;
  readonly loss?: "all";
  readonly template?: typeof chat | "plain";
}

describe("marks of messages", () => {
  const marked = (mark: object) => ({
    messages: [user("2+3?"), assistant("9", mark), user("Really?"), assistant("5")],
  });

  it.each([
    { weight: 0 },
    { weight: 0.0 },
    { train: false },
    { loss: false },
    { training: 0 },
    { train_on_turn: false },
  ])("leave out a reply with %j, and the mark that ends it", (mark) => {
    expect(shown(marked(mark))).toBe("<user>2+3?;<assistant>9;<user>Really?;<assistant>[5;]");
    expect(shown(marked(mark), { loss: "all" })).toBe("<[user>2+3?;<assistant>]9;[<user>Really?;<assistant>5;]");
    expect(shown(marked(mark), { template: "plain" })).toBe("<bos>2+3?\n\n9<eos>Really?\n\n[5<eos>]");
  });

  it.each([{ weight: 1 }, { weight: null }, { train: true }, { loss: 1 }, { weight: "" }, {}])(
    "learn a reply with %j",
    (mark) => {
      expect(shown(marked(mark))).toBe("<user>2+3?;<assistant>[9;]<user>Really?;<assistant>[5;]");
    },
  );

  it("that nothing here can follow are refused", () => {
    expect(shown(marked({ weight: 0.5 }))).toBe("messages[1] has weight: 0.5; only 0 and 1 are supported");
    expect(shown(marked({ weight: [] }))).toBe("messages[1] has weight: []; only 0 and 1 are supported");
    expect(shown(marked({ train_detail: [{ begin_offset: 0, end_offset: 1, train: false }] }))).toBe(
      "messages[1] has train_detail, which is not supported; split the message",
    );
    expect(shown({ messages: [{ ...user("a"), train: true }, assistant("b")] })).toBe(
      "messages[0] is marked train: true, but only replies of the assistant are learned",
    );
    expect(shown({ messages: [user("a"), assistant([{ type: "text", text: "b", train: false }])] })).toBe(
      "messages[1].content[0] is marked train: false, which is supported for whole messages only",
    );
  });

  it("of other messages do not count, as these are not learned anyway", () => {
    const messages = [{ ...user("a"), weight: 1, train: false }, assistant("b", { weight: 1 })];
    expect(shown({ messages })).toBe("<user>a;<assistant>[b;]");
    expect(shown({ messages: [user("a"), assistant("b", { weight: 0 })] })).toBe("nothing to learn");
  });
});

describe("tools", () => {
  const asked = [user("2+3?"), assistant(null, { tool_calls: [call()] })];
  const answered = [...asked, { role: "tool", tool_call_id: "c1", content: "5" }, assistant("It is 5.")];

  it("are called by the model, and their answers read", () => {
    const text = '<user>2+3?;<assistant>[+add{"a": 2};]<user>=5;<assistant>[It is 5.;]';
    expect(shown({ messages: answered })).toBe(text);
    expect(shown({ messages: [...asked.slice(0, 1), assistant("", { tool_calls: [call({ a: 2 })] })] })).toBe(
      '<user>2+3?;<assistant>[+add{"a": 2};]',
    );
    const { content: _, ...bare } = assistant(null, { function_call: { name: "add", arguments: "{}" } });
    expect(shown({ messages: [user("2+3?"), bare] })).toBe("<user>2+3?;<assistant>[+add{};]");
    for (const role of ["tool", "function", "observation", "ipython", "tool_response"])
      expect(shown({ messages: answered.map((one) => (one.role === "tool" ? { ...one, role } : one)) })).toBe(text);
  });

  it("keep numbers as a file writes them", () => {
    const row = (given: string) =>
      parseRow(`{"messages": [{"role": "user", "content": "2+3?"},
        {"role": "assistant", "tool_calls": [{"function": {"name": "add", "arguments": ${given}}}]}]}`) as Row;
    const text = '<user>2+3?;<assistant>[+add{"a": 2.0, "b": [1000.0, 12345678901234567890]};]';
    const given = '{"a": 2.0, "b": [1e3, 12345678901234567890]}';
    expect(shown(row(given))).toBe(text);
    expect(shown(row(JSON.stringify(given)))).toBe(text);
    const calls = '[{"name": "add", "arguments": {"a": 2.0}}]';
    expect(shown({ messages: [user("2+3?"), { role: "tool_call", content: calls }] })).toContain('+add{"a": 2.0}');
  });

  it("are called in messages of their own, as LLaMA-Factory and ms-swift write them", () => {
    const said = (from: string, value: string) => ({ from, value });
    const sum = '{"name": "add", "arguments": {"a": 2}}';
    const messages = [said("human", "2+3?"), said("function_call", sum), said("observation", "5"), said("gpt", "5.")];
    expect(shown({ messages })).toBe('<user>2+3?;<assistant>[+add{"a": 2};]<user>=5;<assistant>[5.;]');
    const both = [user("2+3?"), { role: "tool_call", content: sum }, { role: "tool_call", content: `[${sum}]` }];
    expect(shown({ messages: both })).toBe('<user>2+3?;<assistant>[+add{"a": 2}+add{"a": 2};]');
    expect(shown({ messages: [...messages.slice(0, 1), said("function_call", "add(2)")] })).toBe(
      "messages[1] is not valid JSON",
    );
  });

  it("are shown to the model, however they are written", () => {
    const parameters = { type: "object", properties: { a: { type: "integer" } } };
    const tool = { type: "function", function: { name: "add", parameters } };
    const text =
      '<tools>[{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]' +
      "\n<user>a;<assistant>[b;]";
    const messages = [user("a"), assistant("b")];
    for (const tools of [
      [tool],
      JSON.stringify([tool]),
      [{ name: "add", parameters }],
      [{ type: "function", function: { name: "add", parameters: JSON.stringify(parameters) } }],
    ]) {
      expect(shown({ messages, tools })).toBe(text);
    }
    for (const tools of ["[]", [], null, ""]) expect(shown({ messages, tools })).toBe("<user>a;<assistant>[b;]");
    expect(shown({ messages, tools: "add" })).toBe("tools is not valid JSON");
    expect(shown({ messages, tools: [{ type: "function" }] })).toBe("tools[0] has no name of a function; it has type");
  });

  it("are refused where the template does not render them", () => {
    const silent = makeChatTemplate(
      "{% for m in messages %}{% if m.role != 'tool' %}<{{ m.role }}>{{ m.content }};{% endif %}{% endfor %}",
    );
    const tools = [{ name: "add" }];
    expect(() => shown({ messages: asked }, { template: silent })).toThrow(/does not render calls of tools/);
    expect(() => shown({ messages: answered.slice(2) }, { template: silent })).toThrow(/not render answers of tools/);
    expect(() => shown({ messages: [user("a"), assistant("b")], tools }, { template: silent })).toThrow(
      /does not render the tools/,
    );
    expect(() => shown({ messages: answered }, { template: "plain" })).toThrow(
      /only a chat template has a place for calls of tools/,
    );
    // As in Llama 3.1: the text beside a call is dropped.
    const eitherOr = makeChatTemplate(
      "{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% else %}{{ m.content }}{% endif %}{% endfor %}",
    );
    const talking = [user("a"), assistant("Let me see.", { tool_calls: [call()] })];
    expect(() => shown({ messages: talking }, { template: eitherOr })).toThrow(/the reply "Let me see." as it is/);
  });

  it("are refused by row", async () => {
    const rows = [[user("a"), assistant("b")], asked].map((messages) => JSON.stringify({ messages }));
    writeFileSync(join(folder, "calls.jsonl"), rows.join("\n"));
    const prepare = (on_bad_row: "fail" | "skip") =>
      prepareData({ data: { source: "calls.jsonl", on_bad_row }, folder, tokenizer, sequenceLength: 99 });
    await expect(prepare("fail")).rejects.toThrow(
      /calls\.jsonl, line 2: only a chat template has a place for calls of tools; use a model with one/,
    );
    expect((await prepare("skip")).counts[0]).toMatchObject({ refused: 1, kept: 1, badExamples: [{ line: 2 }] });
  });

  it("have arguments as objects, or as text where the template fails on these", () => {
    // DeepSeek V3 adds texts; Qwen 2.5 would write a text in quotation marks.
    const adding = makeChatTemplate(
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}{{ c.function.name + c.function.arguments }}{% endfor %};{% endfor %}" +
        "{% if add_generation_prompt %}<assistant>{% endif %}",
    );
    expect(shown({ messages: asked }, { template: adding })).toBe('<user>2+3?;<assistant>[add{"a": 2};]');
    const nested = { a: [2, "x\n{ }", {}], b: { c: null } };
    const messages = [user("a"), assistant("", { tool_calls: [call(nested)] })];
    expect(shown({ messages }, { template: adding })).toBe(
      '<user>a;<assistant>[add{"a": [2, "x\\n{ }", {}], "b": {"c": null}};]',
    );
    expect(shown({ messages })).toBe('<user>a;<assistant>[+add{"a": [2, "x\\n{ }", {}], "b": {"c": null}};]');
    expect(shown({ messages: [user("a"), assistant("", { tool_calls: [call("[2]")] })] })).toBe(
      "messages[1].tool_calls[0].arguments is not an object",
    );
  });

  it("of a parquet file lack the fields that only others have, and keep which numbers are floats", async () => {
    const rows = [
      [{ name: "add", arguments: { a: 2, b: 2, c: [1, 0.5] } }],
      [{ name: "say", arguments: { text: "x" } }],
    ].map((calls) => [user("q"), assistant("", { tool_calls: calls })]);
    const type = (name: string, more: object = {}) => ({ name, repetition_type: "OPTIONAL" as const, ...more });
    const text = (name: string) => type(name, { type: "BYTE_ARRAY", converted_type: "UTF8" });
    const list = (name: string, children: number) => [
      type(name, { converted_type: "LIST", num_children: 1 }),
      { name: "list", repetition_type: "REPEATED" as const, num_children: 1 },
      type("element", { num_children: children }),
    ];
    const schema = [
      { name: "root", num_children: 1 },
      ...list("messages", 3),
      ...[text("role"), text("content"), ...list("tool_calls", 2)],
      ...[text("name"), type("arguments", { num_children: 4 }), type("a", { type: "INT32" })],
      ...[
        type("b", { type: "DOUBLE" }),
        ...list("c", 0).slice(0, 2),
        type("element", { type: "DOUBLE" }),
        text("text"),
      ],
    ];
    const columnData = [{ name: "messages", data: rows }];
    writeFileSync(
      join(folder, "calls.parquet"),
      new Uint8Array(parquetWriteBuffer({ schema, columnData } as Parameters<typeof parquetWriteBuffer>[0])),
    );
    const { train } = await prepareData({
      data: "calls.parquet",
      folder,
      tokenizer,
      chatTemplate: chat,
      sequenceLength: 99,
    });
    expect(train.sets[0]?.examples.map(({ ids }) => tokenizer.decode([...ids]))).toEqual([
      '<user>q;<assistant>+add{"a": 2, "b": 2.0, "c": [1.0, 0.5]};',
      '<user>q;<assistant>+say{"text": "x"};',
    ]);
  });
});

describe("replies whose thoughts a template cuts when more follows", () => {
  const published = JSON.parse(
    readFileSync(join(import.meta.dirname, "../../../test/fixtures/tokenizers/published-templates.json"), "utf8"),
  );
  const turn = (role: string, text: string) => `<|im_start|>${role}\n${text}<|im_end|>\n`;
  // The prompt begins a thought.
  const learned = (prompt: string, text: string) => `<|im_start|>assistant\n${prompt}[${text}<|im_end|>]\n`;
  const empty = (text: string) => learned("<think>\n\n", `</think>\n\n${text}`);
  const prepare = async (name: string, messages: object[], more: object = {}) => {
    writeFileSync(join(folder, "turns.jsonl"), JSON.stringify({ messages }));
    const { train, counts } = await prepareData({
      ...{ data: "turns.jsonl", folder, tokenizer, sequenceLength: 999, ...more },
      chatTemplate: makeChatTemplate(published.templates[name]),
    });
    const texts = train.sets[0]?.examples.map((encoded) =>
      previewOf(encoded, tokenizer)
        .map(({ text, loss }) => (loss ? `[${text}]` : text))
        .join(""),
    );
    return { texts, counts: counts[0] };
  };

  it("are an example each, up to the reply", async () => {
    const first = turn("user", "a");
    const second = turn("assistant", "b") + turn("user", "c");
    const plain = await prepare("axolotl/qwen3", [user("a"), assistant("b"), user("c"), assistant("d")]);
    expect(plain.texts).toEqual([first + empty("b"), first + second + empty("d")]);
    expect(plain.counts).toMatchObject({ rows: 1, examples: 2, kept: 2, leftOut: {} });
    const thinking = await prepare("axolotl/qwen3", [
      user("a"),
      assistant("b", { weight: 0 }),
      user("c"),
      assistant("d", { reasoning_content: "hm" }),
      user("e"),
      assistant("", {}),
    ]);
    expect(thinking.texts).toEqual([first + second + learned("<think>\n", "hm\n</think>\n\nd")]);
    expect(thinking.counts?.leftOut).toMatchObject({ "marked weight: 0": { count: 1 }, empty: { count: 1 } });
  });

  it("are one example where nothing is cut, or all is learned", async () => {
    const messages = [user("a"), assistant("b"), user("c"), assistant("d")];
    expect((await prepare("chat_templates/llama-3-instruct", messages)).texts).toHaveLength(1);
    expect((await prepare("axolotl/qwen3", messages, { loss: "all" })).texts).toHaveLength(1);
  });
});

it("variables of the chat template are given to it, and refused where they would be lost", async () => {
  writeFileSync(join(folder, "one.jsonl"), JSON.stringify({ messages: [user("a"), assistant("b")] }));
  const chatTemplate = makeChatTemplate(
    "{{ style }}{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
  );
  const prepare = async (chat_template_kwargs: object, more: object = {}) => {
    const data = { source: "one.jsonl", chat_template_kwargs, ...more };
    const { train } = await prepareData({ data, folder, tokenizer, chatTemplate, sequenceLength: 99 } as never);
    return train.sets[0]?.examples.map(({ ids }) => tokenizer.decode([...ids]));
  };
  expect(await prepare({ style: "Brief. " })).toEqual(["Brief. <user>a;<assistant>b;"]);
  // Floats stay floats, as Python's YAML reads them.
  const written = "{ style: [2.0, 2, { deep: 30.0e+1 }, 0.5, '2.0'] }";
  const { data } = parseRun(
    `base: b\nout: o\ndata: { source: one.jsonl, chat_template_kwargs: ${written} }\nsteps: 1\n`,
  );
  const { chat_template_kwargs: variables } = data as { chat_template_kwargs: object };
  expect(await prepare(variables)).toEqual(["[2.0, 2, {'deep': 300.0}, 0.5, '2.0']<user>a;<assistant>b;"]);
  await expect(prepare({ styl: "x" })).rejects.toThrow("styl is not read by the chat template; did you mean style?");
  await expect(prepare({ style: "x" }, { template: "plain" })).rejects.toThrow(
    "chat_template_kwargs: the data is written without a chat template. Leave them out.",
  );
});

describe("content", () => {
  it("may be in parts of text", () => {
    const parts = (...texts: string[]) => texts.map((text) => ({ type: "text", text }));
    expect(shown({ messages: [user(parts("a", " b")), assistant(parts("c"))] })).toBe("<user>a b;<assistant>[c;]");
    expect(shown({ messages: [user([{ type: "image_url", image_url: {} }]), assistant("c")] })).toBe(
      "messages[0].content[0] is not a part of type text, which alone are supported",
    );
    expect(shown({ messages: [user({ a: 1 }), assistant("c")] })).toBe("messages[0].content is not a text");
  });

  it("of a reply may be empty, which is not learned", () => {
    for (const empty of ["", " \n", null]) {
      const messages = [user("a"), assistant(empty), user("b"), assistant("c")];
      expect(shown({ messages })).toBe("<user>a;<assistant>;<user>b;<assistant>[c;]");
      // A parquet file of ShareGPT's, in which null is no field.
      const said = [{ from: "human", value: "a" }, { from: "gpt" }, { from: "human", value: "b" }];
      expect(shown({ messages: [...said, { from: "gpt", value: "c" }] })).toBe(
        "<user>a;<assistant>;<user>b;<assistant>[c;]",
      );
      expect(shown({ messages: messages.slice(0, 2) })).toBe("empty");
    }
    expect(
      shown({
        messages: [
          ["a", ""],
          ["b", "c"],
        ],
      }),
    ).toBe("<user>a;<assistant>;<user>b;<assistant>[c;]");
    expect(shown({ messages: [user("a"), { role: "assistant", text: "b" }] })).toMatch(/^messages\[1\] has no content/);
  });

  it("may follow reasoning, which the template must render", () => {
    const messages = [user("a"), assistant("b", { reasoning_content: "hm" })];
    const thinking = makeChatTemplate(
      "{% for m in messages %}<{{ m.role }}>{{ m.reasoning_content }}|{{ m.content }};{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
    );
    expect(shown({ messages }, { template: thinking })).toBe("<user>|a;<assistant>[hm|b;]");
    expect(() => shown({ messages })).toThrow(/does not render the reasoning "hm"/);
  });
});

describe("prompts and responses", () => {
  const declaration = { prompt: "prompt", response: "completion", system: "system" };

  it("may be messages, of which those of the prompt are not learned", () => {
    const prompt = [{ role: "system", content: "s" }, user("a"), assistant("b"), user("c")];
    const text = "<system>s;<user>a;<assistant>b;<user>c;<assistant>[d;]";
    expect(shown({ prompt, completion: [assistant("d")] }, { declaration })).toBe(text);
    expect(shown({ prompt, completion: "d", system: "unused" }, { declaration })).toBe(text);
    expect(shown({ prompt: "c", completion: [assistant("d")], system: "s" }, { declaration })).toBe(
      "<system>s;<user>c;<assistant>[d;]",
    );
    for (const row of [
      { prompt, completion: [] },
      { prompt: [], completion: "d" },
      { prompt, completion: [assistant(" ")] },
    ]) {
      expect(shown(row, { declaration })).toBe("empty");
    }
  });

  it("are named where they hold something else", () => {
    expect(shown({ prompt: "a", completion: ["5"] }, { declaration })).toBe(
      "completion holds a list, not a text; map one value of it, such as completion[0]",
    );
    expect(shown({ prompt: { text: "a" }, completion: "5" }, { declaration })).toBe(
      "prompt holds an object, not a text; map one value of it, such as prompt.text",
    );
  });
});

describe("columns", () => {
  const read = async (rows: readonly object[], name = "rows.jsonl") => {
    writeFileSync(join(folder, name), rows.map((row) => JSON.stringify(row)).join("\n"));
    const { train, counts } = await prepareData({
      ...{ data: { source: name, on_bad_row: "skip" }, folder, tokenizer, chatTemplate: chat, sequenceLength: 99 },
    });
    return { texts: train.sets[0]?.examples.map(({ ids }) => tokenizer.decode([...ids])), counts: counts[0] };
  };
  const expected = ["<user>a;<assistant>b;"];

  it("are chosen by what they hold", async () => {
    const messages = [user("a"), assistant("b")];
    for (const row of [
      { prompt: "a", response: "b", messages: null },
      { prompt: "", response: "", instruction: "a", output: "b" },
      { messages, prompt: "other", completion: "" },
      { messages: [], conversations: messages },
      { input: "a", output: "b" },
      { query: "a", response: "b" },
      { prompt: [user("a")], completion: [assistant("b")] },
      { text: "other", prompt: "a", response: "b" },
      { question: "a", answer: "b", tools: "hammer, saw" },
    ]) {
      expect((await read([row])).texts, JSON.stringify(row)).toEqual(expected);
    }
    const late = [
      { instruction: "a", input: "", output: "b" },
      { instruction: "a", input: "c", output: "b" },
    ];
    expect((await read(late)).texts).toEqual([...expected, "<user>a\n\nc;<assistant>b;"]);
  });

  it("that would be lost are named, unless a mapping leaves them out", async () => {
    const row = { instruction: "a", input: "", output: "b" };
    const refused = read([row, { ...row, history: [["c", "d"]] }]);
    const advice =
      /history holds earlier turns, which are not read\. Put them into a column messages, or leave it out with (map: .*)\.$/;
    await expect(refused).rejects.toThrow(advice);
    const functions = { messages: [user("a"), assistant("b")], functions: [{ name: "add" }] };
    await expect(read([functions])).rejects.toThrow(
      /functions holds tools, which are read from a column tools\. Rename it/,
    );
    expect((await read([{ ...row, history: [] }])).texts).toEqual(expected);
  });

  it("of preferences are named", async () => {
    const messages = [user("a"), assistant("b")];
    await expect(read([{ chosen: messages, rejected: messages }])).rejects.toThrow(
      /only chosen, rejected\. chosen holds conversations: .*map: \{ messages: chosen \}/,
    );
  });

  it("are counted with replies that are not learned, and texts that may mean missing values", async () => {
    const messages = [user("a"), assistant(""), user("b"), assistant("c", { weight: 0 }), user("d"), assistant("e")];
    const { counts } = await read([{ messages: messages.slice(-2) }, { messages }]);
    const at = { count: 1, file: join(folder, "rows.jsonl"), line: 2 };
    expect(counts?.leftOut).toEqual({ empty: at, "marked weight: 0": at });
    writeFileSync(join(folder, "cells.csv"), "question,answer\na,b\nnan,None\nc,nan\nd,an answer of None\n");
    const cells = await prepareData({ data: "cells.csv", folder, tokenizer, sequenceLength: 99 });
    const file = join(folder, "cells.csv");
    expect(cells.counts[0]?.missing).toEqual({
      "question: nan": { count: 1, file, line: 3 },
      "answer: None": { count: 1, file, line: 3 },
      "answer: nan": { count: 1, file, line: 4 },
    });
    expect(cells.counts[0]?.kept).toBe(4);
  });
});
