// The replies in a rendered conversation.
import { describe, expect, it } from "vitest";
import { fixture, readFixture } from "../../test/support/tokenizer-fixtures.js";
import { type ChatMessage, makeChatTemplate } from "./chat-template.js";
import { endOfReply, type RenderedReplies, renderWithSpans } from "./reply-spans.js";

const { templates } = readFixture("templates") as { templates: Record<string, string> };
const template = (name: string) =>
  makeChatTemplate(templates[name] ?? name, { variables: { bos_token: "<s>", eos_token: "</s>" } });

const user = (content: string): ChatMessage => ({ role: "user", content });
const assistant = (content: string): ChatMessage => ({ role: "assistant", content });

/** The text of each span: content, and what follows it up to the end of the turn. */
function found({ text, replies }: RenderedReplies): string[] {
  return replies.map(({ start, end }) => text.slice(start, end));
}

const chat = [user("2+2?"), assistant(" 4 "), user("และ 🙂?"), assistant("q🙂z")];

describe("spans of replies", () => {
  it("are what follows the prompt that asks for them, with the mark that ends the turn", () => {
    const marks = renderWithSpans(template("marks"), chat);
    expect(found(marks)).toEqual([" 4 <|im_end|>", "q🙂z<|im_end|>"]);
    expect(marks.text).toBe(template("marks").render(chat));
    expect(found(renderWithSpans(template("headers"), chat))).toEqual(["4<|eot|>", "q🙂z<|eot|>"]);
    expect(found(renderWithSpans(template("turns"), chat))).toEqual([" 4 </s>", " q🙂z </s>"]);
    // Thoughts that the template puts before the content are generated, too, unless the prompt has them.
    const thinking = template(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}<think></think>{% endif %}{{ m.content }}\n{% endfor %}" +
        "{% if add_generation_prompt %}<assistant>{% if not thinking %}<think></think>{% endif %}{% endif %}",
    );
    expect(found(renderWithSpans(thinking, chat))).toEqual([" 4", "q🙂z"]);
    expect(found(renderWithSpans(thinking, chat, { variables: { thinking: true } }))).toEqual([
      "<think></think> 4",
      "<think></think>q🙂z",
    ]);
  });

  it("are whole where the prompt begins a thought, whatever they begin with", () => {
    const thinking = template(
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}" +
        "{% if add_generation_prompt %}<assistant><think>\n{% endif %}",
    );
    const replies = (...messages: ChatMessage[]) => found(renderWithSpans(thinking, messages));
    expect(replies(user("q"), assistant("<answer>5</answer>"))).toEqual(["<answer>5</answer></s>"]);
    expect(replies(user("q"), assistant("<"), user("<"), assistant(""))).toEqual(["<</s>", "</s>"]);
    expect(replies(assistant("<b>"), user("q"), assistant("xyz"))).toEqual(["<b></s>", "xyz</s>"]);
    // What the prompt has already is not learned.
    expect(replies(user("q"), assistant("<think>\n1</think>2"))).toEqual(["1</think>2</s>"]);
    expect(replies(user("q"), assistant("<think>1</think>2"))).toEqual(["<think>1</think>2</s>"]);
  });

  it("are found whatever stands around them", () => {
    const plain = template(
      "{% for m in messages %}{{ m.role[0] + m.content + '.\n' }}{% endfor %}{% if add_generation_prompt %}a{% endif %}",
    );
    for (const content of ["", " ", "a", "aaa", "uiet", "quiet z", "zuiet q", "x", "\n\nq\n", "🙂", "e\u0301", ".\n"]) {
      const [reply] = found(renderWithSpans(plain, [user("a"), assistant(content), user("b")]));
      expect(reply, JSON.stringify(content)).toBe(`${content}.`);
    }
    expect(found(renderWithSpans(template("marks"), [assistant("first"), user("x")]))).toEqual(["first<|im_end|>"]);
    expect(found(renderWithSpans(template("marks"), [user("x")]))).toEqual([]);
  });

  it("need a template that renders beginnings as beginnings", () => {
    const thoughts = [user("a"), assistant("<think>hm</think>\nb"), user("c"), assistant("<think>so</think>\nd")];
    expect(() => renderWithSpans(template("thoughts"), thoughts)).toThrow(
      /renders the first 2 messages differently when more follow/,
    );
    // Of replies that are not learned, it does not matter.
    const last = renderWithSpans(template("thoughts"), thoughts, { isReply: (message) => message === thoughts[3] });
    expect(found(last)).toEqual([expect.stringMatching(/^<think>so<\/think>\nd/)]);
  });

  it("need a template that leaves replies as they are", () => {
    const upper = template("{% for m in messages %}{{ m.role }}: {{ m.content | upper }}\n{% endfor %}");
    expect(() => renderWithSpans(upper, chat)).toThrow(/the reply "q🙂z" as it is, but as "assistant: Q🙂Z"/);
    expect(() => renderWithSpans(template("turns"), [assistant("x")])).toThrow(/Roles must alternate/);
  });

  it("take one time for all renderings", () => {
    let seconds = 0;
    const ticking = makeChatTemplate("{{ strftime_now('%S') }}{% for m in messages %}{{ m.content }};{% endfor %}");
    const clocked = {
      ...ticking,
      render: (...[messages, options]: Parameters<typeof ticking.render>) =>
        ticking.render(messages, { now: new Date(2024, 0, 1, 0, 0, seconds++ % 60), ...options }),
    };
    expect(found(renderWithSpans(clocked, [user("a"), assistant("b"), user("c"), assistant("d")]))).toEqual([
      "b;",
      "d;",
    ]);
  });
});

describe("the end of a reply", () => {
  it("is the special token that the template writes after it", () => {
    const tokenizer = fixture("qwen");
    expect(endOfReply(template("marks"), tokenizer)).toBe(tokenizer.idOf("<|im_end|>"));
    // Llama's tokens, of which this one is text.
    expect(endOfReply(template("marks"), fixture("llama2"))).toBeUndefined();
    expect(endOfReply(template("turns"), fixture("llama2"))).toBe(fixture("llama2").idOf("</s>"));
    expect(endOfReply(template("{{ messages[0].content }}"), tokenizer)).toBeUndefined();
    expect(endOfReply(template("{{ raise_exception('no') }}"), tokenizer)).toBeUndefined();
    const open = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
    expect(endOfReply(template(open), tokenizer)).toBeUndefined();
  });
});
