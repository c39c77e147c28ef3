// Tasks that a file declares: prompts, readings, scores, and every fault of a declaration with its line.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { scoreItems } from "../scoring/scores.js";
import { type Output, openTasks, parseDeclaration, type Task } from "./open-tasks.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-test-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const ROWS = [
  {
    n: 7,
    question: "Mji mkuu wa Kenya?",
    answer: "Nairobi",
    options: ["Mombasa", "Nairobi"],
    right: "B",
    topic: "miji",
  },
  { n: 8, question: "2 + 3?", answer: 5, options: ["5", "6"], right: 0, topic: "hesabu" },
  { n: 9, question: "Bahari?", answer: "Hindi", options: ["Hindi", "Atlantiki"], right: "A", topic: "miji" },
];
writeFileSync(join(root, "rows.jsonl"), ROWS.map((row) => `${JSON.stringify(row)}\n`).join(""));

let count = 0;
async function open(declaration: string, shots?: number): Promise<Task> {
  const file = join(root, `task${count++}.yaml`);
  writeFileSync(file, declaration);
  const [task] = await openTasks([file], { shots });
  return task as Task;
}

const GENERATE = `
task: trivia
data: rows.jsonl
answer: generate
prompt: "Swali: {question}\\nJibu:"
gold: "{answer}"
`;
const CHOOSE = `
task: quiz
data: rows.jsonl
answer: choose
prompt: "{question}"
choices: options
correct: "{right}"
group: "{topic}"
`;

async function judge(task: Task, index: number, output: Output) {
  const { items } = await task.load({});
  const item = items[index];
  if (!item) throw new Error("no item");
  const reading = task.read(item, output);
  return { reading, verdict: await task.score(item, reading) };
}

describe("answers in text", () => {
  it("are asked of rows at an absolute path, too", async () => {
    const task = await open(GENERATE.replace("rows.jsonl", join(root, "rows.jsonl")));
    expect((await task.load({})).items).toEqual((await (await open(GENERATE)).load({})).items);
    const missing = await open(GENERATE.replace("rows.jsonl", "/no/such/rows.jsonl"));
    await expect(missing.load({})).rejects.toThrow("/no/such/rows.jsonl does not exist, or is not a file.");
  });

  it("are asked with the first rows but the row itself", async () => {
    const task = await open(`${GENERATE}description: "Jibu kwa neno moja.\\n\\n"\nshots: 1\nid: "q{n}"`);
    const { items } = await task.load({});
    expect(items[0]).toEqual({
      kind: "generate",
      id: "q7",
      prompt: {
        form: "text",
        shared: "Jibu kwa neno moja.\n\nSwali: 2 + 3?\nJibu: 5\n\n",
        own: "Swali: Mji mkuu wa Kenya?\nJibu:",
      },
      gold: "Nairobi",
      stop: ["\n"],
      maxNewTokens: 128,
    });
    expect(items[2]?.prompt.shared).toBe("Jibu kwa neno moja.\n\nSwali: Mji mkuu wa Kenya?\nJibu: Nairobi\n\n");
    expect(task.protocol).toMatchObject({ name: "custom/trivia", version: 1 });
    expect((await (await open(GENERATE, 0)).load({}, { limit: 2 })).items).toHaveLength(2);
  });

  it.each<[string, number, string, object, number]>([
    ["", 0, " Nairobi \nSwali", { answer: "Nairobi" }, 1],
    ["", 0, " nairobi", { answer: "nairobi" }, 0],
    ["read: text", 0, "\nNairobi\n", { answer: "Nairobi" }, 1],
    ["read: number\nlanguage: sw", 1, " ni 4, hapana 5.0", { answer: "5" }, 1],
    ["read: number\nlanguage: sw", 1, " tano", {}, 0],
    ["read: {pattern: 'jibu: (\\w+)'}", 0, "jibu: Mombasa; jibu: Nairobi.", { answer: "Nairobi" }, 1],
    ["read: {pattern: 'jibu: (\\w+)'}", 0, "Nairobi", {}, 0],
  ])("are read as declared: %s", async (lines, index, output, reading, exact) => {
    const task = await open(`${GENERATE}${lines}`);
    expect(await judge(task, index, output)).toEqual({ reading, verdict: { exact } });
  });

  it("are asked as a chat, with solved examples as turns, where the file says so", async () => {
    const text = GENERATE.replace("Swali: {question}\\nJibu:", "{question}");
    const task = await open(`${text}chat: true\nshots: 1\ndescription: "Jibu: "`);
    const { items } = await task.load({});
    expect(items[0]).toMatchObject({
      prompt: {
        form: "chat",
        messages: [
          { role: "user", content: "Jibu: 2 + 3?" },
          { role: "assistant", content: "5" },
          { role: "user", content: "Mji mkuu wa Kenya?" },
        ],
        shared: 2,
      },
      stop: [],
    });
    const { items: stopped } = await (await open(`${text}chat: true\nstop: [END]`)).load({});
    expect(stopped[0]).toMatchObject({ prompt: { messages: [{ content: "Mji mkuu wa Kenya?" }] }, stop: ["END"] });
    await expect(open(`${CHOOSE}chat: true`)).rejects.toThrow(/chat/);
  });

  it("are asked with literal braces where they are doubled", async () => {
    const task = await open(GENERATE.replace("{question}", "as {{n}}: {{{n}}}"));
    const { items } = await task.load({});
    expect(items[0]?.prompt).toMatchObject({ own: "Swali: as {n}: {7}\nJibu:" });
  });

  it("can be scored by BLEU and chrF++ over the corpus", async () => {
    const task = await open(`${GENERATE}score: [exact, bleu, chrf++]\ntokenize: char`);
    const { items } = await task.load({});
    const judged = await Promise.all(
      items.map(async (item) => ({ id: item.id, verdict: await task.score(item, task.read(item, item.gold)) })),
    );
    const scores = scoreItems(task.metrics, judged);
    expect(scores.map(({ metric }) => metric)).toEqual(["exact", "bleu", "chrf++"]);
    expect(scores.map(({ value }) => Math.round(value))).toEqual([1, 100, 100]);
    expect(scores[1]?.signature).toContain("tok:char");
  });
});

