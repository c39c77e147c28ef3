// Tables of scores and comparisons: to the letter, in all three formats.
import { describe, expect, it } from "vitest";
import type { ResultsComparison } from "./compare-results.js";
import { comparisonLines, comparisonNotes, progressDetail, scoreLines, scoreNotes } from "./result-tables.js";
import type { Results, TaskResult } from "./results/result-types.js";

const interval = { low: 0.35, high: 0.5, level: 0.95, deviation: 0.03, resamples: 1000, seed: 0 };
const task = (more: Partial<TaskResult>): TaskResult => ({
  task: "mgsm_sw",
  title: "MGSM Swahili",
  protocol: "layergraft/mgsm-native-cot@1",
  shots: 8,
  promptsDigest: "d1",
  items: 250,
  notes: [],
  answeredBy: { generation: 250 },
  problems: { refused: 0, missing: 0, tied: 0, unscored: 0, cut: 0 },
  metrics: [],
  scores: [
    {
      metric: "strict",
      title: "exact match, strict",
      scale: "share",
      value: 0.432,
      standardError: 0.0313,
      interval,
      items: 250,
      unscored: 0,
    },
    {
      metric: "flexible",
      title: "exact | flexible",
      scale: "share",
      value: 0.44,
      standardError: 0.03,
      interval,
      items: 248,
      unscored: 2,
    },
  ],
  ...more,
});
const RESULTS: Results = {
  format: 1,
  layergraft: "0.1.0",
  source: "merged, the second",
  backend: { backend: "openai", server: "vllm 0.1", model: "m", digest: null, bos: "tokenizer" },
  sandbox: null,
  settings: { limit: null, seed: 0, resamples: 1000 },
  tasks: [
    task({}),
    task({
      task: "flores",
      title: "FLORES",
      protocol: "layergraft/flores@1",
      shots: 0,
      promptsDigest: "d2",
      scores: [
        {
          metric: "bleu",
          title: "BLEU",
          scale: "points",
          value: 23.456,
          standardError: Number.NaN,
          interval: undefined,
          items: 1,
          unscored: 0,
          signature: "nrefs:1|x",
        },
      ],
    }),
  ],
};

