// From files to batches: what becomes of each row, what is held out, and that nothing but the declaration decides.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, describe, expect, it } from "vitest";
import { toyTokenizer } from "../../../test/support/toy-tokenizer.js";
import { makeChatTemplate } from "../../text/index.js";
import { BatchStream, type ExampleList } from "./batches.js";
import type { SetCounts } from "./counts.js";
import { type PrepareOptions, prepareData } from "./prepare.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-prepare-"));
afterAll(() => rmSync(folder, { recursive: true }));

const tokenizer = toyTokenizer(["\n\n"]);
const map = { prompt: "q", response: "a" };

let files = 0;
function write(rows: readonly object[], name = `${files++}.jsonl`): string {
  writeFileSync(join(folder, name), rows.map((row) => JSON.stringify(row)).join("\n"));
  return name;
}

function prepare(data: PrepareOptions["data"], more: Partial<PrepareOptions> = {}) {
  return prepareData({ data, tokenizer, sequenceLength: 40, folder, ...more });
}

function textsOf(list: ExampleList | undefined): string[] {
  return (list?.sets ?? []).flatMap(({ examples }) => examples.map(({ ids }) => tokenizer.decode([...ids])));
}

const sum = (counts: Readonly<Record<string, number>>) =>
  Object.values(counts).reduce((total, count) => total + count, 0);

/** Every row and example is in exactly one count. */
function expectWhole(counts: SetCounts) {
  expect(counts.rows).toBe(counts.badRows + sum(counts.filteredRows) + counts.emptyRows + counts.mapped);
  expect(counts.examples).toBe(
    sum(counts.filtered) +
      counts.duplicates +
      counts.notSampled +
      counts.refused +
      counts.tooLong +
      counts.nothingToLearn +
      counts.kept,
  );
}

const many = Array.from({ length: 500 }, (_, i) => ({ q: `question ${i}`, a: `answer ${i * i}` }));

describe("data of common names", () => {
  const chat = makeChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}");
  const turns = [
    { role: "user", content: "a" },
    { role: "assistant", content: "b" },
  ];
  const plain = "<bos>a\n\nb<eos>";
  const written = "<user>a</s><assistant>b</s>";

  it.each([
    [{ messages: turns }, written, "conversations from messages"],
    [
      {
        conversations: [
          { from: "human", value: "a" },
          { from: "gpt", value: "b" },
        ],
      },
      written,
      "conversations from conversations",
    ],
    [{ prompt: "a", response: "b" }, written, "prompt from prompt, response from response"],
    [{ prompt: "a", completion: "b" }, written, "prompt from prompt, response from completion"],
    [
      { instruction: "x", input: "a", output: "b" },
      "<user>x\n\na</s><assistant>b</s>",
      "prompt from instruction and input, response from output",
    ],
    [
      { instruction: "a", context: "", response: "b" },
      written,
      "prompt from instruction and context, response from response",
    ],
    [{ question: "a", answer: "b" }, written, "prompt from question, response from answer"],
    [
      { question: "a", answer: "b", system: "s" },
      "<system>s</s><user>a</s><assistant>b</s>",
      "prompt from question, response from answer, system message from system",
    ],
  ])("such as %j are read by them, and written with the chat template", async (row, text, fields) => {
    const source = `./${write([row])}`;
    const withChat = await prepare(source, { chatTemplate: chat, sequenceLength: 200 });
    expect(textsOf(withChat.train)).toEqual([text]);
    expect(withChat.counts[0]).toMatchObject({ fields, template: "the model's chat template" });
    const without = await prepare(source);
    expect(without.counts[0]).toMatchObject({ fields, template: "plain" });
  });

  it("are text where they have no prompt, which no chat template holds", async () => {
    const { train, counts } = await prepare(`./${write([{ text: "ab" }])}`, { chatTemplate: chat });
    expect(textsOf(train)).toEqual(["<bos>ab<eos>"]);
    expect(counts[0]).toMatchObject({ fields: "text from text", template: "plain" });
  });

  it("take the chat template with a mapping of messages, unless told otherwise", async () => {
    const set = { source: write([{ dialog: turns }]), map: { messages: "dialog" } };
    const withChat = await prepare(set, { chatTemplate: chat });
    expect(textsOf(withChat.train)).toEqual([written]);
    const told = await prepare({ sets: [set], template: "plain" }, { chatTemplate: chat });
    expect(textsOf(told.train)).toEqual([plain]);
  });

  it("may be a parquet file, a table or a folder", async () => {
    const column = (name: string, value: string) => ({ name, data: [value] });
    const columnData = [column("question", "a"), column("answer", "b"), column("other", "c")];
    writeFileSync(join(folder, "rows.parquet"), new Uint8Array(parquetWriteBuffer({ columnData })));
    writeFileSync(join(folder, "rows.tsv"), "question\tanswer\na\tb");
    writeFileSync(join(folder, "rows.csv"), "question,answer\na,b");
    writeFileSync(join(folder, "rows.json"), '[{"question":"a","answer":"b"}]');
    const { train, counts } = await prepare(["rows.parquet", "rows.tsv", "rows.csv", "rows.json", "rows.c*"]);
    expect(textsOf(train)).toHaveLength(5);
    expect(new Set(textsOf(train)).size).toBe(1);
    expect(counts.map(({ name }) => name)).toEqual(["rows.parquet", "rows.tsv", "rows.csv", "rows.json", "rows.c*"]);
  });

  it("are named where none is known", async () => {
    const source = `./${write([{ q: "a", a: "b" }])}`;
    await expect(prepare(source)).rejects.toThrow(
      /jsonl: no column has a known name, only q, a\. Name those of prompt and response/,
    );
  });
});

