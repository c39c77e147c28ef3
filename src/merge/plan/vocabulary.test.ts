// Vocabularies that differ by padding or added tokens: refused with the difference, or aligned row by row by token.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { readJson, temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { expectRefused, layergraft } from "../../../test/support/command.js";
import { readFolder, roundTo, toNumbers } from "../../../test/support/numbers.js";
import { executePlan } from "../output/execute-plan.js";
import { verifyOutput } from "../output/verify.js";
import { planRecipe } from "./planner.js";

const root = temporaryFolder();
const HIDDEN = 8;
/** Length limit that transformers writes for an unlimited tokenizer: `int(1e30)`. */
const VERY_LARGE = "1000000000000000019884624838656";

/** A tiny model whose embedding has `rows` rows, and a tokenizer of letters with added tokens after them. */
async function writeModel(name: string, rows: number, letters: string, added: readonly string[], seed: number) {
  await writeTiny(join(root, name), { layers: 2, vocabulary: rows, seed });
  const vocab = Object.fromEntries([...letters].map((letter, row) => [letter, row]));
  const describeToken = (content: string, i: number) => ({ id: letters.length + i, content, special: true });
  const tokenizer = {
    version: "1.0",
    added_tokens: added.map(describeToken),
    model: { type: "BPE", vocab, merges: [] },
  };
  writeFileSync(join(root, name, "tokenizer.json"), JSON.stringify(tokenizer));
  const settings = `{"model_max_length": ${VERY_LARGE}, "added_tokens_decoder": {}}`;
  writeFileSync(join(root, name, "tokenizer_config.json"), settings);
}

beforeAll(async () => {
  await writeModel("task", 10, "abcdefg", ["<pad>"], 1); // rows 8 and 9 are padding
  await writeModel("language", 12, "abcdefg", ["<end>", "<pad>", "<sw>"], 2); // <pad> has another row
  await writeModel("shuffled", 10, "gfedcba", ["<pad>"], 3);
  await writeModel("padded", 12, "abcdefg", ["<pad>"], 4);
  await writeModel("learned", 10, "abcdefgh", ["<pad>"], 5);
});

const rowsOf = async (name: string, tensor = "model.embed_tokens.weight") => {
  const values = toNumbers((await readFolder(join(root, name))).get(tensor) as Parameters<typeof toNumbers>[0]);
  return Array.from({ length: values.length / HIDDEN }, (_, row) => values.slice(row * HIDDEN, (row + 1) * HIDDEN));
};
const average = (a: number[] = [], b: number[] = []) => a.map((x, i) => roundTo("BF16", (x + (b[i] as number)) / 2));

async function swap(out: string, task: string, language: string, vocabulary?: string) {
  const recipe = { method: "swap" as const, task, language, ...(vocabulary ? { vocabulary } : {}) };
  const opened = await planRecipe(recipe, { folder: root });
  const result = await executePlan(opened, { out: join(root, out) });
  expect(await verifyOutput(result.out)).toMatchObject({ deviations: [], files: [] });
  return opened.plan;
}

