// Templates, masks, BOS and EOS, what is cut; and previews of it.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fixture, readFixture } from "../../../test/support/tokenizer-fixtures.js";
import { BOS, EOS, toyTokenizer } from "../../../test/support/toy-tokenizer.js";
import { previewLegend, renderPreview } from "../../figures/strip.js";
import { type ChatTemplate, makeChatTemplate, type Tokenizer } from "../../text/index.js";
import { type EncodingOptions, encoderOf, previewOf } from "./encode.js";
import type { Example, Mapped, Message, Role } from "./example.js";
import { compileMapping, mappingSchema } from "./mapping.js";
import type { Row } from "./read/index.js";

const tokenizer = toyTokenizer(["\n\n", "<|end|>", "<|user|>", "<|assistant|>"]);

const say = (...texts: string[]): { messages: Message[] } => ({
  messages: texts.map((content, i) => ({ role: i % 2 === 0 ? "user" : "assistant", content })),
});
const system = (content: string): Message => ({ role: "system", content });

/** Text of an example, what is learned in brackets. */
function shown(example: { messages: readonly Message[] }, options: Partial<EncodingOptions> = {}): string {
  const used = { tokenizer, sequenceLength: 1000, ...options };
  const { encoded } = encoderOf(used)(example);
  if (!encoded) return "(none)";
  return previewOf(encoded, used.tokenizer)
    .map(({ text, loss }) => (loss ? `[${text}]` : text))
    .join("");
}

describe("plain", () => {
  it("separates by an empty line and ends responses", () => {
    expect(shown(say("Hi", "Ho"))).toBe("<bos>Hi\n\n[Ho<eos>]");
    expect(shown(say("a", "b", "c", "d"))).toBe("<bos>a\n\n[b<eos>]c\n\n[d<eos>]");
    expect(shown({ messages: [system("S"), ...say("a", "b", "c").messages] })).toBe("<bos>S\n\na\n\n[b<eos>]c\n\n");
    expect(shown({ messages: [{ role: "assistant", content: "text" }] })).toBe("<bos>[text<eos>]");
  });

  it("learns all", () => {
    expect(shown(say("a", "b", "c", "d"), { loss: "all" })).toBe("<bos>[a\n\nb<eos>c\n\nd<eos>]");
  });

  it("has BOS and EOS as told, and never twice", () => {
    expect(shown(say("a", "b"), { bos: false, eos: false })).toBe("a\n\n[b]");
    expect(shown(say("<bos>a", "b<eos>"))).toBe("<bos>a\n\n[b<eos>]");
    const bare = toyTokenizer([], false);
    expect(shown(say("a", "b"), { tokenizer: bare, eos: false })).toBe("a\n\n[b]");
    expect(() => encoderOf({ tokenizer: bare, sequenceLength: 9 })).toThrow(/no token that ends a text.*eos: false/);
    expect(() => encoderOf({ tokenizer: bare, sequenceLength: 9, bos: true, eos: false })).toThrow(/bos: false/);
  });

  it("never learns the first token, for nothing is before it", () => {
    const encode = (bos: boolean) =>
      encoderOf({ tokenizer, sequenceLength: 99, bos, loss: "all" })(say("ab", "c")).encoded;
    expect([...(encode(true)?.loss ?? [])]).toEqual([0, 1, 1, 1, 1, 1]);
    expect([...(encode(false)?.loss ?? [])]).toEqual([0, 1, 1, 1, 1]);
  });

  it("learns a token that holds the end of the prompt and the beginning of the response", () => {
    const merging = toyTokenizer(["\n\nH"]);
    expect(shown(say("a", "Ho"), { tokenizer: merging })).toBe("<bos>a[\n\nHo<eos>]");
  });
});

