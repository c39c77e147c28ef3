import { terminalLines } from "../../figures/index.js";
import { openCheckpoint } from "../../formats/checkpoint/index.js";
import { groupBy, usageError } from "../../kit/index.js";
import { formatPercent, formatRanges, formatSome, plural } from "../../kit/printing/index.js";
import { loadYaml } from "../../kit/settings/index.js";
import { type ExplainedTensor, type Explanation, explainMerge } from "../../merge/analysis/index.js";
import { runWithHub } from "../shared/hub-access.js";
import { print, printJson, withWorkOptions } from "../shared/output.js";
import type { Command } from "../shared/typed.js";

const collect = (source: string, before: string[] = []) => [...before, source];

export function add(program: Command): void {
  const command = program
    .command("explain")
    .description(
      "Find out how a model was merged: for each tensor the model it is from, or its weights by least squares. " +
        "Prints the recipe if it gives every tensor, bit for bit or within a stated number of roundings. " +
        "The exit status is 1 if a tensor is not explained.",
    )
    .argument("<merged>", "merged model: FOLDER, or a name on the hub")
    .option("--from <model>", "model that it may be made of; pass it once for each", collect)
    .option("--base <model>", "model that those were fine-tuned from");
  withWorkOptions(command).action(async (merged, options) => {
    const { from = [], base } = options;
    const names = [...from, ...(base === undefined ? [] : [base])];
    if (names.length < 2)
      throw usageError("Missing models to explain it by. Pass --from A --from B, or --from A --base C.");
    const explanation = await runWithHub(options, async ({ hub, onNote: _, ...controls }) => {
      const whole = await openCheckpoint(merged, { hub });
      if (whole.adapter) throw usageError("explain takes a whole model. Merge the adapter into its base first.");
      const models = [];
      for (const source of names) models.push({ source, checkpoint: await openCheckpoint(source, { hub }) });
      return explainMerge(whole, models, { ...controls, hasBase: base !== undefined });
    });
    if (options.json) printJson(explanation);
    else print(await describe(explanation));
    if (explanation.tensors.some(({ verdict }) => verdict === "unexplained")) process.exitCode = 1;
  });
}

async function describe({ sources, recipe, tensors }: Explanation): Promise<string[]> {
  const wordsOf = ({ verdict, weights, residual }: ExplainedTensor): string => {
    if (verdict === "same") return "the same in all models";
    const terms = (weights ?? []).flatMap((weight, i) => (weight === 0 ? [] : [[weight, sources[i] ?? ""] as const]));
    const [only] = terms;
    const sum =
      terms.length === 1 && only?.[0] === 1
        ? only[1]
        : terms.map(([weight, name]) => `${Number(weight.toFixed(3))} ${name}`).join(" + ");
    if (verdict !== "unexplained") return `${sum}${verdict === "rounding" ? ", but for rounding" : ""}`;
    if (weights === null) return "not explained: not in every model, or of another shape or type";
    return `not explained; the closest, ${sum}, leaves ${formatPercent(residual)} of the change`;
  };
  const perLayer = [...groupBy(tensors, ({ layer }) => layer)].map(([layer, inLayer]) => {
    const kinds = groupBy(inLayer, wordsOf);
    // What nothing tells apart says nothing beside the rest.
    if (kinds.size > 1) kinds.delete("the same in all models");
    const texts = [...kinds].map(([words, some]) =>
      kinds.size === 1 ? words : `${words} (${plural(some.length, "tensor")})`,
    );
    return { layer, text: kinds.size > 3 ? `${formatSome(texts, 2)}` : texts.join("; ") };
  });
  const rows = [...groupBy(perLayer, ({ text }) => text)].map(([text, alike]) => {
    const layers = alike.flatMap(({ layer }) => layer ?? []).sort((a, b) => a - b);
    const outside = alike.some(({ layer }) => layer === null) ? ["outside the layers"] : [];
    return [[...(layers.length > 0 ? [`layers ${formatRanges(layers)}`] : []), ...outside].join(", "), text];
  });
  const unexplained = tensors.filter(({ verdict }) => verdict === "unexplained").length;
  const of = plural(tensors.length, "tensor");
  const rounded = tensors.filter(({ verdict }) => verdict === "rounding");
  const dtypes = [...new Set(rounded.map(({ dtype }) => dtype))].join(" and ");
  const most = plural(Math.max(...rounded.map(({ roundings }) => roundings ?? 0)), "rounding");
  const differing = rounded.reduce((sum, tensor) => sum + (tensor.differing ?? 0), 0);
  const { yamlText } = await loadYaml();
  return [
    ...terminalLines({ columns: ["where", "from"], rows }),
    ...(recipe ? ["", yamlText(recipe).trimEnd()] : []),
    "",
    ...(unexplained > 0
      ? [
          `Not explained: ${unexplained} of ${of} are not a weighted sum of these models.`,
          "This rules out swap, soup, task_arithmetic, slerp and other methods that weigh whole tensors of these models alone.",
          "It leaves methods that choose elements or rows (ties, dare_ties, breadcrumbs), a missing model, and later training.",
        ]
      : rounded.length > 0
        ? [
            `Explained but for rounding: ${rounded.length} of ${of} differ from the recipe's, in ${plural(differing, "element")} by at most ${most} of ${dtypes}.`,
          ]
        : [`Explained: the recipe gives all ${of}, bit for bit.`]),
  ];
}
