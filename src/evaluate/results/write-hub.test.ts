// Scores for the hub. huggingface_hub's parse_eval_result_entries reads them as they are here.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { chooseTask, generateTask, out, run, setUpEvaluations, vllm } from "../../../test/support/evaluation.js";
import { VERSION } from "../../kit/index.js";
import { openTasks } from "../tasks/open-tasks.js";
import { writeHubScores } from "./write-hub.js";

setUpEvaluations();

it("writes the headline score of each task that is a benchmark, and names the others", async () => {
  const { backend } = await vllm();
  const benchmark = { dataset: "openai/gsm8k", task: "gsm8k" };
  const { results } = await run({ tasks: [{ ...generateTask(3), benchmark }, chooseTask(2)], backend });
  expect(await writeHubScores(out, results, new Date("2026-11-25T23:00:00Z"))).toEqual(["letters"]);
  expect(readdirSync(join(out, ".eval_results"))).toEqual(["lengths.yaml"]);
  const value = Math.round((results.tasks[0]?.scores[0]?.value ?? 0) * 10_000) / 100;
  expect(value).toBeGreaterThan(0);
  expect(readFileSync(join(out, ".eval_results", "lengths.yaml"), "utf8")).toBe(
    `- dataset:\n    id: openai/gsm8k\n    task_id: gsm8k\n  value: ${value}\n  date: "2026-11-25"\n` +
      `  notes: even length, test/plain@2, 1 shot, 3 items, layergraft ${VERSION}\n`,
  );
});

it("refuses scores of a part of the items", async () => {
  const { backend } = await vllm();
  const { results } = await run({ tasks: [generateTask(3)], backend, limit: 2 });
  await expect(writeHubScores(out, results, new Date())).rejects.toMatchObject({ where: { option: "limit" } });
});

it("knows where the hub shows scores of the tasks", async () => {
  const names = [
    "gsm8k",
    "mgsm_sw",
    "mgsm_rev2_sw",
    "belebele_swh",
    "mmlu",
    "mmlu_anatomy",
    "mmlu_sw",
    "mbpp",
    "mbpp_sw",
  ];
  const tasks = await openTasks([...names, "global_mmlu_sw", "afrimgsm_swa", "afrimmlu_swa"]);
  const found = tasks.map(({ name, benchmark }) => [name, benchmark && `${benchmark.dataset} ${benchmark.task}`]);
  expect(Object.fromEntries(found)).toEqual({
    gsm8k: "openai/gsm8k gsm8k",
    mgsm_sw: "juletxara/mgsm sw",
    mgsm_rev2_sw: "lightonai/mgsm-rev2 sw",
    belebele_swh_Latn: "facebook/belebele swh_Latn",
    mmlu: "cais/mmlu all",
    mmlu_anatomy: "cais/mmlu anatomy",
    mmlu_swh_Latn: undefined,
    mbpp: "google-research-datasets/mbpp full",
    mbpp_swh_Latn: undefined,
    global_mmlu_sw: "CohereLabs/Global-MMLU sw",
    afrimgsm_swa: "masakhane/afrimgsm swa",
    afrimmlu_swa: "masakhane/afrimmlu swa",
  });
});