describe("scores", () => {
  it("stand beside their protocols in the terminal", () => {
    expect(scoreLines(RESULTS, "table")).toEqual([
      "task          protocol                              metric               score  ± SE  95% interval              items",
      "MGSM Swahili  layergraft/mgsm-native-cot@1, 8-shot  exact match, strict   43.2   3.1  35.0 to 50.0                250",
      "                                                    exact | flexible      44.0   3.0  35.0 to 50.0  248 (+2 unscored)",
      "FLORES        layergraft/flores@1, 0-shot           BLEU                 23.46     –             –                  1",
    ]);
  });

  it("are whole rows in Markdown, and unrounded in CSV", () => {
    expect(scoreLines(RESULTS, "markdown").slice(0, 4)).toEqual([
      "| task | protocol | metric | score | ± SE | 95% interval | items |",
      "| --- | --- | --- | ---: | ---: | ---: | ---: |",
      "| MGSM Swahili | layergraft/mgsm-native-cot@1, 8-shot | exact match, strict | 43.2 | 3.1 | 35.0 to 50.0 | 250 |",
      "| MGSM Swahili | layergraft/mgsm-native-cot@1, 8-shot | exact \\| flexible | 44.0 | 3.0 | 35.0 to 50.0 | 248 (+2 unscored) |",
    ]);
    expect(scoreLines(RESULTS, "csv")).toEqual([
      "source,backend,server,model,task,protocol,shots,metric,scale,score,standard_error,low,high,level,items,unscored,prompts_digest,signature",
      '"merged, the second",openai,vllm 0.1,m,mgsm_sw,layergraft/mgsm-native-cot@1,8,strict,share,0.432,0.0313,0.35,0.5,0.95,250,0,d1,',
      '"merged, the second",openai,vllm 0.1,m,mgsm_sw,layergraft/mgsm-native-cot@1,8,flexible,share,0.44,0.03,0.35,0.5,0.95,248,2,d1,',
      '"merged, the second",openai,vllm 0.1,m,flores,layergraft/flores@1,0,bleu,points,23.456,,,,,1,0,d2,nrefs:1|x',
    ]);
  });

  it("come with everything that was not as it should be", () => {
    const troubled = task({
      notes: ["cut short"],
      answeredBy: { "next token": 3, "log-likelihood": 247 },
      problems: { refused: 1, missing: 2, tied: 6, unscored: 3, cut: 4, executions: { timeout: 5 } },
    });
    const sandbox = {
      python: "3.12",
      network: "kernel",
      processes: "kernel",
      files: "python",
      isolation: "none",
      memory: "none",
      seconds: 3,
      memoryBytes: 1,
    } as const;
    expect(scoreNotes({ ...RESULTS, sandbox, tasks: [troubled] })).toEqual([
      "mgsm_sw: cut short",
      "mgsm_sw: 3 of 250 scored by the log-probabilities of the next token",
      "mgsm_sw: 1 of 250 refused by the server, or too long for the model; see the samples",
      "mgsm_sw: 2 of 250 have a choice that is missing from the server's list of likely next tokens",
      "mgsm_sw: 6 of 250 have tied choices; a tie of k choices is worth 1/k",
      "mgsm_sw: 3 of 250 have no verdict and are not in the scores",
      "mgsm_sw: 4 of 250 answers reached the limit of new tokens",
      "mgsm_sw: 5 of 250 programs: timeout",
      "sandbox: only Python keeps programs from your files, not the kernel; this stops accidents, not attacks",
      "sandbox: nothing keeps programs from using unlimited memory",
    ]);
    const counted = { ...troubled, problems: { ...troubled.problems, unscored: 0 } };
    const local = { ...RESULTS.backend, server: null };
    expect(scoreNotes({ ...RESULTS, backend: local, tasks: [counted] })).toContain(
      "mgsm_sw: 1 of 250 without an answer, such as prompts too long for the model, and count as wrong; see the samples",
    );
    expect(scoreNotes({ ...RESULTS, tasks: [{ ...troubled, ties: "first" }] })).toContain(
      "mgsm_sw: 6 of 250 have tied choices; the first one counts",
    );
    expect(scoreNotes(RESULTS)).toEqual(["BLEU: nrefs:1|x"]);
  });
});