describe("aligned by token", () => {
  it("to the task expert's vocabulary: its rows, averaged where both have the token", async () => {
    const plan = await swap("to-task", "task", "language", "task");
    const [task, language] = [await rowsOf("task"), await rowsOf("language")];
    const found = await rowsOf("to-task");
    // a to g in place; <pad> is row 7 here and 8 there; rows 8 and 9 are padding of task's, 10 and 11 of language's.
    const wanted = [
      ...[0, 1, 2, 3, 4, 5, 6].map((row) => average(task[row], language[row])),
      average(task[7], language[8]),
    ];
    expect(found).toEqual([...wanted, task[8], task[9]]);
    expect(readJson(root, "to-task", "config.json").vocab_size).toBe(10);
    expect(plan.notes.join("\n")).toMatch(
      /vocabulary of task: 10 rows; 8 tokens in all sources, 0 only in some.*2 padding/,
    );
    expect(plan.notes.join("\n")).toMatch(/2 tokens of language left out: <end>, <sw>/);
  });

  it("to the language expert's: tokens that the task expert lacks keep the language expert's rows", async () => {
    const plan = await swap("to-language", "task", "language", "language");
    const [task, language] = [await rowsOf("task", "lm_head.weight"), await rowsOf("language", "lm_head.weight")];
    const wanted = language.map((row, i) => (i < 7 ? average(task[i], row) : i === 8 ? average(task[7], row) : row));
    expect(await rowsOf("to-language", "lm_head.weight")).toEqual(wanted);
    expect(plan.tokenizerFrom).toBe("language");
    expect(readJson(root, "to-language", "config.json").vocab_size).toBe(12);
  });

  it("to the union: added tokens come after the task expert's own, and into its tokenizer", async () => {
    await swap("to-union", "task", "language", "union");
    const [task, language] = [await rowsOf("task"), await rowsOf("language")];
    const found = await rowsOf("to-union");
    expect(found.slice(0, 8)).toEqual([
      ...[0, 1, 2, 3, 4, 5, 6].map((row) => average(task[row], language[row])),
      average(task[7], language[8]),
    ]);
    expect(found.slice(8)).toEqual([language[7], language[9]]);
    const tokenizer = readJson(root, "to-union", "tokenizer.json") as { added_tokens: unknown };
    expect(tokenizer.added_tokens).toEqual([
      { id: 7, content: "<pad>", special: true },
      { id: 8, content: "<end>", special: true },
      { id: 9, content: "<sw>", special: true },
    ]);
    expect(readFileSync(join(root, "to-union", "tokenizer_config.json"), "utf8")).toContain(VERY_LARGE);
    expect(readJson(root, "to-union", "tokenizer_config.json").added_tokens_decoder).toEqual({
      8: { content: "<end>", special: true },
      9: { content: "<sw>", special: true },
    });
  });

  it("of another order, and of more padding", async () => {
    await swap("unshuffled", "task", "shuffled", "task");
    const [task, shuffled] = [await rowsOf("task"), await rowsOf("shuffled")];
    expect((await rowsOf("unshuffled")).slice(0, 7)).toEqual(
      [0, 1, 2, 3, 4, 5, 6].map((row) => average(task[row], shuffled[6 - row])),
    );
    await swap("unpadded", "task", "padded", "task");
    const padded = await rowsOf("padded");
    expect(await rowsOf("unpadded")).toEqual(task.map((row, i) => average(row, padded[i])));
    await swap("repadded", "task", "padded", "language");
    expect(await rowsOf("repadded")).toEqual(padded.map((row, i) => (i < 10 ? average(task[i], row) : row)));
  });

  it("of a chat vector, to the larger one: tokens that the expert and its base lack keep their rows", async () => {
    const recipe = { method: "chat_vector" as const, task: "language", expert: "padded", base: "task", lambda: 0.5 };
    const opened = await planRecipe({ ...recipe, vocabulary: "task", dtype: "float32" }, { folder: root });
    await executePlan(opened, { out: join(root, "chat") });
    const [language, expert, base] = [await rowsOf("language"), await rowsOf("padded"), await rowsOf("task")];
    const found = await rowsOf("chat");
    // a to g in place, <pad> in row 8 and, in the smaller ones, in row 7.
    for (const [row, other] of [...[0, 1, 2, 3, 4, 5, 6].map((one) => [one, one]), [8, 7]] as [number, number][]) {
      found[row]?.forEach((x, i) => {
        const change = (expert[other]?.[i] as number) - (base[other]?.[i] as number);
        expect(x).toBeCloseTo((language[row]?.[i] as number) + 0.5 * change, 5);
      });
    }
    expect([found[7], found[9]]).toEqual([language[7], language[9]]);
    expect(opened.plan.tokenizerFrom).toBe("task");
  });

  it("copies unchanged tensors, and works for any method", async () => {
    const recipe = {
      method: "ties" as const,
      ...{ models: ["task", "shuffled"], base: "padded", density: 0.5, trim: "tensor" as const, vocabulary: "base" },
    };
    const opened = await planRecipe(recipe, { folder: root });
    const { out } = await executePlan(opened, { out: join(root, "ties") });
    expect((await verifyOutput(out)).deviations).toEqual([]);
    // Neither expert has rows 10 and 11: they stay the base's, bit for bit.
    expect((await rowsOf("ties")).slice(10)).toEqual((await rowsOf("padded")).slice(10));
  });

  it("with rows of single tokens from other tokens, other models or zero, and rows up to a multiple", async () => {
    const tokens = {
      "<end>": { source: "task", token: "b" }, // which the task expert lacks
      "<pad>": { source: "language", force: true },
      c: { source: "language", row: 5, force: true },
      d: { source: "zero", force: true },
      "<new>": { source: "task", token: "a" },
      "<none>": { source: "zero" },
    };
    const vocabulary = { from: "union", tokens, multiple_of: 8 };
    const recipe = { method: "swap" as const, task: "task", language: "language", vocabulary };
    const opened = await planRecipe(recipe, { folder: root });
    const { out } = await executePlan(opened, { out: join(root, "chosen") });
    expect((await verifyOutput(out)).deviations).toEqual([]);
    const [task, language] = [await rowsOf("task"), await rowsOf("language")];
    const zero = Array.from({ length: HIDDEN }, () => 0);
    const found = await rowsOf("chosen");
    expect(found).toEqual([
      average(task[0], language[0]),
      average(task[1], language[1]),
      language[5],
      zero,
      ...[4, 5, 6].map((row) => average(task[row], language[row])),
      language[8],
      average(task[1], language[7]),
      language[9],
      task[0],
      ...Array.from({ length: 5 }, () => zero),
    ]);
    expect(readJson(root, "chosen", "config.json").vocab_size).toBe(16);
    const written = readJson(root, "chosen", "tokenizer.json") as { added_tokens: { id: number; content: string }[] };
    expect(written.added_tokens.map(({ id, content }) => [id, content])).toEqual([
      [7, "<pad>"],
      [8, "<end>"],
      [9, "<sw>"],
      [10, "<new>"],
      [11, "<none>"],
    ]);
    const asked = (from: object) =>
      planRecipe({ ...recipe, vocabulary: { from: "task", tokens: { a: from } } } as never, { folder: root });
    await expect(asked({ source: "base" })).rejects.toThrow(
      'vocabulary.tokens: the row of "a" cannot be taken from base: it must be zero, or one of task, language',
    );
    await expect(asked({ source: "task", token: "<sw>" })).rejects.toThrow('its tokenizer has no token "<sw>"');
    await expect(asked({ source: "task", row: 10 })).rejects.toThrow("it has 10 rows");
    await expect(asked({ source: "task", row: 1, token: "b" })).rejects.toThrow("must have either token or row");
  });

  it("the same bytes on one thread and three", async () => {
    const opened = await planRecipe(
      { method: "soup", models: ["task", "language"], vocabulary: "union" },
      { folder: root },
    );
    await executePlan(opened, { out: join(root, "one"), threads: 1 });
    await executePlan(opened, { out: join(root, "three"), threads: 3 });
    expect(await rowsOf("one")).toEqual(await rowsOf("three"));
  });
});

