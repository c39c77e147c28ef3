// What a request of a chat says to the template, and calls of tools in its answers.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { afterEach, describe, expect, it } from "vitest";
import { type Stub, stubModel } from "../../test/support/stub-model.js";
import { type RunningServer, startApiServer } from "./server.js";

interface Published {
  readonly variables: Record<string, unknown>;
  readonly templates: Record<string, string>;
  readonly conversations: Record<string, { messages: object[]; variables: { tools?: OpenAI.ChatCompletionTool[] } }>;
  /** Template, conversation, and what transformers renders. */
  readonly results: readonly [string, string, string | null][];
}

const FIXTURE = join(import.meta.dirname, "../../test/fixtures/tokenizers/published-templates.json");
const published = JSON.parse(readFileSync(FIXTURE, "utf8")) as Published;
const QWEN = published.templates["axolotl/qwen3"] ?? "";
const LLAMA = published.templates["axolotl/llama4"] ?? "";
const MISTRAL = "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}[TOOL_CALLS]";
/** As transformers renders it. */
const rendered = (template: string, conversation: string) =>
  published.results.find(([of, key]) => of === template && key === conversation)?.[2];

const running: RunningServer[] = [];
afterEach(async () => {
  for (const server of running.splice(0)) await server.close(0);
});

async function serve(template: string, ...answers: string[]): Promise<{ client: OpenAI; model: Stub }> {
  const model = stubModel(template, answers, published.variables);
  const server = await startApiServer({ models: new Map([["m", model]]), port: 0 });
  running.push(server);
  return { model, client: new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "unused", maxRetries: 0 }) };
}

type Body = OpenAI.ChatCompletionCreateParamsNonStreaming;
const HI: Body["messages"] = [{ role: "user", content: "Hi" }];
/** A request with fields that are not OpenAI's. */
const ask = ({ client }: { client: OpenAI }, fields: object, messages: object[] = HI) =>
  client.chat.completions.create({ model: "m", messages, ...fields } as Body);
const TOOLS = published.conversations.tools?.variables.tools ?? [];

