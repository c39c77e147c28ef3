// Where the replies stand in a rendered conversation, and which tokens are theirs.
import { describe, expect, it } from "vitest";
import { type ChatMessage, makeChatTemplate } from "./chat-template.js";
import { fixture, readFixture } from "./fixtures.test-util.js";
import { encodeReplies, type RenderedReplies, renderWithSpans } from "./replies.js";

const { templates } = readFixture("templates") as { templates: Record<string, string> };
const template = (name: string) =>
  makeChatTemplate(templates[name] ?? name, { variables: { bos_token: "<s>", eos_token: "</s>" } });

const user = (content: string): ChatMessage => ({ role: "user", content });
const assistant = (content: string): ChatMessage => ({ role: "assistant", content });

/** What stands in the spans: content, and what follows it up to the end of the turn. */
function found({ text, replies }: RenderedReplies): [string, string][] {
  return replies.map(({ start, end, turnEnd }) => [text.slice(start, end), text.slice(end, turnEnd)]);
}

const chat = [user("2+2?"), assistant(" 4 "), user("และ 🙂?"), assistant("q🙂z")];

describe("spans of replies", () => {
  it("are their content, and the mark that ends the turn", () => {
    const marks = renderWithSpans(template("marks"), chat);
    expect(found(marks)).toEqual([
      [" 4 ", "<|im_end|>"],
      ["q🙂z", "<|im_end|>"],
    ]);
    expect(marks.text).toBe(template("marks").render(chat));
    expect(marks.replies.map(({ message }) => message)).toEqual([1, 3]);
    expect(found(renderWithSpans(template("headers"), chat))).toEqual([
      ["4", "<|eot|>"],
      ["q🙂z", "<|eot|>"],
    ]);
    expect(found(renderWithSpans(template("turns"), chat))).toEqual([
      ["4", " </s>"],
      ["q🙂z", " </s>"],
    ]);
  });

  it("are found whatever stands around them", () => {
    const plain = template("{% for m in messages %}{{ m.role[0] + m.content + '.\n' }}{% endfor %}");
    for (const content of ["", " ", "a", "aaa", "uiet", "quiet z", "zuiet q", "x", "\n\nq\n", "🙂", "e\u0301", ".\n"]) {
      const [reply] = found(renderWithSpans(plain, [user("a"), assistant(content), user("b")]));
      expect(reply, JSON.stringify(content)).toEqual([content, "."]);
    }
    expect(found(renderWithSpans(template("marks"), [assistant("first"), user("x")]))).toEqual([
      ["first", "<|im_end|>"],
    ]);
    expect(found(renderWithSpans(template("marks"), [user("x")]))).toEqual([]);
    expect(found(renderWithSpans(template("marks"), chat, { role: "user" }))[0]?.[0]).toBe("2+2?");
  });

  it("need a template that renders beginnings as beginnings", () => {
    const thoughts = [user("a"), assistant("<think>hm</think>\nb"), user("c"), assistant("<think>so</think>\nd")];
    expect(() => renderWithSpans(template("thoughts"), thoughts)).toThrow(
      /renders the first 2 messages differently when more follow/,
    );
    expect(found(renderWithSpans(template("thoughts"), thoughts, { which: "last" }))).toEqual([
      ["<think>so</think>\nd", ""],
    ]);
  });

  it("need a template that leaves replies as they are", () => {
    const upper = template("{% for m in messages %}{{ m.role }}: {{ m.content | upper }}\n{% endfor %}");
    expect(() => renderWithSpans(upper, chat)).toThrow(/renders the reply "q🙂z" as "Q🙂Z"/);
    expect(() => renderWithSpans(template("turns"), [assistant("x")])).toThrow(/Roles must alternate/);
  });

  it("take one time for all renderings", () => {
    let seconds = 0;
    const ticking = makeChatTemplate("{{ strftime_now('%S') }}{% for m in messages %}{{ m.content }};{% endfor %}");
    const clocked = {
      render: (...[messages, options]: Parameters<typeof ticking.render>) =>
        ticking.render(messages, { now: new Date(2024, 0, 1, 0, 0, seconds++ % 60), ...options }),
    };
    expect(found(renderWithSpans(clocked, [user("a"), assistant("b"), user("c"), assistant("d")]))).toEqual([
      ["b", ";"],
      ["d", ";"],
    ]);
  });
});

describe("tokens of replies", () => {
  /** The text of the tokens inside, run by run. */
  function inside(name: string, rendered: RenderedReplies, options = {}): string[] {
    const tokenizer = fixture(name);
    const { ids, inside: mask } = encodeReplies(tokenizer, rendered, options);
    expect(ids).toEqual(tokenizer.encode(rendered.text));
    expect(mask).toHaveLength(ids.length);
    const runs: number[][] = [];
    for (const [i, id] of ids.entries()) {
      if (mask[i] && !mask[i - 1]) runs.push([]);
      if (mask[i]) runs.at(-1)?.push(id);
    }
    return runs.map((run) => tokenizer.decode(run));
  }

  const marks = renderWithSpans(template("marks"), [
    user("a"),
    assistant("แม่น้ำ 🙂 the sea"),
    user("b"),
    assistant("19"),
  ]);

  it("are those of the content and the end of the turn", () => {
    const replies = ["แม่น้ำ 🙂 the sea<|im_end|>", "19<|im_end|>"];
    expect(inside("qwen", marks)).toEqual(replies);
    expect(inside("llama3", marks)).toEqual(replies);
    expect(inside("gemma", marks)).toEqual(replies);
    expect(inside("qwen", marks, { ends: false })).toEqual(["แม่น้ำ 🙂 the sea", "19"]);
    expect(inside("qwen", { text: "no reply", replies: [] })).toEqual([]);
  });

  it("are those that hold any byte of the reply", () => {
    const plain = template("{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}");
    const rendered = renderWithSpans(plain, [user("a"), assistant("రైతు")]);
    // The blank before the reply and the first two bytes of its first character are one token.
    expect(
      fixture("llama3")
        .encode(": రైతు")
        .map((id) => fixture("llama3").tokenOf(id)),
    ).toContain("Ġà°");
    expect(inside("llama3", rendered)).toEqual([" రైతు"]);
    // Bytes of the prompt and of the reply are one run, of which the reply's are inside.
    expect(
      inside(
        "llama2",
        renderWithSpans(template("{% for m in messages %}{{ m.content }}{% endfor %}"), [user("ก"), assistant("ข🙂")]),
      ),
    ).toEqual(["ข🙂"]);
  });

  it("are placed though the tokenizer adds and drops blanks", () => {
    const turns = renderWithSpans(template("turns"), [user("a"), assistant("the sea 🙂"), user("b"), assistant("x")]);
    expect(inside("llama2", turns)).toEqual(["the sea 🙂 </s>", "x </s>"]);
    expect(inside("mistral", turns)).toEqual(["the sea 🙂 </s>", "x </s>"]);
    const words = { text: "12  +   7 = 19 .", replies: [{ message: 0, start: 12, end: 14, turnEnd: 16 }] };
    expect(inside("unigram-bytes", { ...words, text: "x  =   y is 19 ." })).toEqual(["19 ."]);
  });

  it("cannot be placed where the tokenizer changes the text", () => {
    const cased = { text: "The Sea", replies: [{ message: 0, start: 0, end: 7, turnEnd: 7 }] };
    expect(() => encodeReplies(fixture("pieces"), cased)).toThrow(/changes the text at "The Sea"/);
    const decomposed = { text: "ok e\u0301", replies: [] };
    expect(() => encodeReplies(fixture("qwen"), decomposed)).toThrow(/often NFC/);
  });
});
