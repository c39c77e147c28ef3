import { describe, expect, it } from "vitest";
import type { TokenizerParts } from "./tokenizer-parts.js";
import { tokensBeyond } from "./tokens-beyond.js";

const added = (content: string, id: number) => ({ content, id }) as TokenizerParts["added"][number];
const parts = (more: { before?: readonly number[] } = {}) => ({
  vocabulary: new Map([
    ["a", 0],
    ["b", 1],
  ]),
  added: [added("<eos>", 2), added("<image>", 3), added("<pad>", 4)],
  special: new Map([["eos_token", 2] as const]),
  before: [],
  after: [],
  ...more,
});
const where = { name: "model", format: "ONNX" };

describe("tokens without a row of the embedding", () => {
  it("are left out with a note, such as the image of Gemma 3 without images", () => {
    const { ids, notes } = tokensBeyond(parts(), 3, { ...where, template: "{{ messages }}<eos>" });
    expect([...ids]).toEqual([3, 4]);
    expect(notes).toEqual([
      "the tokenizer has 2 tokens beyond the 3 rows of the embedding, which the export leaves out: <image>, <pad>",
    ]);
  });

  it("are none where every token has a row", () => {
    expect(tokensBeyond(parts(), 5, where)).toEqual({ ids: new Set(), notes: [] });
  });

  it.each([
    ["the template has one", parts(), 3, "<image>{{ messages }}"],
    ["a text ends with one", parts(), 2, ""],
    ["a text starts with one", parts({ before: [4] }), 3, ""],
    ["words are made of one", parts(), 1, ""],
  ])("are refused if %s", (_, own, rows, template) => {
    expect(() => tokensBeyond(own, rows, { ...where, template })).toThrow(
      /^model cannot be exported as ONNX: its tokenizer has \d tokens beyond the \d rows? of the embedding: /,
    );
  });
});