describe("counts", () => {
  it("say what became of each row", async () => {
    const rows = [
      { q: "a", a: "b", lang: "sw" },
      { q: "a", a: "b", lang: "te" },
      { q: "", a: "b", lang: "sw" },
      { q: "a", a: null, lang: "sw" },
      { q: "a", a: "b", lang: "sw" },
      { q: "x".repeat(50), a: "b", lang: "sw" },
      { q: "x".repeat(30), a: "y".repeat(20), lang: "sw" },
      { q: "c", a: "z".repeat(101), lang: "sw" },
      { q: "d", a: "e", lang: "fr" },
    ];
    const lines = [...rows.map((row) => JSON.stringify(row)), "broken", '{"q": ["list"], "a": "x", "lang": "sw"}'];
    writeFileSync(join(folder, "counts.jsonl"), lines.join("\n"));
    const { counts, train } = await prepare({
      sets: [
        {
          source: "counts.jsonl",
          map,
          filter: [{ column: "lang", equals: ["sw", "te"] }, { characters: { max: 100 } }],
        },
      ],
      deduplicate: true,
      on_bad_row: "skip",
    });
    expect(counts).toEqual([
      {
        ...{
          name: "counts.jsonl",
          files: [join(folder, "counts.jsonl")],
          fields: "prompt from q, response from a",
          template: "plain",
          rows: 11,
          badRows: 2,
          mapped: 6,
          examples: 6,
        },
        badExamples: [
          { file: join(folder, "counts.jsonl"), line: 10, reason: expect.stringContaining("not valid JSON") },
          { file: join(folder, "counts.jsonl"), line: 11, reason: expect.stringContaining("q holds a list") },
        ],
        ...{ leftOut: {}, missing: {} },
        ...{
          filteredRows: { "lang = sw or te": 1 },
          emptyRows: 2,
          firstEmpty: { file: join(folder, "counts.jsonl"), line: 3 },
          filtered: { "characters <= 100": 1 },
          duplicates: 2,
        },
        ...{
          notSampled: 0,
          refused: 0,
          tooLong: 0,
          nothingToLearn: 1,
          promptTooLong: 1,
          kept: 2,
          cut: 1,
          cutTokens: 13,
          heldOut: 0,
        },
        // <bos> a \n\n b <eos>, and 40 tokens of which 8 are of the response
        ...{ tokens: 45, lossTokens: 10 },
        ...{ nineTenths: 54, longest: 54, endless: 0 },
      },
    ]);
    expect(textsOf(train)).toEqual(["<bos>a\n\nb<eos>", `<bos>${"x".repeat(30)}\n\n${"y".repeat(8)}`]);
    for (const set of counts) expectWhole(set);
  });

  it("of tokens, of examples that are dropped, and of what a chat template refuses", async () => {
    const source = write([
      { q: "a", a: "b" },
      { q: "a", a: "b".repeat(20) },
      { q: "no", a: "b" },
      { q: "a", a: "b".repeat(60) },
    ]);
    const chatTemplate = makeChatTemplate(
      "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('not this') }}{% endif %}{{ m.content }};{% endfor %}",
    );
    const data = {
      sets: [{ source, map, filter: [{ tokens: { min: 10 } }] }],
      template: "chat",
      too_long: "drop" as const,
    };
    await expect(prepare(data, { chatTemplate })).rejects.toThrow(/line 3: .*not this/);
    const { counts } = await prepare({ ...data, on_bad_row: "skip" }, { chatTemplate });
    expect(counts[0]).toMatchObject({
      filtered: { "tokens >= 10": 1 },
      refused: 1,
      tooLong: 1,
      kept: 1,
      badExamples: [{ line: 3 }],
    });
    for (const set of counts) expectWhole(set);
    await expect(prepare(data)).rejects.toThrow(/the model has no chat template/);
  });
});

