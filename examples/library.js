import { analyze, evaluate, openModel, planMerge, train, verify } from "layergraft";

const plan = await planMerge({ method: "swap", task: "math-expert", language: "swahili-expert", bottom: 2, top: 0 });
await plan.write({ out: "my-merge", onProgress: ({ phase, done, total }) => console.log(phase, done, "of", total) });
const { verified } = await verify({ model: "my-merge" });

const model = await openModel("my-merge");
const problem = "Asha alikuwa na ndizi tisa. Asha aliuza ndizi saba. Asha ana ndizi ngapi sasa?";
const { text } = await model.generate(`${problem} Solve:`, { maxNewTokens: 8 });
const { scores } = await evaluate(model, { tasks: ["quiz.yaml"], limit: 20 });
await model.close();

const analysis = await analyze({ base: "base", experts: { math: "math-expert" } });
const trained = await train({
  base: "base",
  out: "my-run",
  data: "problems.jsonl",
  steps: 10,
  optimizer: { lr: 4e-4 },
});

console.log(verified, text, scores[0]?.value, analysis.total.experts[0]?.relativeNorm, trained.last);
