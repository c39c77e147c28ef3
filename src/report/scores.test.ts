// Tables of scores and comparisons: to the letter, in all three formats.
import { describe, expect, it } from "vitest";
import type { ResultsComparison } from "../evaluate/compare.js";
import type { Results, TaskResult } from "../evaluate/results/index.js";
import { progressLine, showEvaluation } from "./evaluation-progress.js";
import { comparisonLines, scoreLines, scoreNotes } from "./scores.js";

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
  faults: { refused: 0, missing: 0, unscored: 0, cut: 0 },
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
      "FLORES        layergraft/flores@1, 0-shot           BLEU                 23.46     -             -                  1",
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
      faults: { refused: 1, missing: 2, unscored: 3, cut: 4, executions: { timeout: 5 } },
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
      "mgsm_sw: 3 of 250 weighed by the log-probabilities of the next token",
      "mgsm_sw: 1 of 250 refused by the server or too long for the model; see the samples",
      "mgsm_sw: 2 of 250 lack a choice in the server's list of likely next tokens",
      "mgsm_sw: 3 of 250 without a verdict, and in no score",
      "mgsm_sw: 4 of 250 answers reached the bound of new tokens",
      "mgsm_sw: 5 of 250 programs: timeout",
      "sandbox: Python itself keeps programs from your files, the kernel here does not; that holds against accidents only",
      "sandbox: nothing keeps programs from taking memory here",
    ]);
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
    first: RESULTS,
    second: RESULTS,
    skipped: [],
    tasks: [
      {
        task: "mgsm_sw",
        title: "MGSM Swahili",
        protocol: "p@1",
        shots: 8,
        comparisons: [
          {
            ...comparison,
            metric: "strict",
            title: "strict",
            scale: "share",
            gained: ["a", "b"],
            lost: ["c"],
            pValue: 0.0004,
            leftOut: 0,
          },
          {
            ...comparison,
            metric: "bleu",
            title: "BLEU",
            scale: "points",
            difference: -1.5,
            gained: [],
            lost: [],
            pValue: undefined,
            leftOut: 1,
          },
        ],
      },
    ],
  };

  it("show difference, interval and flips", () => {
    expect(comparisonLines(compared, "table")).toEqual([
      "task          protocol     metric  first  second  difference   95% interval  gained  lost       p",
      "MGSM Swahili  p@1, 8-shot  strict   40.0    43.2        +3.2    -1.0 to 7.0       2     1  <0.001",
      "                           BLEU     0.40    0.43       -1.50  -0.01 to 0.07",
    ]);
    expect(comparisonLines(compared, "markdown")[3]).toBe(
      "| MGSM Swahili | p@1, 8-shot | BLEU | 0.40 | 0.43 | -1.50 | -0.01 to 0.07 |  |  |  |",
    );
    expect(comparisonLines(compared, "csv")[1]).toBe(
      "mgsm_sw,p@1,8,strict,share,250,0.4,0.432,0.032,-0.01,0.07,0.95,2,1,0.0004,0",
    );
    expect(comparisonLines(compared, "csv")[2]).toBe(
      "mgsm_sw,p@1,8,bleu,points,250,0.4,0.432,-1.5,-0.01,0.07,0.95,,,,1",
    );
  });
});

describe("progress", () => {
  const progress = {
    task: "mgsm_sw",
    title: "MGSM Swahili",
    number: 2,
    tasks: 6,
    done: 120,
    total: 250,
    score: 0.417,
    metric: "strict",
    scale: "share" as const,
    refused: 3,
    itemsPerSecond: 2.13,
    secondsLeft: 61.03,
  };

  it("tells score so far, speed and time left", () => {
    expect(progressLine(progress)).toBe(
      "2/6 MGSM Swahili  120 of 250 (48%)  strict 41.7  3 refused  2.1 items/s, 1 min 02 s left",
    );
    expect(progressLine({ ...progress, tasks: 1, score: undefined, refused: 0, itemsPerSecond: 0.2, done: 250 })).toBe(
      "MGSM Swahili  250 of 250 (100%)  5.0 s per item",
    );
  });

  it("rewrites one line on a terminal, and writes seldom elsewhere", () => {
    const show = (isTTY: boolean): string => {
      let text = "";
      const stream = { isTTY, columns: 60, write: (more: string) => (text += more) } as unknown as NodeJS.WriteStream;
      const display = showEvaluation(stream);
      display.update({ ...progress, done: 0 });
      display.update({ ...progress, done: 1 });
      display.note("fetched x");
      display.update({ ...progress, done: 250 });
      display.stop();
      return text;
    };
    expect(show(false)).toBe(`fetched x\n${progressLine({ ...progress, done: 250 })}\n`);
    const lines = show(true).split("\n");
    expect(lines[0]).toMatch(/0 of 250.*\r.*\r.*fetched x$/);
    expect(lines[1]?.replace("\r\u001b[2K", "")).toBe(progressLine({ ...progress, done: 250 }).slice(0, 59));
    expect(lines).toHaveLength(3);
  });
});
