import { describe, expect, it } from "vitest";
import { FakeWorld, fakeFacts } from "../../../test/support/fake-world.js";
import type { Experiment, ExperimentStatus, Outlook, StepStatus } from "../experiment.js";
import { estimateExperiment } from "../run/estimate.js";
import { countSteps } from "../run/run-experiment.js";
import type { TrainingOutlook } from "../run/training-outlook.js";
import { adviceOnFailures, outlookLines, statusLines } from "./dry-run-and-status.js";

const PLAN = `
name: small
base: base
experts:
  math: { role: task, train: { run: { data: { source: a.jsonl, map: { prompt: p, response: r } }, optimizer: { lr: 1.0e-5 }, steps: 4 }, seeds: [1, 2] } }
  swahili: { role: language, language: sw, folders: [s1] }
merges:
  - { name: swap, recipe: { method: swap, task: math, language: swahili }, grid: { bottom: [1, 2] } }
evaluate: { tasks: ["mgsm_{language}"] }
`;

const GGUF = { bytes: 1.5e9, folder: "/cache/gguf", mostBytes: 50e9 };

function outlookOf(world: FakeWorld, isDone: (key: string) => boolean, gguf?: typeof GGUF): Outlook & ExperimentStatus {
  const expansion = world.expand();
  const estimate = estimateExperiment({
    ...{ expansion, secondsOf: (key: string) => (isDone(key) ? 1 : undefined), workers: 2 },
    variants: [{ plan: world.plan, expansion, facts: fakeFacts, base: { parameters: 1e6, bytes: 2e6 }, gguf }],
  });
  const steps = expansion.steps.map(
    (step): StepStatus => ({ step, state: isDone(step.key) ? { state: "done", seconds: 1 } : { state: "pending" } }),
  );
  const counts = countSteps(expansion, (key) => (isDone(key) ? "done" : "left"));
  const [nothing, folder] = [{ count: 0, bytes: 0 }, "/cache/hub"];
  const downloads = { models: { count: 3, bytes: 48e9 }, dataSets: nothing, folder };
  const variants = [{ variant: { title: "" } as Experiment, expansion }];
  return {
    expansion,
    variants,
    estimate,
    steps,
    downloads,
    training: [],
    merges: { notes: [], later: 0 },
    programs: [],
    problems: [],
    counts,
    seconds: 0,
    ...{ known: undefined as never, store: undefined as never },
  };
}