describe("columns", () => {
  it("that do not exist are named with those that do, of every format", async () => {
    const jsonl = write([{ question: 1, x: 2 }, { y: 3 }]);
    await expect(prepare({ source: jsonl, map })).rejects.toThrow(
      `${jsonl}: ${join(folder, jsonl)} has no column q or a; it has question, x, y`,
    );
    const data = parquetWriteBuffer({
      columnData: [
        { name: "q", data: ["x"] },
        { name: "answer", data: ["y"] },
        { name: "n", data: [1] },
      ],
    });
    writeFileSync(join(folder, "columns.parquet"), new Uint8Array(data));
    await expect(prepare({ source: "columns.parquet", map })).rejects.toThrow(/has no column a; it has q, answer, n/);
    await expect(prepare({ source: jsonl, map: { messages: ["m", "n"] } })).rejects.toThrow(/no column m or n;/);
    await expect(
      prepare({ source: jsonl, map: { response: "x" }, filter: [{ column: "lang", equals: "sw" }] }),
    ).rejects.toThrow(/no column lang/);
  });

  it("may be missing from some rows", async () => {
    const source = write([
      { q: "a", input: "i", a: "b" },
      { q: "c", a: "d" },
    ]);
    const { train } = await prepare({ source, map: { ...map, input: "input", join: "|" } });
    expect(textsOf(train)).toEqual(["<bos>a|i\n\nb<eos>", "<bos>c\n\nd<eos>"]);
  });
});

describe("held-out examples", () => {
  it("are the same whatever the seed and the other rows", async () => {
    const source = write(many);
    const { train, heldOut, counts } = await prepare({ source, map }, { heldOut: { share: 0.1 }, seed: 1 });
    const held = textsOf(heldOut);
    expect(held.length).toBeGreaterThan(30);
    expect(held.length).toBeLessThan(70);
    expect(counts[0]).toMatchObject({ kept: 500, heldOut: held.length });
    expect(textsOf(train).filter((text) => held.includes(text))).toEqual([]);
    const more = write([...many.slice(250), { q: "new", a: "row" }, ...many.slice(0, 250)]);
    const other = await prepare({ source: more, map }, { heldOut: { share: 0.1 }, seed: 2 });
    expect(
      textsOf(other.heldOut)
        .filter((text) => !text.includes("new"))
        .sort(),
    ).toEqual(held.toSorted());
  });

  it("may be a number, of all sets together, both directions of a pair on one side", async () => {
    const pairs = many.slice(0, 60).map((_, i) => ({ en: `e${i}`, sw: `s${i}` }));
    const sets = [
      { source: write(many.slice(0, 40)), map },
      {
        source: write(pairs),
        map: { translation: { english: "en", other: "sw", language: "Swahili", instructions: ["{text}"] } },
      },
    ];
    const { train, heldOut } = await prepare({ sets }, { heldOut: { samples: 25 } });
    const [held, kept] = [textsOf(heldOut), textsOf(train)];
    expect(held.length).toBeGreaterThanOrEqual(25);
    expect(held.length).toBeLessThanOrEqual(26);
    const turned = (text: string) => text.replace(/^<bos>(\w+)\n\n(\w+)<eos>$/, "<bos>$2\n\n$1<eos>");
    for (const text of held) expect(kept).not.toContain(turned(text));
    await expect(prepare({ sets }, { heldOut: { samples: 160 } })).rejects.toThrow(
      /cannot hold out 160 of 160 examples/,
    );
  });
});