describe("ids in the configuration", () => {
  // Rows: a to g are 0 to 6; then <pad> in task; <end>, <pad>, <sw> in language.
  const idsOf = (out: string, ...keys: string[]) => {
    const json = readJson(root, out, "config.json");
    return keys.map((key) => json[key]);
  };
  const setConfig = (name: string, fields: object) => {
    const file = join(root, name, "config.json");
    writeFileSync(file, JSON.stringify({ ...readJson(root, name, "config.json"), ...fields }));
  };
  const KEYS = ["eos_token_id", "pad_token_id", "bos_token_id", "suppress_tokens", "bad_words_ids", "image_token_id"];
  const task = { eos_token_id: 7, pad_token_id: null, bos_token_id: 0, suppress_tokens: [1, 7] };
  const language = { eos_token_id: [7, 8], pad_token_id: 8, bos_token_id: 7, suppress_tokens: [], image_token_id: 9 };

  beforeAll(async () => {
    await writeModel("task", 10, "abcdefg", ["<pad>"], 1);
    await writeModel("language", 12, "abcdefg", ["<end>", "<pad>", "<sw>"], 2);
    setConfig("task", { ...task, bad_words_ids: [[0, 7], [2]] });
    writeFileSync(join(root, "task", "generation_config.json"), '{"eos_token_id": 7}');
    writeFileSync(join(root, "language", "generation_config.json"), '{"eos_token_id": [7, 8]}');
    setConfig("language", language);
  });

  it("follow the tokens to the rows that they have now", async () => {
    const plan = await swap("ids-language", "task", "language", "language");
    expect(idsOf("ids-language", ...KEYS)).toEqual([8, null, 0, [1, 8], [[0, 8], [2]], undefined]);
    expect(readJson(root, "ids-language", "generation_config.json")).toEqual({ eos_token_id: [7, 8] });
    expect(plan.config).toEqual({ eos_token_id: 8, suppress_tokens: [1, 8], bad_words_ids: [[0, 8], [2]] });
    expect((await swap("ids-task", "task", "language", "task")).config).toBeUndefined();
  });

  it("become the other model's where the token is gone, which is noted", async () => {
    const models = { method: "soup" as const, models: ["language", "task"], vocabulary: "models[1]" };
    await expect(planRecipe(models, { folder: root })).rejects.toThrow(
      /image_token_id of models\[0\] names a token that models\[1\] lacks: .*<sw> \(image_token_id\)\. Set vocabulary to models\[0\] or union/,
    );
    setConfig("language", { image_token_id: undefined });
    const opened = await planRecipe(models, { folder: root });
    await executePlan(opened, { out: join(root, "ids-lost") });
    // <end> is gone from the list; bos, which was <end>, is task's.
    expect(idsOf("ids-lost", ...KEYS)).toEqual([[7], 7, 0, [], undefined, undefined]);
    expect(opened.plan.notes.join("\n")).toContain(
      "the vocabulary of models[1] lacks <end> (eos_token_id), which the configuration of models[0] names; a field without another token takes the value of models[1], or becomes null",
    );
    setConfig("language", { image_token_id: 9 });
  });

  it("of a text tower too, with the text of the file's other numbers", async () => {
    await writeModel("wrapper", 12, "abcdefg", ["<end>", "<pad>", "<sw>"], 5);
    const file = join(root, "wrapper", "config.json");
    const { num_hidden_layers, vocab_size, hidden_size, ...rest } = readJson(root, "wrapper", "config.json");
    const text = `{"num_hidden_layers": ${num_hidden_layers}, "vocab_size": 12, "hidden_size": ${hidden_size}, "eos_token_id": 8, "rms_norm_eps": 1e-06}`;
    writeFileSync(file, `${JSON.stringify(rest).slice(0, -1)}, "image_token_index": 8, "text_config": ${text}}`);
    const models = { method: "soup" as const, models: ["wrapper", "task"], vocabulary: "models[1]" };
    await executePlan(await planRecipe(models, { folder: root }), { out: join(root, "ids-wrapper") });
    const written = readJson(root, "ids-wrapper", "config.json");
    expect(written.text_config).toMatchObject({ eos_token_id: 7, vocab_size: 10 });
    expect(written.image_token_index).toBe(7);
    expect(readFileSync(join(root, "ids-wrapper", "config.json"), "utf8")).toContain('"rms_norm_eps": 1e-06');
  });
});