describe("choices", () => {
  it("come from a list of the row, right by label or by index", async () => {
    const task = await open(CHOOSE);
    const { items } = await task.load({});
    expect(items[0]).toMatchObject({
      choices: [" Mombasa", " Nairobi"],
      labels: ["A", "B"],
      correct: 1,
      group: "miji",
    });
    expect(items[1]).toMatchObject({ correct: 0, gold: "A" });
    expect(await judge(task, 0, [-2, -1])).toEqual({
      reading: { choice: 1, label: "B", acc_norm: 1, acc_bytes: 1 },
      verdict: { accuracy: 1, acc_norm: 1, acc_bytes: 1 },
    });
  });

  it("are scored per character and per byte, too, as lm-evaluation-harness does", async () => {
    // Characters 2, 3 and 9; bytes 2, 9 and 9. Log-likelihoods per character -1, -1.3, -0.9; per byte -1, -0.43, -0.9.
    const row = { question: "?", options: ["ab", "日本語", "abcdefghi"], right: 1 };
    writeFileSync(join(root, "lengths.jsonl"), `${JSON.stringify(row)}\n`);
    const task = await open(CHOOSE.replace("rows.jsonl", "lengths.jsonl").replace(/group.*\n/, ""));
    expect(task.metrics.map(({ name }) => name)).toEqual(["accuracy", "acc_norm", "acc_bytes"]);
    expect(await judge(task, 0, [-2, -3.9, -8.1])).toEqual({
      reading: { choice: 0, label: "A", acc_norm: 2, acc_bytes: 1 },
      verdict: { accuracy: 0, acc_norm: 0, acc_bytes: 1 },
    });
    expect(await judge(task, 0, [-2, null, -8.1])).toEqual({ reading: { missing: ["B"] }, verdict: undefined });
  });

  it("that are tied are worth 1/k, wherever the right one stands", async () => {
    for (const right of [0, 1, 2]) {
      const row = { question: "?", options: ["ab", "cd", "efg"], right };
      writeFileSync(join(root, "ties.jsonl"), `${JSON.stringify(row)}\n`);
      const task = await open(CHOOSE.replace("rows.jsonl", "ties.jsonl").replace(/group.*\n/, ""));
      const { reading, verdict } = await judge(task, 0, [-6, -6, -6]);
      expect(reading).toEqual({ choice: [0, 1, 2], label: "A, B, C", acc_norm: 2, acc_bytes: 2 });
      const ofLength = right === 2 ? 1 : 0;
      expect(verdict).toEqual({ accuracy: 1 / 3, acc_norm: ofLength, acc_bytes: ofLength });
      expect((await judge(task, 0, [-4, -4, -9])).verdict).toMatchObject({ acc_norm: right === 2 ? 0 : 0.5 });
    }
  });

  it("may be numbers: the right one is the one that says so, and what could be two is refused", async () => {
    const rows = (right: unknown) => `${JSON.stringify({ question: "2 + 3?", options: ["5", "1", "0"], right })}\n`;
    const declaration = CHOOSE.replace("rows.jsonl", "numbers.jsonl").replace(/group.*\n/, "");
    const correct = async (right: unknown) => {
      writeFileSync(join(root, "numbers.jsonl"), rows(right));
      const { items } = await (await open(declaration)).load({});
      return (items[0] as { correct?: number }).correct;
    };
    expect(await correct(5)).toBe(0);
    expect(await correct(1)).toBe(1);
    expect(await correct("C")).toBe(2);
    expect(await correct(2)).toBe(2);
    await expect(correct(0)).rejects.toThrow(
      /line 1: the right choice 0 is the text of one choice and the index of another; give its label \(A, B, C\)$/,
    );
  });

  it("come from templates, with the answer after a shot's prompt", async () => {
    const task = await open(CHOOSE.replace("choices: options", 'choices: ["{options[0]}", "{options[1]}"]'), 1);
    const { items } = await task.load({});
    expect(items[0]?.prompt).toMatchObject({ shared: "2 + 3? 5\n\n", own: "Mji mkuu wa Kenya?" });
  });
});