describe("the text of a turn", () => {
  const turn = "### Ask:\n{prompt}\n### Answer:\n{response}\n---\n";

  it("is written once a turn; what follows the response belongs to it", () => {
    expect(shown(say("a", "b", "c", "d"), { template: { turn } })).toBe(
      "<bos>### Ask:\na\n### Answer:\n[b\n---\n<eos>]### Ask:\nc\n### Answer:\n[d\n---\n<eos>]",
    );
    expect(shown(say("a", "b", "c"), { template: { turn }, eos: false })).toBe(
      "<bos>### Ask:\na\n### Answer:\n[b\n---\n]### Ask:\nc\n### Answer:\n",
    );
  });

  it("places the system message, or has it in front", () => {
    const messages = [system("S"), ...say("a", "b", "c", "d").messages];
    expect(shown({ messages }, { template: { turn: "<{system}>{prompt}={response};" }, eos: false })).toBe(
      "<bos><S>a=[b;]<>c=[d;]",
    );
    expect(shown({ messages }, { template: { turn: "{prompt}={response};" }, eos: false })).toBe(
      "<bos>S\n\na=[b;]c=[d;]",
    );
  });

  it("has braces of its own, and takes those of the data as they are", () => {
    expect(shown(say("{response}", "{prompt}"), { template: { turn: "{{{prompt}}}: {response}" } })).toBe(
      "<bos>{{response}}: [{prompt}<eos>]",
    );
  });

  it.each(["{prompt}", "{response}", "{response}{prompt}", "{prompt}{response}{response}"])("cannot be %j", (bad) => {
    expect(() => encoderOf({ tokenizer, sequenceLength: 9, template: { turn: bad } })).toThrow(
      /must have \{prompt\}, and \{response\} once after it/,
    );
  });

  it("leaves texts without a prompt as they are", () => {
    expect(shown({ messages: [{ role: "assistant", content: "x" }] }, { template: { turn } })).toBe("<bos>[x<eos>]");
  });
});

describe("a chat template", () => {
  const source =
    "<bos>{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
  const chat: ChatTemplate = makeChatTemplate(source);

  it("says itself where texts begin and end", () => {
    expect(shown(say("a", "b", "c", "d"), { template: { chat } })).toBe(
      "<bos><|user|>a<|end|>\n<|assistant|>[b<|end|>]\n<|user|>c<|end|>\n<|assistant|>[d<|end|>]\n",
    );
    expect(shown(say("a", "b"), { template: { chat }, bos: true, eos: true })).toBe(
      "<bos><|user|>a<|end|>\n<|assistant|>[b<|end|>]\n[<eos>]",
    );
  });

  it("may hide responses only where all of it is learned", () => {
    const forgetful = makeChatTemplate("{{ messages | length }}:{% for m in messages %}{{ m.content }}{% endfor %}");
    expect(() => shown(say("a", "b", "c", "d"), { template: { chat: forgetful } })).toThrow(
      /differently when more follow/,
    );
    expect(shown(say("a", "b", "c", "d"), { template: { chat: forgetful }, loss: "all" })).toBe("4[:abcd]");
  });
});

describe("real tokenizers", () => {
  const chat = makeChatTemplate(
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
  );
  const conversation = say("What is 7 * 8?", "56.", "Swali: 12 + 3", "Jibu ni 15");

  it.each(["llama3", "qwen", "llama2", "gemma", "mistral", "unigram-bytes"])(
    "%s: a chat's responses are learned with the mark that ends the turn",
    (name) => {
      expect(responses(fixture(name))).toEqual(["56.<|im_end|>", "Jibu ni 15<|im_end|>"]);
    },
  );

  /** The text that is learned, reply by reply. */
  function responses(real: Tokenizer): string[] {
    const { encoded } = encoderOf({ tokenizer: real, template: { chat }, sequenceLength: 1000 })(conversation);
    const runs: number[][] = [];
    encoded?.ids.forEach((id, i) => {
      if (encoded.loss[i] && !encoded.loss[i - 1]) runs.push([]);
      if (encoded.loss[i]) runs.at(-1)?.push(id);
    });
    return runs.map((ids) => real.decode(ids));
  }
});

// See test/fixtures/tokenizers/make_masks.py.
describe("TRL's SFTTrainer", () => {
  const { templates, rows, cases } = readFixture("masks") as {
    templates: Record<string, string>;
    rows: Record<string, Row>;
    cases: [template: string, row: string, ids: number[], mask: string][];
  };
  const qwen = fixture("qwen");
  const isSpace = (id: number) => qwen.decode([id]).trim() === "";

  it.each(cases)(
    "with the template of %s, trains on the same tokens of %s but white space",
    (template, name, ids, mask) => {
      const row = rows[name] ?? {};
      const columns = "messages" in row ? { messages: "messages" } : { prompt: "prompt", response: "completion" };
      const mapping = compileMapping(
        mappingSchema.parse({ ...columns, ...("tools" in row ? { tools: "tools" } : {}) }),
      );
      const [example] = (mapping.map(row) as Mapped).examples;
      const written = { chat: makeChatTemplate(templates[template] ?? "") };
      const { encoded } = encoderOf({ tokenizer: qwen, template: written, sequenceLength: 2000 })(example as Example);
      expect([...(encoded?.ids ?? [])]).toEqual(ids);
      // TRL also learns line breaks around a turn, which nothing generates: the prompt has them.
      const differing = ids.filter((_, i) => encoded?.loss[i] !== Number(mask[i]));
      expect(differing.filter((id) => !isSpace(id))).toEqual([]);
      expect(ids.filter((id, i) => encoded?.loss[i] === 1 && !isSpace(id)).length).toBeGreaterThan(3);
    },
  );
});