describe("refused by default", () => {
  const args = (task: string, language: string) => ["swap", "--task", task, "--language", language, "--out", "refused"];

  it("different sizes, with the tokens that differ and what to do", async () => {
    await expectRefused(
      args("task", "language"),
      root,
      1,
      /the vocabularies differ: task \(task\) has 10 rows in .*language \(language\) has 12/,
      /[Ss]et vocabulary to language, task or union/,
      /give 2 rows to different tokens: "<pad>" against "<end>"|give 1 row to different tokens: "<pad>" against "<end>"/,
    );
  });

  it("different tokens in one row, even if sizes are equal", async () => {
    await expectRefused(
      args("task", "shuffled"),
      root,
      1,
      /give 6 rows to different tokens: "a" against "g"/,
      /set vocabulary to align them by token/,
    );
    const outcome = await layergraft([...args("task", "shuffled"), "--vocabulary", "task"], { cwd: root });
    expect(outcome.status).toBe(0);
  });

  it("vocabularies that cannot be aligned", async () => {
    await expectRefused(
      [...args("task", "learned"), "--vocabulary", "union"],
      root,
      1,
      /1 token in its tokenizer's own vocabulary/,
    );
    await expectRefused(
      [...args("task", "language"), "--vocabulary", "math"],
      root,
      1,
      /must be union, or one of task, language/,
    );
    await writeTiny(join(root, "mute"), { layers: 2, vocabulary: 12, seed: 9 });
    await expectRefused(
      [...args("task", "mute"), "--vocabulary", "task"],
      root,
      1,
      /no tokenizer\.json with a vocabulary/,
    );
  });
});