describe("comparisons", () => {
  const comparison = {
    items: 250,
    first: 0.4,
    second: 0.432,
    difference: 0.032,
    interval: { ...interval, low: -0.01, high: 0.07 },
  };
  const compared: ResultsComparison = {
    methods: ["one", "other"].map((name) => ({ name, program: "layergraft", runs: [name] })),
    skipped: [],
    tasks: [
      {
        task: "mgsm_sw",
        title: "MGSM Swahili",
        protocol: "p@1",
        shots: 8,
        tied: 0,
        comparisons: [
          {
            ...comparison,
            metric: "strict",
            title: "strict",
            scale: "share",
            gained: ["a", "b"],
            lost: ["c"],
            ...{
              pValue: 0.0004,
              pAdjusted: 0.0004,
              method: 1,
              discordance: 0.012,
              detectable: 0.0613,
              needed: 918,
              leftOut: 0,
            },
          },
          {
            ...comparison,
            metric: "bleu",
            title: "BLEU",
            scale: "points",
            difference: -1.5,
            gained: [],
            lost: [],
            ...{
              pValue: 0.03,
              pAdjusted: 0.03,
              method: 1,
              discordance: undefined,
              detectable: undefined,
              needed: undefined,
              leftOut: 1,
            },
          },
        ],
      },
    ],
  };

  it("show difference, interval and flips", () => {
    expect(comparisonLines(compared, "table")).toEqual(
      [
        "task          protocol     metric  first  second  difference   95% interval  gained  lost        p  detectable",
        "MGSM Swahili  p@1, 8-shot  strict   40.0    43.2        +3.2    -1.0 to 7.0       2     1  < 0.001         6.1",
        "                           BLEU     0.40    0.43       -1.50  -0.01 to 0.07       –     –    0.030        none",
      ].map((line) => line.trimEnd()),
    );
    expect(comparisonLines(compared, "markdown")[3]).toBe(
      "| MGSM Swahili | p@1, 8-shot | BLEU | 0.40 | 0.43 | -1.50 | -0.01 to 0.07 | – | – | 0.030 | none |",
    );
    expect(comparisonLines(compared, "csv")[1]).toBe(
      "mgsm_sw,p@1,8,strict,share,one,2,other,250,0.4,0.432,0.032,-0.01,0.07,0.95,2,1,0.012,0.0004,0.0004,0.0613,0",
    );
    expect(comparisonLines(compared, "csv")[2]).toBe(
      "mgsm_sw,p@1,8,bleu,points,one,2,other,250,0.4,0.432,-1.5,-0.01,0.07,0.95,,,,0.03,0.03,,1",
    );
  });

  it("say where these items show no difference, and where nothing is known", () => {
    const [task] = compared.tasks;
    const [strict] = task?.comparisons ?? [];
    if (!task || !strict) throw new Error("no comparison");
    const same = { ...strict, gained: [], lost: [], discordance: 0, detectable: undefined };
    const few = { ...strict, discordance: 0.2, detectable: undefined };
    const of = (...comparisons: (typeof strict)[]) => ({ ...compared, tasks: [{ ...task, comparisons }] });
    expect(
      comparisonLines(of(same, few), "markdown")
        .slice(2)
        .map((line) => line.split(" | ").at(-1)),
    ).toEqual(["– |", "none |"]);
    expect(comparisonNotes(of(same))).toEqual([]);
    expect(comparisonNotes({ ...compared, tasks: [{ ...task, comparisons: [same], tied: 1 }] })).toEqual([
      "mgsm_sw: 1 item with tied choices",
    ]);
    expect(comparisonNotes(of(few, { ...few, leftOut: 3 }))).toEqual([
      "mgsm_sw, strict: 3 left out; one evaluation lacks the item or its verdict",
      "detectable none: too few items for 80% power; compare more items",
    ]);
  });

  it("are a table of LaTeX with the names of the results", () => {
    const lines = comparisonLines(compared, "latex");
    expect(lines).toContain("\\caption{Comparison. 1: one; 2: other.}");
    expect(lines).toContain(
      "MGSM Swahili & p@1, 8-shot & strict & 40.0 & 43.2 & +3.2 & -1.0 to 7.0 & 2 & 1 & $<$ 0.001 & 6.1 \\\\",
    );
  });

  it("number the results where there are several", () => {
    const third = { name: "third", program: "layergraft", runs: ["third"] } as const;
    const [task] = compared.tasks;
    const [strict] = task?.comparisons ?? [];
    if (!task || !strict) throw new Error("no comparison");
    const comparisons = [strict, { ...strict, method: 2, pAdjusted: 0.0008 }];
    const lines = comparisonLines(
      { ...compared, methods: [...compared.methods, third], tasks: [{ ...task, comparisons }] },
      "table",
    );
    expect(lines.map((line) => line.replace(/ {2,}/g, " | "))).toEqual([
      "task | protocol | metric | result | first | score | difference | 95% interval | gained | lost | p (Holm) | detectable",
      "MGSM Swahili | p@1, 8-shot | strict | 2 | 40.0 | 43.2 | +3.2 | -1.0 to 7.0 | 2 | 1 | < 0.001 | 6.1",
      " | 3 | 40.0 | 43.2 | +3.2 | -1.0 to 7.0 | 2 | 1 | < 0.001 | 6.1",
    ]);
  });
});

it("tells score so far, refusals and speed", () => {
  const progress = {
    ...{ task: "mgsm_sw", title: "MGSM Swahili", number: 2, tasks: 6, done: 120, total: 250 },
    ...{ score: 0.417, metric: "strict", scale: "share" as const, refused: 3, itemsPerSecond: 2.13 },
  };
  expect(progressDetail(progress)).toBe("strict 41.7  3 refused  2.1 items/s");
  expect(progressDetail({ ...progress, score: undefined, refused: 0, itemsPerSecond: 0.2 })).toBe("5.0 s per item");
});