describe("length", () => {
  const encode = (sequenceLength: number, too_long: "cut" | "drop" = "cut") =>
    encoderOf({ tokenizer, sequenceLength, too_long })(say("abc", "de"));

  it("is cut at the end, or the example dropped", () => {
    // <bos> a b c \n\n d e <eos>
    expect(encode(8)).toMatchObject({ fate: "whole", length: 8 });
    const { encoded, ...rest } = encode(7);
    expect(rest).toEqual({ fate: "cut", length: 8, hasEnd: true });
    expect(tokenizer.decode([...(encoded?.ids ?? [])])).toBe("<bos>abc\n\nde");
    expect(encode(7, "drop")).toMatchObject({ encoded: undefined, fate: "too long", length: 8 });
    expect(encode(5)).toMatchObject({ encoded: undefined, fate: "prompt too long", length: 8 });
    expect(encoderOf({ tokenizer, sequenceLength: 9 })(say("a")).fate).toBe("nothing to learn");
  });
});

describe("any conversation", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "\n", " ", "題", "<"), maxLength: 6 });
  const role = fc.constantFrom<Role>("system", "user", "assistant");
  const messages = fc.array(fc.record({ role, content: text }), { minLength: 1, maxLength: 6 });

  it("is encoded as its text is, and learned where the assistant speaks", () => {
    fc.assert(
      fc.property(messages, fc.integer({ min: 2, max: 60 }), (all, sequenceLength) => {
        const { encoded, length, fate } = encoderOf({ tokenizer, sequenceLength })({ messages: all });
        const whole = encoderOf({ tokenizer, sequenceLength: 10_000 })({ messages: all }).encoded;
        expect(encoded === undefined).toBe(["nothing to learn", "prompt too long", "too long"].includes(fate));
        if (!encoded || !whole) return;
        expect(length).toBe(whole.ids.length);
        expect(encoded.ids).toEqual(whole.ids.slice(0, sequenceLength));
        expect(whole.ids[0]).toBe(BOS);
        // Each response is learned with one EOS, unless it is empty and so has only that.
        const learned = previewOf(whole, tokenizer)
          .filter(({ loss }) => loss)
          .map((piece) => piece.text);
        const responses = all.filter((message) => message.role === "assistant").map(({ content }) => `${content}<eos>`);
        expect(learned.join("").replaceAll("\n", "")).toBe(responses.join("").replaceAll("\n", ""));
        expect([...whole.ids].filter((id) => id === EOS)).toHaveLength(responses.length);
      }),
      { numRuns: 300 },
    );
  });
});

describe("previews", () => {
  const plain = {
    bold: String,
    dim: String,
    green: String,
    cyan: String,
    yellow: String,
    magenta: String,
    red: String,
  };

  it("join to the text that the model sees", () => {
    const { encoded } = encoderOf({ tokenizer, sequenceLength: 99 })(say("a\nb", "c"));
    const pieces = encoded ? previewOf(encoded, tokenizer) : [];
    expect(pieces).toEqual([
      { text: "<bos>a\nb\n\n", loss: false, tokens: 5 },
      { text: "c<eos>", loss: true, tokens: 2 },
    ]);
    expect(renderPreview(pieces, plain)).toEqual(["<bos>a", "b", "", "⟦c<eos>⟧"]);
    expect(previewLegend(plain)).toContain("⟦");
  });

  it("are coloured line by line, and show control characters", () => {
    const palette = { ...plain, dim: (text: string) => `d(${text})`, green: (text: string) => `g(${text})` };
    const pieces = [
      { text: "a\n\u001b[31m\r\tb", loss: false },
      { text: "\u0000\u009b\n\nc", loss: true },
    ];
    expect(renderPreview(pieces, palette)).toEqual(["d(a)", "d(␛[31m␍\tb)g(␀\\u009b)", "", "g(c)"]);
    expect(previewLegend(palette)).toBe("g(learned), d(only read)");
  });

  it("show a character that falls into two pieces in the second", () => {
    const bytes = {
      ...tokenizer,
      decode: (ids: readonly number[]) => new TextDecoder().decode(Uint8Array.from(ids)),
    };
    const ids = Int32Array.from([0x61, 0xe3, 0x81, 0x82, 0x62]);
    const loss = Uint8Array.from([0, 0, 1, 1, 1]);
    expect(previewOf({ ids, loss }, bytes).map(({ text }) => text)).toEqual(["a", "あb"]);
  });
});
