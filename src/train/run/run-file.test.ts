import { describe, expect, it } from "vitest";
import { RecipeError } from "../../kit/errors.js";
import { PRESET_NAMES } from "./presets.js";
import { checkRun, type FieldText, parseRun, runFields, runJsonSchema } from "./run-file.js";
import { LORA_DEFAULTS, type Run, type RunInput } from "./run-schema.js";
import { settleRun, trainedSelection } from "./run-settings.js";
import { learningRateFactor } from "./schedule.js";

const DATA = [{ source: "train.jsonl", map: { prompt: "question", response: "answer" } }];
const SMALL = { base: "base", out: "run", data: DATA, optimizer: { lr: 1e-4 } } as RunInput;
const LLAMA = { parameters: 8_030_261_248, contextLength: 131_072 };

function problemsOf(text: string, fields: readonly FieldText[] = []): readonly string[] {
  try {
    parseRun(text, { file: "run.yaml", fields });
  } catch (error) {
    if (error instanceof RecipeError) return error.problems;
    throw error;
  }
  return [];
}

const settle = (run: Run, model = LLAMA, samples = 30_000) => settleRun(run, model, { samples, sequences: samples });

describe("parseRun", () => {
  it("fills in the defaults that it documents", () => {
    const run = parseRun("base: b\nout: o\ndata: orca-math\noptimizer: { lr: 1e-4 }\n");
    const { data, ...rest } = run;
    expect(data).toMatchObject({ sets: [{ use: "orca-math" }], template: "auto" });
    expect(rest).toEqual({
      ...{ base: "b", out: "o", method: "full", packing: false, loss_on: "responses" },
      ...{ batch: 8, accumulation: 1, save_dtype: "keep", seed: 0 },
      optimizer: { lr: 1e-4, betas: [0.9, 0.99], eps: 1e-8, decay: 0.1, decay_all: false, clip: 1 },
      schedule: { kind: "linear", warmup: 0, decay_share: 0.2, decay_shape: "1-sqrt", floor: 0 },
      checkpoints: { every_samples: 5000, keep: "best_and_last" },
    });
    expect(settle(run)).toMatchObject({ steps: 3750, sequenceLength: 1024, learningRate: 1e-4, evaluateEvery: 5000 });
    expect([trainedSelection(run), settle(run).notes]).toEqual(["all", []]);
  });

  it("reports all problems at once, each with its line", () => {
    const text = [
      "base: ''",
      "out: o",
      "preset: paper/swahili-4",
      "method: dora",
      "train: layers 4-2",
      "data: orca-math",
      "partition:",
      "  - { name: a, train: attention, data: orca-math }",
      "  - { name: a, train: layers 0 1, data: orca-math }",
      "bath: 3",
      "steps: 10",
      "epochs: 2",
      "lora: { rank: 0, alpa: 3 }",
      "optimizer:",
      "  betas: [0.9]",
      "  clip: true",
      "schedule: { warmup: many, kind: wds }",
      "early_stopping: { patience: 2 }",
      "holdout: { share: 0.1, samples: 3 }",
    ].join("\n");
    const problems = problemsOf(text);
    expect(problems.map((problem) => problem.split(/[;.] /)[0]).sort()).toEqual(
      [
        "line 1: base: must not be empty",
        `line 3: preset: must be one of ${PRESET_NAMES.join(", ")}`,
        "line 4: method: must be one of full, lora",
        'line 5: train: "layers 4-2" has the end after "4 - 2", where layers in ascending order, 2-4, is expected',
        "line 5: train: cannot be used with partition, whose streams name what they train",
        "line 6: data: cannot be used with partition, whose streams have their own data",
        'line 9: partition[1].train: "layers 0 1" has "1" after "layers 0", where a comma, and, but, or the end is expected',
        "line 9: partition[1].name: a is the name of another stream",
        'line 10: unknown field "bath"',
        "line 12: epochs: cannot be used with steps",
        "line 13: lora.rank: must be at least 1",
        'line 13: lora: unknown field "alpa"',
        "line 13: lora: is for method: lora",
        "line 15: optimizer.betas: must be two numbers, such as [0.9, 0.99]",
        "line 16: optimizer.clip: must be a positive number, or false for no clipping",
        "line 17: schedule.warmup: must be a number of steps, or a share of all steps such as 10%",
        "line 17: schedule.kind: must be one of linear, wsd, cosine, constant",
        "line 19: holdout: must have either samples or share",
      ].sort(),
    );
    expect(problems.find((problem) => problem.includes("bath"))).toContain("did you mean batch?");
    expect(problems.find((problem) => problem.includes("alpa"))).toContain("did you mean alpha?");
    expect(problems.find((problem) => problem.includes("preset"))).toContain("did you mean paper/swahili-1?");
  });

  it("names what is missing, and what is not a run", () => {
    expect(problemsOf("out: o")).toEqual([
      "line 1: base: is missing",
      "line 1: data: is missing; set data, or partition with streams of data",
    ]);
    expect(problemsOf("early_stopping: {}").join()).toContain("early_stopping: needs a holdout");
    expect(problemsOf("- 1")).toEqual(["line 1: must be a mapping with base, out and data"]);
    expect(problemsOf("a: [")[0]).toMatch(/^line 1: /);
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    expect(() => checkRun(circular)).toThrow(/nests more than 100 levels deep, or contains itself/);
  });

  it("reports problems of the data with their lines", () => {
    const text = [
      "base: b",
      "out: o",
      "optimizer: { lr: 1e-4 }",
      "partition:",
      "  - name: a",
      "    train: layers 0",
      "    data: { sets: [{ use: orca-mth }] }",
      "  - name: b",
      "    train: layers 1",
      "    data:",
      "      - { use: aya, languag: swahili }",
      "      - { source: x.jsonl }",
    ].join("\n");
    const problems = problemsOf(text);
    expect(problems[0]).toMatch(/^line 7: partition\[0\]\.data\.sets\[0\].*: must be one of orca-math, aya/);
    expect(problems.slice(1)).toEqual([
      'line 11: partition[1].data[0]: unknown field "languag"; did you mean language?',
    ]);
  });

  it("overrides the file with flags, and names those that are not valid", () => {
    const text = "base: b\nout: o\ndata: orca-math\noptimizer: { lr: 1e-4, decay: 0.5 }\n";
    const run = parseRun(text, {
      fields: [
        ["optimizer.lr", "2e-5"],
        ["optimizer.betas", "[0.8, 0.9]"],
        ["holdout.samples", "20"],
        ["train", "layers 0-4, 30-31"],
        ["schedule.warmup", "10%"],
      ],
    });
    expect(run.optimizer).toMatchObject({ lr: 2e-5, betas: [0.8, 0.9], decay: 0.5 });
    expect([run.holdout, run.train, run.schedule.warmup]).toEqual([{ samples: 20 }, "layers 0-4, 30-31", "10%"]);
    expect(problemsOf(text, [["optimizer.lr", "fast"]])).toEqual(["line 4: optimizer.lr: must be a number, not text"]);
    expect(() => parseRun(text, { fields: [["data", "[{"]] })).toThrow(/data: "\[\{" is not valid YAML/);
  });
});

