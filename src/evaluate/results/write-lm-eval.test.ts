// Files as lm-evaluation-harness writes them. Its own code reads them in test/reference/check_lm_eval_files.py.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { chooseTask, generateTask, out, run, setUpEvaluations, vllm } from "../../../test/support/evaluation.js";
import { digestOf } from "../../kit/files/digest.js";
import { compareResults } from "../compare-results.js";

setUpEvaluations();

interface Row extends Record<string, unknown> {
  readonly arguments: Record<string, { readonly arg_0: string; readonly arg_1: unknown }>;
}

it("writes results and samples that agree, once per folder", async () => {
  const { backend } = await vllm();
  const tasks = [generateTask(5), chooseTask(3)];
  const { results } = await run({ tasks, backend, out, source: "org/model", lmEval: true });
  const folder = join(out, "org__model");
  const [file = "", ...samples] = readdirSync(folder);
  const date = /^results_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{6})\.json$/.exec(file)?.[1];
  expect(samples).toEqual([`samples_lengths_${date}.jsonl`, `samples_letters_${date}.jsonl`]);
  const written = JSON.parse(readFileSync(join(folder, file), "utf8")) as Record<string, Record<string, unknown>>;
  const [even, length] = results.tasks[0]?.scores ?? [];
  expect(written.results?.lengths).toEqual({
    ...{ name: "lengths", alias: "Lengths", sample_len: 5 },
    ...{ "even,none": even?.value, "even_stderr,none": even?.standardError },
    ...{ "sum,none": length?.value, "sum_stderr,none": length?.standardError },
  });
  expect(written).toMatchObject({
    versions: { lengths: "test/plain@2" },
    "n-shot": { lengths: 1, letters: 1 },
    configs: { lengths: { output_type: "generate_until" }, letters: { output_type: "multiple_choice" } },
    model_name: "org/model",
  });
  const rowsOf = (name = "") =>
    readFileSync(join(folder, name), "utf8")
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Row);
  const rows = rowsOf(samples[0]);
  expect(rows.map(({ doc_id, even }) => [doc_id, typeof even])).toEqual([0, 1, 2, 3, 4].map((id) => [id, "number"]));
  expect(rows.reduce((sum, { even }) => sum + Number(even), 0) / 5).toBe(even?.value);
  const [row] = rows;
  expect(row).toMatchObject({
    target: "even",
    filter: "none",
    metrics: ["even", "sum"],
    target_hash: digestOf("even"),
  });
  expect(row?.arguments.gen_args_0?.arg_1).toEqual({ until: ["\n"], max_gen_toks: 6, do_sample: false });
  expect(row?.prompt_hash).toBe(digestOf(row?.arguments.gen_args_0?.arg_0 ?? ""));
  expect(rowsOf(samples[1])[0]?.arguments.gen_args_3?.arg_1).toBe(" D");
  // A resumed run replaces its files with the same bytes.
  const before = [file, ...samples].map((name) => readFileSync(join(folder, name), "utf8"));
  await run({ tasks, backend, out, source: "org/model", lmEval: true, resume: true });
  expect(readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8"))).toEqual(before);
  // `compare` reads them back.
  const compared = await compareResults({ results: [folder, folder] });
  expect(
    compared.tasks.map(({ task, comparisons }) => [task, comparisons.map(({ metric, first }) => [metric, first])]),
  ).toEqual([
    ["lengths", [["even,none", even?.value]]],
    ["letters", [["acc,none", results.tasks[1]?.scores[0]?.value]]],
  ]);
});
