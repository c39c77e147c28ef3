// docs/head-to-head.md, from what head-to-head.js found.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { median } from "./measure.js";

const METHODS = ["soup", "task arithmetic", "TIES", "SLERP", "stack"];
const PROGRAMS = ["layergraft", "mergekit", "mergekit, dtype: float32", "fusion_bench"];

/**
 * @typedef {{ refused: string } | { refused?: undefined, seconds: number, lost: number, added: number, types: number, opens: boolean, differ: number, of: number, worst: number }} Outcome
 * @typedef {{ id: string, error?: string, merges?: Record<string, Record<string, Outcome>> }} Row
 * @typedef {{ seconds: number[], peak: number }} Figures
 * @typedef {object} Run
 * @property {Row[]} rows
 * @property {number} known families of the census
 * @property {Record<string, string>} versions
 * @property {string} machine
 * @property {string} date
 * @property {string} dtype
 * @property {string} model size of the model of the whole commands
 * @property {Record<string, Figures> | undefined} [whole]
 */

/** @param {Run} run */
export function writePage(run) {
  const rows = run.rows.filter(({ merges }) => merges);
  const { mergekit, torch, transformers, Python, "fusion-bench": fusionBench } = run.versions;
  const page = `# Head to head

layergraft, mergekit and fusion_bench merge the same tiny models by the five methods that all three have: of ${rows.length} families of
transformers, a sample of those that [the census](families.md) knows. Measured on ${run.date}: mergekit ${mergekit}, fusion_bench ${fusionBench},
PyTorch ${torch}, transformers ${transformers}, Python ${Python}; ${run.machine}. Repeat it in a clone, with a Python that has these packages:

\`\`\`sh
npm run bench -- head-to-head --python PYTHON
\`\`\`

It takes 40 families that many use, listed before a run. \`--families all\` takes the ${run.known} of the census, \`--resume\` continues.
${
  rows.length < 40
    ? `The machine's time ended after ${rows.length} of the 40, in their order.
`
    : ""
}
The models are the census's: a random base in ${run.dtype} and two experts whose every value differs from it by noise. The methods:

| method | layergraft | mergekit | fusion_bench |
| --- | --- | --- | --- |
| soup | \`soup\` | \`linear\` | \`SimpleAverageForCausalLM\` |
| task arithmetic, half the sum of the changes | \`task_arithmetic\`, \`lambda: 0.5\` | \`task_arithmetic\` | \`TaskArithmeticForCausalLM\` |
| TIES, half of the changes | \`ties\`, \`trim: tensor\`, \`cutoff: exact\` | \`ties\` | \`TiesMergingForCausalLM\`, ranks by model |
| SLERP, in the middle | \`slerp\` | \`slerp\` | \`SlerpForCausalLM\` |
| stack, layers 0 to 2, then 1 to 3 | \`passthrough\` | \`passthrough\` | \`DepthUpscalingForLlama\` |

The stack takes its layers from one model, since fusion_bench stacks no two. fusion_bench opens each model with the class of its family.
mergekit runs twice: with \`dtype: ${run.dtype}\`, as most configurations have it, and with \`dtype: float32\` and \`out_dtype: ${run.dtype}\`.

## What comes out

- **Lost**: the merge lacks tensors of the experts, and transformers does not find them under other names. Other names for the same, such as
  experts in one tensor, are not a loss: what transformers opens is stored under the names of the experts before it is compared.
- **Does not open**: transformers reports more missing or unexpected tensors than for the experts, or a layer of the stack computes in another way
  than the layer that it is a copy of. In mergekit's stack of \`opt\`, the configuration keeps four layers where the files have six.
- **Differ**: values that are not those of float64 rounded once. Each program is compared with its own rule for TIES. What a rule leaves open is
  left out: changes at the threshold itself, and elections without a winner. A value that is stored in a wider type, as transformers keeps a few
  tensors in float32, counts as different.
- **Largest error**: in units in the last place, of the largest of the values that an element is computed from; 0.5 is what rounding once may do.

${METHODS.map((method) => outcomes(rows, method)).join("\n\n")}

mergekit and fusion_bench merge what transformers has in memory, where the experts of a layer are one tensor. So in mixtures of experts SLERP takes
its angle over all experts of a layer, and mergekit's TIES its threshold, where layergraft takes one for each tensor of the file. Such values are
among those that differ.

"Seconds" is the median of the merges that finish, in a process that runs already, on a machine that was busy with other work. Start-up is not part of
it.
${run.whole ? wholeTables(run.whole, run.model) : ""}
## Why merges fail

${failures(rows)}

## Where others win

${wins(rows)}
- **A GPU.** mergekit can use one. On an H100, [DELLA](machines.md#one-h100-and-16-cores) of 8B models took mergekit 46 s and layergraft, on 16 cores, 72 s.
- **Other models and methods.** fusion_bench merges image models (CLIP, ConvNeXt, ResNet, DINOv2) and has methods that train while they merge, such as
  AdaMerging and mixtures of merged experts; it ships the benchmarks to score them. layergraft merges language models only.
- **Precision is a setting in mergekit.** With \`dtype: float32\`, its soups and task arithmetic are as exact as layergraft's wherever it finishes, and so is its
  TIES outside mixtures of experts.

All guides: [Documentation](README.md).
`;
  writeFileSync(fileURLToPath(new URL("../docs/head-to-head.md", import.meta.url)), page);
}