describe("caps and limits", () => {
  it("draw examples at random by the seed, limits take the first rows", async () => {
    const source = write(many);
    const sample = async (seed: number) => textsOf((await prepare({ source, map, cap: 50 }, { seed })).train);
    const [one, again, other] = [await sample(1), await sample(1), await sample(2)];
    expect(one).toHaveLength(50);
    expect(again).toEqual(one);
    expect(other).not.toEqual(one);
    // In the order of the file.
    const numbers = one.map((text) => Number(/question (\d+)/.exec(text)?.[1]));
    expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
    expect(Math.max(...numbers)).toBeGreaterThan(400);
    const { counts } = await prepare({ source, map, cap: 50 });
    expect(counts[0]).toMatchObject({ rows: 500, kept: 50, notSampled: 450 });
    expectWhole(counts[0] as SetCounts);
    expect(textsOf((await prepare({ source, map, limit: 3 })).train)).toHaveLength(3);
  });

  it("count only what can be used", async () => {
    const rows = many.map((row, i) => (i % 2 === 0 ? row : { ...row, q: "x".repeat(60) }));
    const { counts } = await prepare({ source: write(rows), map, cap: 200 });
    expect(counts[0]?.kept).toBe(200);
    expect(counts[0]?.nothingToLearn).toBeGreaterThan(50);
    expectWhole(counts[0] as SetCounts);
  });
});

describe("preparation", () => {
  it("gives the same digest for the same examples, and another one for others", async () => {
    const source = write(many);
    const [one, again, cut] = [
      await prepare({ source, map }),
      await prepare({ source, map }),
      await prepare({ source, map }, { sequenceLength: 20 }),
    ];
    expect(again.train.digest).toBe(one.train.digest);
    expect(cut.train.digest).not.toBe(one.train.digest);
  });

  it("mixes sets of several formats by weight", async () => {
    const line = (i: number, score: number) => `Line number ${i}\tMstari namba ${i}\t${score}\t0.99\t0.99\t_\t_`;
    const nllb = Array.from({ length: 30 }, (_, i) => line(i, i < 10 ? 1.01 : 1.2)).join("\n");
    writeFileSync(join(folder, "eng_Latn-swh_Latn.gz"), gzipSync(nllb));
    const { counts, train, repeat } = await prepare(
      [
        { use: "nllb", language: "Swahili", source: "eng_Latn-swh_Latn.gz", weight: 1 },
        { source: write(many), map, weight: 3, name: "questions" },
      ],
      { sequenceLength: 100 },
    );
    expect(counts.map(({ name, kept }) => [name, kept])).toEqual([
      ["nllb Swahili", 40],
      ["questions", 500],
    ]);
    expect(counts[0]?.filteredRows).toEqual({ "laser_score >= 1.06": 10 });
    const stream = new BatchStream({ examples: train, batch: 8, sequenceLength: 100, seed: 0, repeat });
    expect(stream.mixture.shares).toEqual([40, 120]);
  });

  it("stops when told, and says what is wrong before it begins", async () => {
    await expect(prepare({ source: write(many), map }, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      name: "CancelledError",
    });
    await expect(prepare({ source: "absent.jsonl", map })).rejects.toThrow(/absent\.jsonl does not exist/);
    await expect(prepare({ source: "/dev/null", map })).rejects.toThrow(
      "/dev/null is not a regular file. Save the rows",
    );
    await expect(prepare([{ use: "nllb", language: "Swahili" }])).rejects.toMatchObject({ name: "RecipeError" });
    await expect(prepare({ source: write([{ q: "", a: "" }]), map })).rejects.toThrow(/lack a prompt or a response/);
  });
});
