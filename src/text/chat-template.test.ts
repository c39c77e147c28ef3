// Chat templates against transformers: see test/fixtures/tokenizers/make_templates.py.
import { describe, expect, it } from "vitest";
import { readFixture } from "../../test/support/tokenizer-fixtures.js";
import { CheckpointError } from "../kit/index.js";
import { parseWritten } from "../kit/numbers/index.js";
import { type ChatMessage, makeChatTemplate, TemplateError, withTime } from "./chat-template.js";
import { wallClock } from "./jinja/strftime.js";

interface Cases {
  templates: Record<string, string>;
  conversations: ChatMessage[][];
  now: string;
  cases: [
    template: string,
    conversation: number,
    addGenerationPrompt: boolean,
    variables: Record<string, unknown>,
    text: string | null,
    error: string | null,
  ][];
}

const { templates, conversations, now, cases } = readFixture("templates") as unknown as Cases;
const tokens = { bos_token: "<s>", eos_token: "</s>" };

describe("chat templates", () => {
  it.each(cases)(
    "render %s, conversation %i, prompt %s, as transformers",
    (name, index, prompt, variables, text, error) => {
      const template = makeChatTemplate(templates[name] ?? "", { variables: tokens });
      const render = () =>
        template.render(conversations[index] ?? [], { addGenerationPrompt: prompt, variables, now: new Date(now) });
      if (text !== null) expect(render()).toBe(text);
      else expect(render).toThrow(new TemplateError(`the chat template refuses these messages: ${error}`));
    },
  );

  it("print numbers of JSON as Python reads them", () => {
    // The JSON is what json.loads and json.dumps of Python 3.13 make of it, and the other its str().
    const json =
      '{"a": 2.0, "b": 1e3, "c": 12345678901234567890, "d": [1.0, -0.0, -0, 1E16, 2], "e": {"f": 5e-1, "g": 1e400}}';
    const { value } = parseWritten(`{"value": ${json}}`) as { value: unknown };
    const chat = [{ role: "user", content: "" }];
    const print = (source: string) => makeChatTemplate(source).render(chat, { variables: { value } });
    expect(print("{{ value | tojson }}")).toBe(
      '{"a": 2.0, "b": 1000.0, "c": 12345678901234567890, "d": [1.0, -0.0, 0, 1e+16, 2], "e": {"f": 0.5, "g": Infinity}}',
    );
    expect(print("{{ value }}")).toBe(
      "{'a': 2.0, 'b': 1000.0, 'c': 12345678901234567890, 'd': [1.0, -0.0, 0, 1e+16, 2], 'e': {'f': 0.5, 'g': inf}}",
    );
  });

  it("may have any line ends", () => {
    const source = templates.marks ?? "";
    const [chat] = conversations;
    const windows = makeChatTemplate(source.replaceAll("\n", "\r\n"));
    expect(windows.render(chat ?? [])).toBe(makeChatTemplate(source).render(chat ?? []));
  });

  it("keep white space at {%+ and +%}", () => {
    const render = (source: string) => makeChatTemplate(source).render([{ role: "user", content: "x" }]);
    // By the documentation of Jinja: a plus keeps what lstrip_blocks and trim_blocks would remove.
    expect(render("a\n  {%+ if true %}\nb\n  {% endif +%}\nc")).toBe("a\n  b\n\nc");
    expect(render("a\n{%+ if true +%}b{% endif %}")).toBe("a\nb");
  });

  it("has the variables of the call, which override its own, and the time", () => {
    const chat: ChatMessage[] = [{ role: "user", content: "x" }];
    const render = (source: string, options = {}) =>
      makeChatTemplate(source, { variables: tokens }).render(chat, options);
    expect(render("{{ bos_token }}{{ eos_token }}{{ pad_token }}")).toBe("<s></s>");
    expect(render("{{ bos_token }}", { variables: { bos_token: "!" } })).toBe("!");
    expect(render("{{ tools is none }}{{ documents is none }}{{ functions is defined }}")).toBe("TrueTrueFalse");
    expect(render("{{ tools[0].name }}", { variables: { tools: [{ name: "add" }] } })).toBe("add");
    const dated = withTime(makeChatTemplate("{{ strftime_now('%F') }}"), new Date(2031, 0, 5));
    const hi = [{ role: "user", content: "hi" }];
    expect([dated.render(hi), dated.render(hi, { now: new Date(2040, 1, 1) })]).toEqual(["2031-01-05", "2031-01-05"]);
    expect(withTime(undefined, new Date())).toBeUndefined();
    expect(wallClock(new Date(2031, 0, 5, 15, 4, 9))).toBe("2031-01-05T15:04:09");
    expect(render("{{ strftime_now('%Y') }}")).toBe(String(new Date().getFullYear()));
    expect(render("{{ strftime_now('%a %e %I %p %y %F %T %Q') }}", { now: new Date(2031, 0, 5, 15, 4, 9) })).toBe(
      "Sun  5 03 PM 31 2031-01-05 15:04:09 %Q",
    );
    expect(render("{% for i in range(2, 8, 3) %}{{ i }}{% endfor %}")).toBe("25");
    expect(render("{{ '\ufeff x' | trim }}{{ '\u001fa\u0085'.strip() }}{{ missing | trim }}")).toBe("\ufeff xa");
  });

  it("reports errors", () => {
    expect(() => makeChatTemplate("{% if %}", { name: "its template", file: "f" })).toThrow(CheckpointError);
    expect(() => makeChatTemplate("{% if %}", { name: "its template" })).toThrow(/^its template is not valid: /);
    expect(() => makeChatTemplate("x").render([])).toThrow("the chat template needs at least one message");
    const fails = (source: string) => () => makeChatTemplate(source).render([{ role: "user", content: "x" }]);
    expect(fails("{{ messages.append(1) }}")).toThrow(/^the chat template failed: /);
    expect(fails("{{ range(10 ** 9) }}")).toThrow(/failed: Range too big/);
    expect(fails("{{ none.strip() }}")).toThrow(/failed: 'None' has no attribute 'strip'$/);
    expect(fails("{{ raise_exception('No.') }}")).toThrow(
      expect.objectContaining({ code: "template", message: "the chat template refuses these messages: No." }),
    );
  });
});