/** Table 4 of the paper, copied a second time: lr, batch, sequence, decay, clip, schedule, warmup, beta2. */
const TABLE_4 = `
math 1 | 2.0e-8 | 4 | 2048 | 0.1 | 1.0 | linear | 1000 | 0.99
math 2 | 1.0e-7 | 4 | 2048 | 0.01 | 0.5 | linear | 1000 | 0.99
math 3 | 4.0e-8 | 4 | 2048 | 0.1 | 1.0 | linear | 500 | 0.999
japanese 1 | 1.0e-7 | 8 | 1024 | 0.1 | 0.5 | WSD | 1000 | 0.995
japanese 2 | 1.0e-7 | 8 | 1024 | 0.1 | 0.5 | WSD | 1000 | 0.99
japanese 3 | 2.0e-7 | 8 | 1024 | 0.01 | 0.5 | WSD | 1000 | 0.99
swahili 1 | 7.0e-8 | 8 | 1024 | 0.1 | 0.5 | WSD | 1000 | 0.99
swahili 2 | 2.0e-7 | 8 | 1024 | 0.05 | 0.5 | WSD | 1000 | 0.99
swahili 3 | 1.0e-7 | 8 | 1024 | 0.1 | 1.0 | WSD | 1000 | 0.999
telugu 1 | 7.0e-8 | 8 | 1024 | 0.1 | 0.5 | WSD | 1000 | 0.99
telugu 2 | 5.0e-8 | 8 | 1024 | 0.05 | 0.5 | WSD | 300 | 0.99
telugu 3 | 1.0e-7 | 4 | 2048 | 0.1 | 0.5 | WSD | 1000 | 0.99
bengali 1 | 7.0e-8 | 8 | 1024 | 0.1 | 0.5 | WSD | 1000 | 0.99
bengali 2 | 5.0e-8 | 8 | 1024 | 0.05 | 0.5 | WSD | 300 | 0.99
bengali 3 | 1.0e-7 | 4 | 2048 | 0.1 | 0.5 | WSD | 1000 | 0.99
`;