/** @param {Row[]} rows @param {string} method @param {string} program @returns {[id: string, outcome: Outcome][]} */
const outcomesOf = (rows, method, program) =>
  rows.flatMap(({ id, merges = {} }) => {
    const outcome = merges[method]?.[program];
    return outcome ? [[id, outcome]] : [];
  });

/** @param {Row[]} rows @param {string} method */
function outcomes(rows, method) {
  const lines = PROGRAMS.map((program) => {
    const all = outcomesOf(rows, method, program).map(([, outcome]) => outcome);
    const done = all.flatMap((one) => (one.refused === undefined ? [one] : []));
    const count = (/** @type {(one: typeof done[number]) => boolean} */ test) => done.filter(test).length;
    const [differ, of] = [done.reduce((sum, one) => sum + one.differ, 0), done.reduce((sum, one) => sum + one.of, 0)];
    const worst = Math.max(0, ...done.map((one) => one.worst));
    const values = [
      share(differ, of),
      method === "stack" ? "" : String(worst),
      seconds(done.map((one) => one.seconds)),
    ];
    const counts = [`${done.length} of ${all.length}`, count(isLost), count(({ opens }) => !opens)];
    return `| ${[program, ...counts, ...values].join(" | ")} |`;
  });
  const head = [method, "finishes", "lost tensors", "does not open", "values that differ", "largest error", "seconds"];
  return `| ${head.join(" | ")} |\n|${" --- |".repeat(head.length)}\n${lines.join("\n")}`;
}

/** Whether tensors lack; with others in their place, that cannot be said of a merge that does not open. @param {{ lost: number, added: number }} outcome */
const isLost = ({ lost, added }) => lost > 0 && added === 0;

/** @param {number} part @param {number} whole */
function share(part, whole) {
  if (part === 0) return "0";
  const percent = (100 * part) / whole;
  return percent < 0.01 ? `${part} of ${whole.toLocaleString("en")}` : `${percent.toFixed(percent < 1 ? 2 : 1)}%`;
}

/** @param {number[]} values */
const seconds = (values) => (values.length > 0 ? median(values).toFixed(2) : "");

/** @param {Record<string, Figures>} whole @param {string} model */
function wholeTables(whole, model) {
  const lines = Object.entries(whole).map(([name, figures]) => {
    const [method = "", program = ""] = name.split(": ");
    const [middle, least, most] = figures.seconds.map((one) => one.toFixed(1));
    const range = least === most ? middle : `${middle} (${least} to ${most})`;
    return `| ${method} | ${program} | ${range} | ${figures.peak.toFixed(0)} MB |`;
  });
  return `
## Whole commands

The same merges of a Llama of ${model.toUpperCase()} parameters in bfloat16, each in a process of its own, interleaved, on the same busy machine: compare the rows and
not the seconds.

| method | program | seconds | peak memory |
| --- | --- | --- | --- |
${lines.join("\n")}
`;
}

/** Programs and families with the same failure, together. @param {Row[]} rows */
function failures(rows) {
  /** @type {Map<string, Map<string, Set<string>>>} */
  const found = new Map();
  for (const program of PROGRAMS) {
    if (program.includes("float32")) continue; // fails as the other run of mergekit does
    for (const method of METHODS) {
      for (const [id, outcome] of outcomesOf(rows, method, program)) {
        const reason = reasonOf(outcome);
        if (reason === undefined) continue;
        const key = `${program}: ${reason}`;
        const families = found.get(key) ?? new Map();
        families.set(id, (families.get(id) ?? new Set()).add(method));
        found.set(key, families);
      }
    }
  }
  const lines = [...found].map(([key, families]) => {
    const who = [...families].map(
      ([id, methods]) => `\`${id}\` (${methods.size === METHODS.length ? "all" : [...methods].join(", ")})`,
    );
    return `- **${key.replace(": ", ":** ")} ${who.join(", ")}`;
  });
  return lines.join("\n") || "None does.";
}

/** @param {Outcome} outcome */
function reasonOf(outcome) {
  if (outcome.refused === undefined) {
    if (isLost(outcome)) return "tensors are lost.";
    return outcome.opens ? undefined : "does not open.";
  }
  const text = outcome.refused.replace(/\s+/g, " ");
  if (text.includes("`layer_types`"))
    return "refused; `num_hidden_layers` grows, and `layer_types` in the configuration does not.";
  if (/required but not present/.test(text)) return "refused; a tensor of the architecture is not in the model.";
  if (/has no attribute '(model|layers)'/.test(text)) return "refused; it stacks models with `model.layers` only.";
  return `refused; ${text.replace(/\/\S*layergraft-head-\w+\/[^/ ]+\//g, "").slice(0, 160)}.`;
}

/** @param {Row[]} rows */
function wins(rows) {
  const faster = METHODS.flatMap((method) => {
    const of = (/** @type {string} */ program) =>
      median(outcomesOf(rows, method, program).flatMap(([, one]) => (one.refused === undefined ? [one.seconds] : [])));
    const ours = of("layergraft");
    return ["mergekit", "fusion_bench"].flatMap((program) =>
      of(program) < ours ? [`${method}: ${program} ${of(program).toFixed(2)} s, layergraft ${ours.toFixed(2)} s`] : [],
    );
  });
  const models = "**Tiny merges in a process that runs already.**";
  return faster.length > 0 ? `- ${models} Medians: ${faster.join("; ")}.` : `- ${models} None here.`;
}
