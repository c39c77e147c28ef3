// The paper's plan, examples/experiments/paper-mgsm-swahili.yaml, from training to its tables: tiny models under the published
// name's place, 20 samples, made rows in the layouts of the data sets. What is overridden is named below; all else runs as shipped.
// @module-tag slow
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { parsePlan } from "../src/experiment/plan/plan-file.js";
import type { PlanReport, ReportTable } from "../src/experiment/report/report-data.js";
import type { TensorData } from "../src/formats/safetensors/index.js";
import { writeByteTokenizer } from "./reference/gguf_tokenizers.js";
import { decodeValues, encodeValues, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, layergraft } from "./support/command.js";
import { type Files, taskFiles, trainingSets } from "./support/data-sets.js";
import { FakeHub, fakeFile } from "./support/fake-hub.js";
import { numbersOf } from "./support/report-of.js";

const SHIPPED = join(import.meta.dirname, "../examples/experiments/paper-mgsm-swahili.yaml");
const BYTES = 260;

// biome-ignore lint/suspicious/noExplicitAny: what YAML has, changed field by field
type Fields = Record<string, any>;

const LAYERS = 8;
const ITEMS = 10;
/** Languages of MGSM that the paper's experts are not of. */
const OTHERS = /^mgsm_(de|es|fr|ru|zh)$/;

/** The shipped plan for a tiny base: the engine here instead of TRL, vLLM and Slurm; few runs, samples, items and configurations. */
function tinyPlan(text: string): Fields {
  // The last two layers of 32.
  const plan = parse(text.replaceAll("30-31", `${LAYERS - 2}-${LAYERS - 1}`)) as Fields;
  const { assume: _, executor: __, ...kept } = plan;
  const { paper } = plan.training;
  const run = {
    ...paper.run,
    samples: 20,
    batch: 4,
    sequence_length: 128,
    schedule: { warmup: 1 },
    optimizer: { lr: 3e-3 },
  };
  for (const [name, { train }] of Object.entries(plan.experts) as [string, Fields][]) {
    delete train.run.samples;
    train.runs = train.runs.slice(0, name === "math" ? 2 : 1);
  }
  for (const { grid } of plan.merges) {
    for (const [field, values] of Object.entries((grid ?? {}) as Record<string, unknown[]>)) {
      grid[field] =
        field === "bottom"
          ? [3, 5]
          : field === "keep_share"
            ? [0.7, 1]
            : values.slice(field === "top" ? -1 : 0).slice(0, 1);
    }
  }
  const tasks = (plan.evaluate.tasks as (string | Fields)[])
    .map((task) => (typeof task === "string" ? { task } : task))
    .filter(({ task }) => !OTHERS.test(task))
    .map(({ task, ...more }) => {
      const isMgsm = task.startsWith("mgsm");
      const shots = isMgsm
        ? { shots: 1, protocol: "layergraft/mgsm-direct" }
        : /belebele|mmlu/.test(task)
          ? { shots: 0 }
          : {};
      const tokens = /belebele|mmlu/.test(task) ? {} : { max_new_tokens: 1 };
      return {
        task,
        ...more,
        ...shots,
        ...tokens,
        limit: isMgsm ? ITEMS : 2,
        ...(isMgsm ? {} : { of: ["base", "experts"] }),
      };
    });
  const averages = plan.averages.map((one: Fields) => ({
    ...one,
    tasks: one.tasks.filter((task: string) => !OTHERS.test(task)),
  }));
  return {
    ...kept,
    ...{ base: "base", averages, training: { paper: { run } } },
    evaluate: { ...plan.evaluate, backend: "engine", tasks },
  };
}

function write(folder: string, files: Files): void {
  for (const [path, content] of files) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
}

/** Problems of MGSM with answers of one digit, which differ in how often they are right. */
function withSmallAnswers(files: Files): Files {
  const digits = [1, 1, 1, 1, 2, 2, 2, 3, 3, 4];
  const changed = [...files].map(([path, content], language): [string, string | Buffer] => {
    if (!path.endsWith(".tsv")) return [path, content];
    const gold = (i: number) => ((digits[i % ITEMS] ?? 0) * (1 + (language % 2) * 2)) % 10;
    return [path, digits.map((_, i) => `Problem ${i} of ${"abcdefghij".slice(0, i + 1)}\t${gold(i)}\n`).join("")];
  });
  return new Map(changed);
}

/** Makes digits the likeliest tokens, so that some answers are right. */
function favourDigits(tensors: TensorData[]): TensorData[] {
  return tensors.map((tensor) => {
    if (tensor.name !== "lm_head.weight") return tensor;
    const values = decodeValues(tensor.data, "F32");
    const width = values.length / BYTES;
    const isDigit = (row: number) => row >= 48 && row < 58;
    return {
      ...tensor,
      data: encodeValues(
        values.map((x, i) => (isDigit(Math.floor(i / width)) ? 40 * x : x)),
        "F32",
      ),
    };
  });
}