describe("presets", () => {
  const rows = TABLE_4.trim()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim()));

  it("are the paper's experts, and two kinds for other models", () => {
    const names = rows.map(([name = ""]) => `paper/${name.replace(" ", "-")}`);
    expect(PRESET_NAMES).toEqual(["math", "language", ...names]);
  });

  it.each(rows)("paper, %s", (name, ...cells) => {
    const [lr, batch, length, decay, clip, kind, warmup, beta2] = cells;
    const preset = `paper/${name?.replace(" ", "-")}`;
    const run = checkRun({ base: "b", out: "o", data: DATA, preset });
    expect(run).toMatchObject({
      ...{ method: "full", batch: Number(batch), sequence_length: Number(length), samples: 40_000 },
      optimizer: { lr: Number(lr), betas: [0.9, Number(beta2)], decay: Number(decay), clip: Number(clip), eps: 1e-8 },
      schedule: { kind: kind?.toLowerCase(), warmup: Number(warmup) },
      checkpoints: { every_samples: 5000, keep: "all" },
    });
    expect(settle(run)).toMatchObject({ learningRate: Number(lr), steps: 40_000 / Number(batch), notes: [] });
  });

  it("give way to what is written, also to another length of the run", () => {
    const optimizer = { decay: 0 };
    const run = checkRun({ base: "b", out: "o", data: DATA, preset: "paper/math-1", epochs: 2, optimizer });
    expect([run.samples, run.epochs]).toEqual([undefined, 2]);
    expect(run.optimizer).toMatchObject({ lr: 2e-8, decay: 0 });
  });

  it("math and language: the paper's rate at its size, and at others by the number of parameters", () => {
    const settled = (preset: string, parameters: number, contextLength = 4096) =>
      settle(checkRun({ base: "b", out: "o", data: DATA, preset }), { parameters, contextLength });
    expect(settled("math", LLAMA.parameters)).toMatchObject({ learningRate: 4e-8, sequenceLength: 2048, steps: 7500 });
    expect(settled("language", LLAMA.parameters)).toMatchObject({
      learningRate: 1e-7,
      sequenceLength: 1024,
      steps: 3750,
    });
    expect(settled("math", 125e6).learningRate).toBe(2.6e-6);
    expect(settled("language", 30e6).learningRate).toBe(2.7e-5);
    expect(settled("math", 464e3, 256)).toMatchObject({ learningRate: 6.9e-4, sequenceLength: 256 });
    expect(settled("language", 464e3).learningRate).toBe(5e-4);
    expect(settled("language", LLAMA.parameters).schedule.warmup).toBe(750);
  });
});