describe("the template is given", () => {
  it.each([
    [{ chat_template_kwargs: { enable_thinking: false } }, "nothink"],
    [{ reasoning_effort: "none" }, "nothink"],
    [{ reasoning_effort: "none", chat_template_kwargs: { enable_thinking: true } }, "one"],
    [{ reasoning_effort: "high", chat_template_kwargs: {} }, "one"],
    // A template takes these as it takes variables that are missing.
    [{ chat_template_kwargs: { deep: false, style: "" }, documents: [] }, "one"],
  ])("the variables of %j", async (fields, conversation) => {
    const served = await serve(QWEN, "a");
    await ask(served, fields, published.conversations[conversation]?.messages);
    expect(served.model.prompts).toEqual([rendered("axolotl/qwen3", conversation)]);
  });

  it.each(["toolcall", "toolnull", "tools"])("tools, calls and their answers of %s, in OpenAI's form", async (key) => {
    const { messages = [], variables: { tools } = {} } = published.conversations[key] ?? {};
    // OpenAI's arguments are text.
    const sent = JSON.parse(JSON.stringify(messages), (name, value) =>
      name === "arguments" ? JSON.stringify(value) : value,
    );
    for (const template of ["axolotl/qwen3", "axolotl/gemma4"]) {
      const served = await serve(published.templates[template] ?? "", "a");
      await ask(served, { tools }, sent);
      expect(served.model.prompts).toEqual([rendered(template, key)]);
    }
  });

  it("numbers as they are written", async () => {
    const template = "{{ tools | tojson }}{{ k }}{{ messages | tojson }}{# tool_calls #}";
    const { model } = await serve(template, "a");
    const [server] = running.slice(-1);
    const parameters = '{"type":"object","properties":{"n":{"type":"number","default":2.0,"maximum":1e3}}}';
    const call = '{"name":"add","arguments":{"n":2.0}}';
    const texts = '{"name":"add","arguments":"{\\"n\\": 3.0}"}';
    const body = `{"model":"m","tools":[{"type":"function","function":{"name":"add","parameters":${parameters}}}],
      "chat_template_kwargs":{"k":5.0},"messages":[{"role":"user","content":"a","score":1.0},
      {"role":"assistant","content":"","tool_calls":[{"function":${call}},{"function":${texts}}]},{"role":"user","content":"b"}]}`;
    const reply = await fetch(`${server?.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    expect(reply.status).toBe(200);
    const [prompt = ""] = model.prompts;
    expect(prompt).toContain('"default": 2.0, "maximum": 1000.0');
    expect(prompt).toContain("]5.0[");
    expect(prompt).toContain('"score": 1.0');
    expect(prompt).toContain('"arguments": {"n": 2.0}');
    expect(prompt).toContain('"arguments": {"n": 3.0}');
  });

  it("arguments that a model broke as the text that they are", async () => {
    const served = await serve(QWEN, "a");
    const call = { id: "1", type: "function", function: { name: "get_weather", arguments: '{"city": ' } };
    const messages = [...HI, { role: "assistant", tool_calls: [call] }, { role: "tool", content: "failed" }];
    await ask(served, { tools: TOOLS }, messages);
    expect(served.model.prompts[0]).toContain(
      '<tool_call>\n{"name": "get_weather", "arguments": {"city": }\n</tool_call>',
    );
  });

  it("no tools where none may be called", async () => {
    const served = await serve(QWEN, '<tool_call>{"name": "get_weather", "arguments": {}}</tool_call>');
    const reply = await ask(served, { tools: TOOLS, tool_choice: "none" });
    expect(served.model.prompts[0]).not.toContain("get_weather");
    expect(reply.choices[0]?.message.tool_calls).toBeUndefined();
  });

  // By transformers 5.24 with continue_final_message.
  it.each([
    ["axolotl/qwen3", "Sure: ", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nSure: "],
    ["axolotl/gemma3", "Sure: ", "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nSure:"],
    ["chat_templates/zephyr", "Sure:", "\n\n    <|user|>\nHi</s>\n\n\n    <|assistant|>\nSure:"],
  ])("the last message open, of %s %j", async (name, content, expected) => {
    const served = await serve(published.templates[name] ?? "", "yes");
    const messages = [...HI, { role: "assistant", content }];
    const reply = await ask(served, { continue_final_message: true, add_generation_prompt: false }, messages);
    expect(served.model.prompts).toEqual([expected]);
    expect(reply.choices[0]?.message.content).toBe("yes");
    await ask(served, { add_generation_prompt: false }, messages);
    expect(served.model.prompts[1]?.trimEnd()).not.toBe(expected.trimEnd());
  });

  it("what other servers' replies have, text parts, and facts that clients add", async () => {
    const served = await serve("{% for m in messages %}{{ m.role }}={{ m.content }}{{ m.agent }};{% endfor %}", "a");
    const parts = ["a", "b"].map((text) => ({ type: "text", text, cache_control: { type: "ephemeral" } }));
    await ask(served, {}, [
      { role: "developer", content: parts, id: 1947269257, opts: { visible: false } },
      { role: "assistant", content: [{ type: "refusal", refusal: "no" }], refusal: null, annotations: [], audio: null },
      { role: "assistant", content: null, refusal: "never", tool_calls: null, function_call: null },
      { role: "user", content: "c", agent: "!" },
    ]);
    expect(served.model.prompts).toEqual(["system=ab;assistant=no;assistant=never;user=c!;"]);
  });

  it("arguments as JSON text where it adds them to a text, as DeepSeek V3's", async () => {
    const served = await serve(
      "{{ messages[1].content }}{{ '> ' + messages[1].tool_calls[0].function.arguments }}",
      "a",
    );
    const call = { id: "1", type: "function", function: { name: "f", arguments: '{"a":1}' } };
    await ask(served, {}, [...HI, { role: "assistant", content: "", tool_calls: [call] }]);
    expect(served.model.prompts).toEqual(['> {"a": 1}']);
  });
});

it("calls of tools that the template does not read are refused, as are misspelt variables", async () => {
  const served = await serve("{% for m in messages %}{{ m.content }}{% endfor %}", "a");
  const call = { id: "1", type: "function", function: { name: "f", arguments: "{}" } };
  const refused = ask(served, {}, [...HI, { role: "assistant", content: "", tool_calls: [call] }]);
  await expect(refused).rejects.toThrow(
    /messages\[1\]\.tool_calls is not read by the chat template; use a model whose/,
  );
  const unread = ask(served, { chat_template_kwargs: { foo: true } });
  await expect(unread).rejects.toThrow(/foo is not read by the chat template; leave it out/);
});

const WEATHER = { name: "get_weather", arguments: '{"city":"Dar","days":2}' };
const TAGGED = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Dar", "days": 2}}\n</tool_call>';
const QUOTED =
  '<tool_call>\n{"name": "get_weather", "arguments": {"city": "a </tool_call> \\\\\\" <tool_call> {"}}\n</tool_call>';
// How Qwen3-Coder's template and those of Qwen 3.5 and 3.6 teach and write calls.
const CODER =
  "{% for m in messages %}{{ m.content }}{% endfor %}{{ tools }}<tool_call>\n<function=f>\n<parameter=p>\n1\n</parameter>";
const inXml = (...parameters: readonly (readonly [name: string, value: string])[]) =>
  `<tool_call>\n<function=get_weather>\n${parameters
    .map(([name, value]) => `<parameter=${name}>\n${value}\n</parameter>\n`)
    .join("")}</function>\n</tool_call>`;
const LATER = '{"name": "get_weather", "arguments": {}}';

describe("calls of tools", () => {
  it.each<[string, string, string, string | null, object[]]>([
    ["of Qwen", QWEN, TAGGED, null, [WEATHER]],
    ["after text", QWEN, `I look.\n\n${TAGGED}`, "I look.", [WEATHER]],
    [
      "of several tools",
      QWEN,
      `${TAGGED}\n<tool_call>${LATER}`,
      null,
      [WEATHER, { name: "get_weather", arguments: "{}" }],
    ],
    ["of Mistral", MISTRAL, `\u0001[${TAGGED.slice(12, -13)}]`, null, [WEATHER]],
    ["of later Mistral", MISTRAL, 'Look.\u0001get_weather\u0002{"city": "Dar", "days": 2}', "Look.", [WEATHER]],
    [
      "with a tag in a text",
      QWEN,
      QUOTED,
      null,
      [{ ...WEATHER, arguments: JSON.stringify({ city: 'a </tool_call> \\" <tool_call> {' }) }],
    ],
    [
      "of Qwen3-Coder, with text before",
      CODER,
      `Look.\n\n${inXml(["city", "Dar"], ["days", "2"])}\n${inXml()}`,
      "Look.",
      [WEATHER, { ...WEATHER, arguments: "{}" }],
    ],
    [
      "of Qwen3-Coder, with lines, tags and a text that is a number",
      CODER,
      inXml(["city", "\n2\n</parameter>\n</function> <tool_call>"], ["days", "None"], ["other", "[1]"]),
      null,
      [
        {
          ...WEATHER,
          arguments: JSON.stringify({ city: "\n2\n</parameter>\n</function> <tool_call>", days: null, other: "[1]" }),
        },
      ],
    ],
    [
      "of Qwen3-Coder that is broken",
      CODER,
      "<tool_call>\n<function=get_weather>\n2</function>",
      "<tool_call>\n<function=get_weather>\n2</function>",
      [],
    ],
    ["of Llama", LLAMA, '{"name": "get_weather", "parameters": {"city": "Dar", "days": 2}}', null, [WEATHER]],
    // Text stays as it is.
    [
      "of no such tool",
      QWEN,
      '<tool_call>{"name": "f", "arguments": {}}</tool_call>',
      '<tool_call>{"name": "f", "arguments": {}}</tool_call>',
      [],
    ],
    ["that are broken", QWEN, 'a <tool_call>{"name": </tool_call> b', 'a <tool_call>{"name": </tool_call> b', []],
    ["that never come", QWEN, "1 < 2 <tool", "1 < 2 <tool", []],
    [
      "of Llama, not first",
      LLAMA,
      'See {"name": "get_weather", "parameters": {}}',
      'See {"name": "get_weather", "parameters": {}}',
      [],
    ],
    ["in JSON of something else", LLAMA, '{"a": 1} ', '{"a": 1} ', []],
    [
      "with numbers as the model wrote them, but whole where the tool asks for whole ones",
      QWEN,
      '<tool_call>{"name": "get_weather", "arguments": {"city": "Dar", "days": 2.0, "of": [2.0]}}</tool_call>',
      null,
      [{ ...WEATHER, arguments: '{"city":"Dar","days":2,"of":[2.0]}' }],
    ],
    ["in another format", "{{ tools }}{{ messages }}", TAGGED, TAGGED, []],
  ])("%s", async (_, template, answer, content, calls) => {
    const served = await serve(template, answer, answer);
    const { choices, usage } = await ask(served, { tools: TOOLS });
    const { message, finish_reason } = choices[0] ?? expect.fail();
    expect(message.content).toBe(content);
    const made = (message.tool_calls ?? []).map((call) => (call.type === "function" ? call.function : call));
    expect(made).toEqual(calls);
    expect(finish_reason).toBe(calls.length > 0 ? "tool_calls" : "stop");
    expect(usage?.completion_tokens).toBe(answer.length + 1);
    // In a stream the same.
    const stream = client(served).stream({ model: "m", messages: HI, tools: TOOLS });
    const whole = (await stream.finalChatCompletion()).choices[0] ?? expect.fail();
    expect(whole.message.content).toBe(content);
    expect(
      (whole.message.tool_calls ?? []).map(({ function: { name, arguments: given } }) => ({ name, arguments: given })),
    ).toEqual(calls);
    expect(whole.finish_reason).toBe(finish_reason);
  });

  it("have ids that Mistral's templates take, and one where one is wanted", async () => {
    const served = await serve(QWEN, TAGGED + TAGGED, TAGGED + TAGGED);
    const [two, one] = [
      await ask(served, { tools: TOOLS }),
      await ask(served, { tools: TOOLS, parallel_tool_calls: false }),
    ];
    const ids = two.choices[0]?.message.tool_calls?.map(({ id }) => id) ?? [];
    expect(ids).toEqual([expect.stringMatching(/^[A-Za-z0-9]{9}$/), expect.stringMatching(/^[A-Za-z0-9]{9}$/)]);
    expect(new Set(ids).size).toBe(2);
    expect(one.choices[0]?.message.tool_calls).toHaveLength(1);
  });

  it("leave the log-probabilities of all tokens", async () => {
    const served = await serve(QWEN, `Yes ${TAGGED}`);
    const reply = await ask(served, { tools: TOOLS, logprobs: true });
    expect(reply.choices[0]?.logprobs?.content?.map(({ token }) => token).join("")).toBe(`Yes ${TAGGED}</s>`);
  });
});

const client = (served: { client: OpenAI }) => served.client.chat.completions;

describe("answers by a schema", () => {
  it("have its grammar, and end before its mark", async () => {
    const served = await serve(QWEN, '{"a": 1}\n\n\n', '{"a": 1}');
    const format = { type: "json_schema", json_schema: { name: "n", schema: { type: "object" }, strict: true } };
    expect((await ask(served, { response_format: format })).choices[0]?.message.content).toBe('{"a": 1}');
    await ask(served, { response_format: { type: "text" } });
    expect(served.model.requests.map(({ grammar }) => grammar !== undefined)).toEqual([true, false]);
    await expect(ask(served, { response_format: format, logprobs: true })).rejects.toThrow(
      /logprobs cannot be combined/,
    );
  });

  it.each(["required", { type: "function", function: { name: "get_weather" } }])(
    "are one call of a tool where tool_choice is %j",
    async (choice) => {
      const other = { type: "function", function: { name: "other" } };
      const served = await serve(QWEN, '{"name": "get_weather", "arguments": {"city": "Dar", "days": 2}}\n\n\n');
      const { choices } = await ask(served, { tools: [...TOOLS, other], tool_choice: choice });
      expect(choices).toMatchObject([
        { finish_reason: "tool_calls", message: { content: null, tool_calls: [{ function: WEATHER }] } },
      ]);
      const parameters = TOOLS[0]?.type === "function" ? TOOLS[0].function.parameters : expect.fail();
      const calls = [
        { type: "object", properties: { name: { const: "get_weather" }, arguments: parameters } },
        { type: "object", properties: { name: { const: "other" }, arguments: { type: "object" } } },
      ];
      expect(served.model.schemas).toEqual([{ oneOf: choice === "required" ? calls : calls.slice(0, 1) }]);
      expect(served.model.requests[0]?.grammar).toBeDefined();
    },
  );
});