it("runs in full on tiny models, and reports the paper's tables and every note", async () => {
  const root = process.env.KEEP ?? temporaryFolder();
  const text = stringify(tinyPlan(readFileSync(SHIPPED, "utf8")));
  writeFileSync(join(root, "plan.yaml"), text);
  const { experts } = parsePlan(text);
  const declared = Object.values(experts).flatMap(({ train }) => (train?.runs ?? []).map(({ fields }) => fields.data));
  const { files, sets } = trainingSets(declared);
  const hub = await FakeHub.start();
  for (const [name, content] of sets) {
    hub.create(`datasets/${name}`, { gated: false, private: false });
    const contents = [...content].map(([path, rows]) => [path, fakeFile(path, Buffer.from(rows))] as const);
    hub.commit(`datasets/${name}`, "main", new Map(contents));
  }
  write(root, files);
  write(join(root, "data"), withSmallAnswers(taskFiles()));
  const config = { max_position_embeddings: 8192 };
  await writeTiny(join(root, "base"), { layers: LAYERS, dtype: "F32", vocabulary: BYTES, config, edit: favourDigits });
  writeByteTokenizer(join(root, "base"), BYTES);
  const env = {
    HF_ENDPOINT: hub.endpoint,
    HF_HOME: join(root, "hub"),
    HF_HUB_OFFLINE: "0",
    HF_HUB_CACHE: "",
    HF_TOKEN: "",
  };
  const outcome = await layergraft(["experiment", "plan.yaml", "run", "--allow-code"], { cwd: root, env });
  expect(outcome).toMatchObject({ status: DONE });
  const folder = join(root, "paper-mgsm-swahili.experiment/report");
  const report = JSON.parse(readFileSync(join(folder, "report.json"), "utf8")) as PlanReport;
  expect(report.progress).toMatchObject({ failed: 0, left: 0, waiting: 0 });

  // Rows and columns as printed, and a number in each cell that the paper fills.
  const [means, swahili, benchmarks, soups] = report.tables as [ReportTable, ReportTable, ReportTable, ReportTable];
  const heads = ({ columns, rows }: ReportTable) => [
    columns.filter((column) => column !== ""),
    rows.map((row) => row.filter((cell) => typeof cell === "string").join(" ")),
  ];
  const numbers = ({ rows }: ReportTable) => rows.map((row) => numbersOf(row).map(({ value }) => value));
  const languages = ["Swahili", "Telugu", "Bengali", "Japanese"];
  const merges = ["soup, best", "layer swap, default", "layer swap, best"];
  expect(heads(means)).toEqual([
    ["base", "language expert", "math expert", ...merges],
    languages.flatMap((name) => [`MGSM ${name} mean`, `MGSM ${name} max`]),
  ]);
  expect(heads(swahili)).toEqual([
    ["base", "Swahili expert", "math expert", "joint SFT", "soup, best", "TIES, best", ...merges.slice(1)],
    [...["min", "mean", "max"].map((one) => `MGSM Swahili ${one}`), "MGSM English mean", "all languages mean"],
  ]);
  const own = ["Japanese", "Bengali", "Swahili", "Telugu"];
  expect(heads(benchmarks)).toEqual([
    ["base", "math expert", ...own.map((name) => `${name} expert`)],
    [
      ...["MGSM", "Belebele"].flatMap((task) => ["English", ...own].map((name) => `${task} ${name}`)),
      ...own.flatMap((name) => [`FLORES English to ${name}`, `FLORES ${name} to English`]),
      ...["MBPP", "Global-MMLU"].flatMap((task) => own.map((name) => `${task} ${name}`)),
    ],
  ]);
  for (const table of [means, swahili, soups]) expect(numbers(table).flat()).not.toContain(null);
  // A language's experts have numbers in its rows and in those of English.
  for (const [i, [base, math, ...experts]] of numbers(benchmarks).entries()) {
    expect([base, math]).not.toContain(null);
    const title = String(benchmarks.rows[i]?.[0]);
    const isEnglish = title.endsWith(" English") && !title.startsWith("FLORES");
    expect(experts.map((value) => value !== null)).toEqual(own.map((name) => isEnglish || title.includes(name)));
  }
  // The same numbers as in the main tables.
  const bars = report.overviews.find(({ task }) => task === "mgsm_sw")?.bars ?? [];
  const barOf = (start: string) => bars.find(({ label }) => label.startsWith(start));
  expect(
    numbers(swahili)
      .slice(0, 3)
      .map((row) => row.slice(0, 4)),
  ).toEqual(
    (["low", "mean", "high"] as const).map((one) =>
      ["base", "swahili", "math", "both"].map((name) => barOf(name)?.[one]),
    ),
  );
  expect(new Set(numbers(means).flat()).size).toBeGreaterThan(1);
  // The base and the two sparse experts have no maps.
  expect(report.changes).toHaveLength(report.experts.length - 3);

  // Every note of a step, and nothing that the steps did not say.
  const said = readdirSync(join(root, "paper-mgsm-swahili.experiment/steps"), { recursive: true })
    .filter((name) => String(name).endsWith("notes.txt"))
    .flatMap((name) =>
      readFileSync(join(root, "paper-mgsm-swahili.experiment/steps", String(name)), "utf8")
        .trim()
        .split("\n"),
    );
  expect(said.length).toBeGreaterThan(0);
  expect(new Set(report.stepNotes.map(({ note }) => note))).toEqual(new Set(said));
  const page = readFileSync(join(folder, "report.md"), "utf8");
  expect(page).toContain("### Table 1: MGSM, means and maxima");
  expect(page).toMatch(/^## Notes$/m);
}, 900_000);