describe("settleRun", () => {
  it("has a default rate for each method, scaled by the size of the model, and names it", () => {
    const rateAt = (parameters: number, fields: object) =>
      settle(checkRun({ base: "b", out: "o", data: DATA, ...fields }), { parameters, contextLength: 4096 });
    expect(rateAt(LLAMA.parameters, {})).toMatchObject({
      learningRate: 4e-8,
      sequenceLength: 1024,
      schedule: { warmup: 0 },
      notes: [
        "learning rate 4e-8 is the default for full fine-tuning of 8.03B parameters (arXiv 2410.01335, table 4); set optimizer.lr to change it",
      ],
    });
    expect(rateAt(1.2e9, {}).learningRate).toBe(2.7e-7);
    expect(rateAt(1e5, {}).learningRate).toBe(7e-4);
    expect(rateAt(LLAMA.parameters, { method: "lora" })).toMatchObject({
      learningRate: 5e-6,
      notes: [
        "learning rate 0.000005 is the default for LoRA of 8.03B parameters (arXiv 2505.18356 and 2305.14314); set optimizer.lr to change it",
      ],
    });
    expect(rateAt(1.2e9, { method: "lora" }).learningRate).toBe(3.3e-5);
    expect(rateAt(1e8, { method: "lora" }).learningRate).toBe(2e-4);
    expect(rateAt(1e8, { optimizer: { lr: 0.001 } }).notes).toEqual([]);
    expect(rateAt(1e8, { preset: "math" }).notes).toEqual([]);
  });

  it("counts steps from samples, epochs and packed sequences", () => {
    const steps = (fields: object, samples: number, sequences: number) =>
      settleRun(checkRun({ ...SMALL, batch: 4, accumulation: 2, ...fields }), LLAMA, { samples, sequences }).steps;
    expect(steps({ steps: 7 }, 100, 100)).toBe(7);
    expect(steps({}, 100, 100)).toBe(13);
    expect(steps({ epochs: 2.5 }, 100, 100)).toBe(32);
    expect(steps({ samples: 300 }, 100, 100)).toBe(38);
    expect(steps({ samples: 300 }, 100, 20)).toBe(8); // five samples a sequence: 60 sequences, 8 to a step
    expect(steps({ epochs: 0.001 }, 100, 100)).toBe(1);
  });

  it("settles the schedule, and tells of what may surprise", () => {
    const run = checkRun({ ...SMALL, steps: 50, sequence_length: 4096, schedule: { kind: "wsd", warmup: 50 } });
    const { schedule, steps, notes } = settleRun(
      run,
      { parameters: 1e6, contextLength: 2048 },
      { samples: 1, sequences: 1 },
    );
    expect(learningRateFactor(schedule, 49, steps)).toBe(1);
    expect(notes).toEqual([
      "sequence_length is 4096, but the model was trained on at most 2048 positions",
      "warmup of 50 steps, run of 50 steps: the rate reaches 1e-4 at the last step and never falls. Set schedule.warmup to a share such as 10%, or train longer",
    ]);
  });

  it("notes a decay of one step, at which the rate is still full", () => {
    const notes = (steps: number, schedule: object) =>
      settleRun(checkRun({ ...SMALL, steps, optimizer: { lr: 1e-4 }, schedule }), LLAMA, {
        samples: 100,
        sequences: 100,
      }).notes;
    const found = notes(5, { kind: "wsd" });
    expect(found.join()).toMatch(/^the decay of wsd is 1 of 5 steps, at the full rate, so the rate never falls; raise/);
    expect(notes(8, { kind: "wsd" })).toEqual([]);
    expect(notes(10_000, { kind: "wsd", decay_share: 0 })).toHaveLength(1);
    expect(notes(5, { kind: "linear" })).toEqual([]);
  });

  it("reports a warmup in steps of over a quarter of the run, with steps and rate", () => {
    const problem = (fields: object, samples = 40_000, sequences = samples) =>
      settleRun(checkRun({ base: "b", out: "o", data: DATA, ...fields }), LLAMA, { samples, sequences }).warmupProblem;
    // Rows of 98 and 350 tokens packed into 1,024: 489 and 1,709 steps of eight sequences.
    const paper = { preset: "paper/swahili-3" };
    expect(problem({ ...paper, packing: true }, 40_000, 3907)).toBe(
      "warmup of 1,000 steps, run of 489 steps: the rate ends at 4.89e-8 of 1e-7 and never falls. Packing makes few steps of many samples: set packing: false, or schedule.warmup to a share such as 10%",
    );
    expect(problem({ ...paper, packing: true }, 40_000, 13_672)).toMatch(
      /^warmup of 1,000 steps, run of 1,709 steps: the rate reaches 1e-7 after 58\.5% of the run\. Packing/,
    );
    // As the paper: 5,000 steps of a language, 10,000 of mathematics.
    expect([problem(paper), problem({ preset: "paper/math-2" })]).toEqual([undefined, undefined]);
    const isProblem = (warmup: number | string, kind = "linear") =>
      problem({ steps: 100, optimizer: { lr: 1e-7 }, schedule: { kind, warmup } }) !== undefined;
    expect([25, 26, 100].map((warmup) => isProblem(warmup))).toEqual([false, true, true]);
    // A share is meant, unless nothing is left of the run.
    expect(["40%", "100%"].map((warmup) => isProblem(warmup))).toEqual([false, true]);
    expect([isProblem("100%", "constant"), isProblem(101, "constant")]).toEqual([false, true]);
  });

  it("has factors for lora, and their defaults", () => {
    expect(trainedSelection(checkRun({ ...SMALL, method: "lora" }))).toBe("layers");
    const defaults = { rank: 64, alpha: 16, rank_stabilised: true, dropout: 0, merge: false };
    expect(LORA_DEFAULTS).toEqual(defaults);
    const own = checkRun({ ...SMALL, method: "lora", lora: { rank: 8, rank_stabilised: false } });
    expect(own.lora).toEqual({ ...defaults, rank: 8, rank_stabilised: false });
  });
});

describe("runFields", () => {
  it("describes every field, the required ones and the defaults", () => {
    const fields = runFields();
    expect(fields.filter(({ description }) => description === "").map(({ name }) => name)).toEqual([]);
    // A mask is optional, and what it is from is not.
    expect(
      fields
        .filter(({ required }) => required)
        .map(({ name }) => name)
        .sort(),
    ).toEqual(["base", "mask.from", "out"]);
    expect(fields.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["base", "lora.rank", "optimizer.lr", "schedule.warmup", "partition", "holdout.samples"]),
    );
    expect(fields.find(({ name }) => name === "optimizer.betas")?.default).toEqual([0.9, 0.99]);
    expect(runJsonSchema()).toMatchObject({ title: "layergraft run", type: "object", additionalProperties: false });
  });
});
