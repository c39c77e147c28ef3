// Each training run of a settled plan: what identifies it, and what it trains.
import { expect, it } from "vitest";
import { FakeWorld } from "../../../test/support/fake-world.js";
import { countCheckpoints, describeTraining } from "./training-runs.js";

const plan = (train: string, more = "") =>
  new FakeWorld(
    `name: p
base: base
training:
  common: { run: { data: rows.jsonl, samples: 1000, checkpoints: { every_samples: 250 }, optimizer: { lr: 1.0e-4 } } }
  unused: { engine: trl, trl: { python: /opt/python } }
experts: { math: { role: task, train: { like: common, ${train} }${more} } }
evaluate: { tasks: [mgsm_en] }
`,
  );
const runsOf = ({ plan: { experts } }: FakeWorld) => experts.math?.train?.runs ?? [];

it("has its own fields over those that it is like, as written and with defaults", () => {
  const world = plan(
    "runs: [{ name: a, method: lora, data: { source: other.jsonl } }, { name: b, optimizer: { clip: 2 } }]",
  );
  const [a, b] = runsOf(world);
  expect(a?.fields).toEqual({
    ...{ data: { source: "other.jsonl" }, samples: 1000, checkpoints: { every_samples: 250 } },
    ...{ optimizer: { lr: 1e-4 }, method: "lora" },
  });
  expect(b?.fields).toMatchObject({ data: "rows.jsonl", optimizer: { lr: 1e-4, clip: 2 } });
  expect(a?.settings?.data?.sets.map(({ source }) => source)).toEqual(["other.jsonl"]);
  expect(b?.settings).toMatchObject({ batch: 8, optimizer: { decay: 0.1, clip: 2 } });
  expect([a?.dataPath, b?.dataPath]).toEqual([
    ["runs", 0],
    ["run", "data"],
  ]);
  expect([a, b].map((run) => run?.settings && describeTraining(run.settings))).toEqual(["LoRA", "all weights"]);
});

it("is one for each seed, and keeps every checkpoint if there is a choice among them", () => {
  const runs = runsOf(plan("seeds: [1, 2]", ", select: { top: 1, by: mgsm_en }"));
  expect(runs.map(({ name, fields }) => [name, fields.seed])).toEqual([
    ["math-1", 1],
    ["math-2", 2],
  ]);
  for (const { fields, settings } of runs) {
    expect(fields.checkpoints).toEqual({ every_samples: 250, keep: "all" });
    expect(settings && countCheckpoints(settings)).toBe(4);
  }
});

it("has a problem of the common fields once, and is expanded with what it trains", () => {
  expect(() => plan("run: { batch: 0 }, seeds: [1, 2]")).toThrow(/^plan is not a valid plan:\n.*batch[^\n]*$/);
  const { runs, steps } = plan("seeds: [1, 2]").expand();
  const keys = steps.filter(({ kind }) => kind === "train").map(({ key }) => key);
  expect([...runs.keys()]).toEqual(keys);
});