describe("an outlook", () => {
  it("names what is exported for llama.cpp, each model once", () => {
    // Swahili-1 and base; on two tasks each.
    const world = new FakeWorld(PLAN.replace('["mgsm_{language}"]', '["mgsm_{language}", mgsm_en], backend: llama'));
    const last = (isDone: (key: string) => boolean, gguf?: typeof GGUF) =>
      outlookLines(outlookOf(world, isDone, gguf)).at(-1);
    expect(last(() => false, GGUF)).toBe("up to 2 GGUF files of 1.50 GB in /cache/gguf");
    expect(last(() => false, { ...GGUF, mostBytes: 2e9 })).toMatch(/gguf; it keeps the last 2.00 GB$/);
    expect(last(() => false)).not.toMatch(/GGUF/);
    expect(last(() => true, GGUF)).not.toMatch(/GGUF/);
  });

  it("lists the programs that the plan names", () => {
    const programs = [{ when: "For each model", what: "vllm serve {model}\n--port {port}" }];
    const lines = outlookLines({ ...outlookOf(new FakeWorld(PLAN), () => false), programs });
    expect(lines.slice(-2)).toEqual([
      "programs that the plan starts:",
      "  for each model: vllm serve {model}\n    --port {port}",
    ]);
  });

  it("says what training runs will do, those with the same numbers together", () => {
    const one: Omit<TrainingOutlook, "name"> = {
      ...{ isLeast: false, tokens: 40.96e6, isMost: true, sequences: 40_000, steps: 5000, warmup: 1000, peak: 1e-7 },
      ...{
        last: 5e-11,
        gpuHours: 1.84,
        notes: ["default rate"],
        isSampled: false,
        kept: { dtype: "bfloat16", elements: 0.07, error: 3 },
      },
    } as const;
    const measured = {
      ...one,
      rows: 5000,
      isLeast: true,
      isMost: false,
      epochs: 8,
      name: "c",
      notes: [],
      kept: undefined,
    };
    const training = [{ ...one, name: "a" }, { ...one, name: "b" }, measured];
    const text = outlookLines({ ...outlookOf(new FakeWorld(PLAN), () => false), training }).join("\n");
    expect(text).toMatch(
      /^a, b +\? +at most 41\.0M +40,000 +5,000 +1,000 \(20%\) +1e-7 +5e-11 +\? +1\.8 +about 93% \(bfloat16\)$/m,
    );
    expect(text).toMatch(/^c +over 5,000 +about 41\.0M .* under 8 +1\.8 +nothing$/m);
    expect(text).toContain("\n3 training runs: at most 123M tokens\nnote: a, b: default rate\n");
  });

  it("lists known models and steps, and counts later ones", () => {
    const lines = outlookLines(outlookOf(new FakeWorld(PLAN), () => false));
    expect(lines[0]).toBe("models known now: base, and");
    expect(lines[1]?.trim()).toMatch(/^swahili +swahili-1$/);
    const text = lines.join("\n");
    expect(text).toMatch(/training +0 +2$/m);
    expect(text).toMatch(/evaluation +0 +2$/m);
    expect(text).toContain("  train math-1, math-2\n  evaluate on mgsm_sw: base, swahili-1\n");
    // Two pairs in two configurations; each expert once.
    expect(text).toContain("  about 4 steps: scores of swap\n");
    expect(text).toContain("  about 1 step: scores of math-1\n");
    expect(text).toContain("time left: unknown until a step of each kind is done; up to 2 steps in parallel\n");
    expect(text).toMatch(/28\.0 MB more on disk\ndownloads 3 models \(48\.0 GB\) from the hub into \/cache\/hub$/);
    const outlook = outlookOf(new FakeWorld(PLAN), () => false);
    const downloads = { ...outlook.downloads, dataSets: { count: 1, bytes: 2e9 } };
    expect(outlookLines({ ...outlook, downloads }).at(-1)).toBe(
      "downloads 3 models (48.0 GB) and 1 data set (2.00 GB) from the hub into /cache/hub",
    );
  });

  it("names the evaluations of guards, of the base now and of checkpoints later", () => {
    const guarded = PLAN.replace(
      "seeds: [1, 2] } }",
      "seeds: [1, 2] }, select: { by: mgsm_en, guards: [{ task: mmlu }] } }",
    );
    const lines = outlookLines(outlookOf(new FakeWorld(guarded), () => false));
    expect(lines).toContain("  evaluate on mmlu: base (for guards)");
    expect(lines).toContain("  about 4 steps: scores of checkpoints of math, and their guards (mmlu)");
  });

  it("names the merge of every line on what follows a search", () => {
    const merges = ["one", "two"].map(
      (name) =>
        `  - { name: ${name}, recipe: { method: swap, task: math, language: swahili, top: 0 }, grid: { bottom: [1, 2] } }`,
    );
    const text = PLAN.replace(/merges:[\s\S]*?(?=evaluate:)/, `merges:\n${merges.join("\n")}\n`);
    const world = new FakeWorld(text);
    world.round();
    const lines = outlookLines(outlookOf(world, () => true)).filter((line) => line.includes("final scores of"));
    expect(lines.map((line) => line.replace(/^.*: /, ""))).toEqual([
      "final scores of one of math and swahili",
      "final scores of two of math and swahili",
    ]);
  });

  it("reports that nothing is left", () => {
    const world = new FakeWorld(PLAN);
    world.finish();
    const text = outlookLines(outlookOf(world, () => true)).join("\n");
    expect(text).toMatch(/training +2 +0$/m);
    expect(text).toMatch(/all \d+ steps are done; nothing to do$/);
    expect(text).toMatch(/swap of math and swahili +2 combinations, 2 configurations of each/);
  });
});

it("prints what merges will note, each note once, and how many are to come", () => {
  const outlook = outlookOf(new FakeWorld(PLAN), () => false);
  const notes = ["one", "two"].map((name) => ({ name, note: "the base is another" }));
  const lines = outlookLines({ ...outlook, merges: { notes, later: 2 } });
  expect(lines).toContain("note: one, two: the base is another");
  expect(lines).toContain("notes of 2 merges are known once the experts are here");
  expect(outlookLines(outlook).join()).not.toMatch(/notes? of/);
});

describe("a status", () => {
  it("lists stopped, failed and pending steps, and what to do about failures", () => {
    const status = outlookOf(new FakeWorld(PLAN), () => false);
    const steps = status.steps.map(({ step, state }, i): StepStatus => {
      if (i === 0) return { step, state: { state: "pending", reason: "its process is gone" } };
      return i === 1 ? { step, state: { state: "failed", reason: "no room" } } : { step, state };
    });
    const lines = statusLines({ ...status, steps });
    const [first, second, ...others] = steps.map(({ step }) => step.label);
    expect(lines).toContain(`stopped  ${first}: its process is gone; resume continues it`);
    expect(lines).toContain(`failed   ${second}: no room`);
    expect(lines).toContain(adviceOnFailures(1));
    for (const label of others) expect(lines).toContain(`left     ${label}`);
    expect(lines).toContain("later    about 4 steps: scores of swap");
    expect(lines.at(-1)).toMatch(/^time left: unknown/);
  });

  it("advises on one failure and on several", () => {
    expect(adviceOnFailures(1)).toBe("1 step failed. Fix the cause, then run resume; steps that are done are kept.");
    expect(adviceOnFailures(2)).toMatch(/^2 steps failed\. /);
  });
});