describe("what is wrong", () => {
  it("is reported of a declaration all at once, with lines", () => {
    const text = "task: a b\ndata: x\nanswer: generate\npromt: x\ngold: g\nshots: -1\nread: words\n";
    const run = () => parseDeclaration(text, "t.yaml");
    expect(run).toThrow(/t\.yaml is not a valid declaration of a task:/);
    expect(run).toThrow(/line 1: task: must be a name of letters/);
    expect(run).toThrow(/line 1: prompt: is missing/);
    expect(run).toThrow(/line 6: shots: /);
    expect(run).toThrow(/line 7: read: /);
    expect(run).toThrow(/unknown field "promt"; did you mean prompt\?/);
    const unsaid = 'task: q\ndata: rows.jsonl\nansver: choose\nprompt: "{{question}"\ngold: a\nstop: 3';
    expect(() => parseDeclaration(unsaid, "t.yaml")).toThrow(
      [
        "t.yaml is not a valid declaration of a task:",
        "  - line 1: answer: must be generate or choose",
        '  - line 3: unknown field "ansver"; did you mean answer?',
        "  - line 4: prompt: {{question} does not insert a field; write {question}",
        "  - line 6: stop: must be a list, not a number",
      ].join("\n"),
    );
    const old = 'task: q\ndata: rows.jsonl\nanswer: generate\nprompt: "Q: {{ question }}\\nA:"\ngold: "{{a.b[0]}}"\n';
    expect(() => parseDeclaration(old, "t.yaml")).toThrow(
      [
        "t.yaml is not a valid declaration of a task:",
        "  - line 4: prompt: {{ question }} does not insert a field; write {question}",
        "  - line 5: gold: {{a.b[0]}} does not insert a field; write {a.b[0]}",
      ].join("\n"),
    );
    expect(() => parseDeclaration("answer: maybe", "t.yaml")).toThrow(/line 1: answer: must be generate or choose/);
    expect(() => parseDeclaration("a: [", "t.yaml")).toThrow(/t\.yaml is not valid YAML:\n {2}- line 1/);
    expect(() => parseDeclaration("- a", "t.yaml")).toThrow(/not a valid declaration/);
  });

  it.each<[string, RegExp]>([
    [GENERATE.replace("{question}", "{qestion}"), /rows\.jsonl, line 1 has no field qestion; did you mean question\?/],
    [GENERATE.replace("{question}", "{options}"), /line 1 has no text at options/],
    [
      GENERATE.replace("{question}", "as {n: 3}"),
      /line 1 has no field n: 3 \(its fields are .*; \{\{ and \}\} are literal braces\)$/,
    ],
    [GENERATE.replace("{question}", "{__proto__}"), /line 1 has no field __proto__/],
    [GENERATE.replace("rows.jsonl", "none.jsonl"), /no data for this task; expected none\.jsonl/],
    [`${GENERATE}id: "{topic}"`, /line 3: the id miji is used twice/],
    [`${GENERATE}shots: 3`, /3 rows are too few for 3 shots/],
    [
      CHOOSE.replace("{right}", "{topic}"),
      /the right choice is "miji"; expected one of A, B, the text of a choice, or an index from 0/,
    ],
    [
      CHOOSE.replace("choices: options", "choices: option"),
      /has no field option; did you mean options\? \(its fields are /,
    ],
    [CHOOSE.replace("choices: options", "choices: topic"), /the field topic must be a list of at least two texts/],
    [`${CHOOSE}labels: [A, B, C]`, /line 1 has 2 choices, and there are 3 labels/],
  ])("is reported of the data: %s", async (declaration, message) => {
    const task = await open(declaration);
    await expect(task.load({})).rejects.toThrow(message);
  });

  it("is reported of a bare NaN, as Python writes it", async () => {
    writeFileSync(join(root, "nan.jsonl"), '{"question": "a", "answer": "b"}\n{"question": "c", "answer": NaN}\n');
    const task = await open(GENERATE.replace("rows.jsonl", "nan.jsonl"));
    await expect(task.load({})).rejects.toThrow(
      /nan\.jsonl, line 2 has null or NaN at answer\. Write a value, or remove the row$/,
    );
  });

  it("is reported of answers that cannot be read", async () => {
    await expect(open(`${GENERATE}read: {pattern: "("}`)).rejects.toThrow(/not a regular expression/);
    await expect(open(`${GENERATE}read: number\nlanguage: it`)).rejects.toThrow(/languages of MGSM, not it/);
    await expect(openTasks([join(root, "none.yaml")])).rejects.toMatchObject({
      code: "usage",
      message: expect.stringMatching(/none\.yaml does not exist/),
    });
    await open(GENERATE);
    await expect(openTasks([join(root, `task${count - 1}.yaml`)], { protocols: ["nope"] })).rejects.toThrow(
      /no choice of protocols; remove nope/,
    );
  });
});
