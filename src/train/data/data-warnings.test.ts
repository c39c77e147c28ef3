import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { toyTokenizer } from "../../../test/support/toy-tokenizer.js";
import { makeChatTemplate } from "../../text/index.js";
import { dataWarnings } from "./data-warnings.js";
import { type PrepareOptions, prepareData } from "./prepare.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-warnings-"));
afterAll(() => rmSync(folder, { recursive: true }));

const tokenizer = toyTokenizer(["\n\n"]);
const EOS = tokenizer.eos as number;

let files = 0;
/** Data of these prompts and replies, in a file of its own. */
function dataOf(rows: readonly (readonly [q: string, a: string])[], more: object = {}): PrepareOptions["data"] {
  const source = `set${files++}.jsonl`;
  writeFileSync(join(folder, source), rows.map(([q, a]) => JSON.stringify({ q, a })).join("\n"));
  return { source, name: "set", map: { prompt: "q", response: "a" }, ...more } as PrepareOptions["data"];
}

const prepare = (data: PrepareOptions["data"], more: Partial<PrepareOptions> = {}) =>
  prepareData({ data, tokenizer, sequenceLength: 10, folder, endIds: [EOS], ...more });

async function warningsOf(data: PrepareOptions["data"], more: Partial<PrepareOptions> = {}): Promise<string[]> {
  const { counts } = await prepare(data, more);
  return counts.flatMap((set) => dataWarnings(set, { sequenceLength: 10, tokenizer, endIds: [EOS] }));
}

/** An example of `length` tokens: <bos>, a prompt of one, the break, and a reply with <eos>. */
const example = (length: number, i: number) => [String.fromCharCode(97 + i), "x".repeat(length - 4)] as const;

describe("a warning of examples that are cut", () => {
  it("is there above a tenth, with the lengths that keep them", async () => {
    const rows = [...Array(17).fill(6), 11, 14, 17].map(example);
    expect(await warningsOf(dataOf(rows.slice(0, 18)))).toEqual([]);
    expect(await warningsOf(dataOf(rows))).toEqual([
      "set: 3 of 20 examples are longer than 10 tokens and lose their end, or are left out. sequence_length: 11 keeps nine of ten whole, and 17 all.",
    ]);
    expect(await warningsOf(dataOf(rows), { sequenceLength: 17 })).toEqual([]);
  });

  it("counts those that are dropped, and those whose prompt fills the sequence", async () => {
    const rows = [...Array(7).fill(6)].map(example);
    const long = ["p".repeat(20), "x"] as const;
    expect((await warningsOf(dataOf([...rows, long])))[0]).toMatch(/^set: 1 of 8 examples .* and 24 all\.$/);
  });
});

describe("an error for a set without examples", () => {
  it.each([
    ["an empty file", dataOf([]), /set is empty: it has no rows/],
    [
      "blank rows",
      dataOf([
        ["", ""],
        [" ", "b"],
      ]),
      /all 2 rows of set lack a prompt or a response \(first: .*line 1\)/,
    ],
    [
      "prompts that fill the sequence",
      dataOf([
        ["p".repeat(9), "a"],
        ["p".repeat(12), "b"],
      ]),
      /the prompts of all 2 examples of set fill the 10 tokens of a sequence, so no reply is learned\. Set sequence_length to 16\./,
    ],
    ["filters", dataOf([["a", "b"]], { filter: [{ column: "q", is: ["z"] }] }), /Check its filters|filter/],
  ])("%s", async (_, data, message) => {
    await expect(prepare(data)).rejects.toThrow(message);
  });

  it("examples that are too long to keep", async () => {
    const { source, name, map } = dataOf([example(14, 0), example(20, 1)]) as never;
    await expect(prepare({ sets: [{ source, name, map }], too_long: "drop" } as never)).rejects.toThrow(
      /all 2 examples of set are longer than 10 tokens, and too_long: drop leaves them out\. Set sequence_length to 20\./,
    );
  });
});

describe("a warning of replies that end in no end token", () => {
  const rows = [6, 6, 6].map(example);
  const chat = (end: string) =>
    makeChatTemplate(`{% for m in messages %}<{{ m.role }}>{{ m.content }}${end}{% endfor %}`);
  const more = (end: string) => ({ chatTemplate: chat(end), sequenceLength: 60 });

  it("names the model's own", async () => {
    expect(await warningsOf(dataOf(rows), more("</s>"))).toEqual([
      "set: 3 of 3 replies end in no end token of the model (<eos>), so programs do not know where its answers end. " +
        "Add the token that ends them to eos_token_id in the base's generation_config.json.",
    ]);
  });

  it("is not there where the template writes one, also before a line break, or without a template", async () => {
    expect(await warningsOf(dataOf(rows), more("<eos>"))).toEqual([]);
    expect(await warningsOf(dataOf(rows), more("<eos>\n"))).toEqual([]);
    expect(await warningsOf(dataOf(rows))).toEqual([]);
  });
});
