import { terminalLines } from "../../figures/index.js";
import { largestOf } from "../../kit/arrays/index.js";
import { groupBy } from "../../kit/index.js";
import { formatPercent, formatRanges, formatSome, plural } from "../../kit/printing/index.js";
import { loadYaml } from "../../kit/settings/index.js";
import type { ExplainedTensor } from "../../merge/analysis/index.js";
import { type ExplainResult, explain } from "../../verbs/index.js";
import { runWithHub } from "../shared/hub-access.js";
import { addToList, print, printJson } from "../shared/output.js";
import type { Command } from "../shared/typed.js";
import { withWorkOptions } from "../shared/verb-flags.js";

export function add(program: Command): void {
  const command = program
    .command("explain")
    .description(
      "Find out how a model was merged: for each tensor the model it is from, or its weights by least squares. " +
        "Prints the recipe if it gives every tensor, bit for bit or within a stated number of roundings. " +
        "The exit status is 1 if a tensor is not explained.",
    )
    .argument("<merged>", "merged model: FOLDER, or a name on the hub")
    .option("--from <model>", "model that it may be made of; pass it once for each", addToList)
    .option("--base <model>", "model that those were fine-tuned from");
  withWorkOptions(command).action(async (merged, options) => {
    const { from = [], base } = options;
    const explanation = await runWithHub(options, (controls) => explain(merged, { from, base, ...controls }));
    if (options.json) printJson(explanation);
    else print(await describe(explanation));
    if (explanation.tensors.some(({ verdict }) => verdict === "unexplained")) process.exitCode = 1;
  });
}

async function describe(explanation: ExplainResult): Promise<string[]> {
  const { sources, recipe, tensors } = explanation;
  const perLayer = [...groupBy(tensors, ({ layer }) => layer)].map(([layer, inLayer]) => {
    const kinds = groupBy(inLayer, (tensor) => originOf(tensor, sources));
    // What nothing tells apart says nothing beside the rest.
    if (kinds.size > 1) kinds.delete(SAME);
    const texts = [...kinds].map(([words, some]) =>
      kinds.size === 1 ? words : `${words} (${plural(some.length, "tensor")})`,
    );
    return { layer, text: kinds.size > 3 ? `${formatSome(texts, 2)}` : texts.join("; ") };
  });
  const rows = [...groupBy(perLayer, ({ text }) => text)].map(([text, alike]) => [placesOf(alike), text]);
  const { yamlText } = await loadYaml();
  return [
    ...findingOf(explanation),
    "",
    ...terminalLines({ columns: ["where", "from"], rows }),
    ...(recipe ? ["", yamlText(recipe).trimEnd()] : []),
  ];
}

const SAME = "the same in all models";

function originOf({ verdict, weights, residual }: ExplainedTensor, sources: readonly string[]): string {
  if (verdict === "same") return SAME;
  const terms = (weights ?? []).flatMap((weight, i) => (weight === 0 ? [] : [[weight, sources[i] ?? ""] as const]));
  const [only] = terms;
  const sum =
    terms.length === 1 && only?.[0] === 1
      ? only[1]
      : terms
          .map(([weight, name]) => `${Number(weight.toFixed(3))} ${name}`)
          .join(" + ")
          .replaceAll("+ -", "- ");
  if (verdict !== "unexplained") return sum;
  if (weights === null) return "not explained: not in every model, or of another shape or type";
  return `not explained; the closest, ${sum}, leaves ${residual < 0.0005 ? "less than 0.1%" : formatPercent(residual)} of the change`;
}

/** The layers of some tensors, and whether some are outside. */
function placesOf(some: readonly { readonly layer: number | null }[]): string {
  const layers = [...new Set(some.flatMap(({ layer }) => layer ?? []))].sort((a, b) => a - b);
  const outside = some.some(({ layer }) => layer === null) ? ["outside the layers"] : [];
  return [...(layers.length > 0 ? [`layers ${formatRanges(layers)}`] : []), ...outside].join(", ");
}

/** What was found, in a sentence or a few. */
function findingOf({ recipe, tensors, missing }: ExplainResult): string[] {
  const of = plural(tensors.length, "tensor");
  const lacks =
    missing.length > 0
      ? [
          `The models have ${plural(missing.length, "more tensor")}, which are missing here: ${placesOf(missing)}${recipe ? ". The recipe gives them, too" : ""}.`,
        ]
      : [];
  const unexplained = tensors.filter(({ verdict }) => verdict === "unexplained").length;
  if (unexplained > 0) {
    return [
      `Not explained: ${unexplained} of ${of} are not a weighted sum of these models.`,
      ...lacks,
      "This rules out swap, soup, task_arithmetic, slerp and other methods that weigh whole tensors of these models alone.",
      "It leaves methods that choose elements or rows (ties, dare_ties, breadcrumbs), a missing model, and later training.",
    ];
  }
  const rounded = tensors.filter(({ verdict }) => verdict === "rounding");
  if (rounded.length === 0) return [`Explained: the recipe gives all ${of}, bit for bit.`, ...lacks];
  const most = largestOf(rounded.map(({ roundings }) => roundings ?? 0));
  const dtypes = [...new Set(rounded.map(({ dtype }) => dtype))].join(" and ");
  const elements = plural(
    rounded.reduce((sum, tensor) => sum + (tensor.differing ?? 0), 0),
    "element",
  );
  const finding =
    most === 0
      ? `Explained: the recipe gives all ${of}, bit for bit but for the sign of zero in ${elements} of ${rounded.length}.`
      : `Explained but for rounding: ${rounded.length} of ${of} differ from the recipe's, in ${elements} by at most ${plural(most, "rounding")} of ${dtypes}.`;
  return [finding, ...lacks];
}
