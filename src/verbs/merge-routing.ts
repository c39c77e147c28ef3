// How a mixture that a recipe would make routes texts, for its dry run.
import { z } from "zod";
import { right, type Shown } from "../figures/index.js";
import { formatCount, formatPercent } from "../kit/printing/index.js";
import type { MergeRouting } from "../merge/analysis/index.js";
import { MergePlan } from "./plan-merge.js";
import type { Controls, FlagSpelling } from "./verb.js";

export const routingTexts = z
  .array(z.string())
  .optional()
  .meta({ description: "4 to 1000 texts, for a dry run: also measure how a mixture would route them" });

export const ROUTING_FLAG: FlagSpelling = {
  value: "file",
  read: "texts",
  help: "text file for a dry run, one text per line (4 to 1000): measure how a mixture would route them, too",
};

/** Texts were given, and whether anything was measured on them: not of models without experts, or of one model. */
export interface RoutingFound {
  readonly routing?: MergeRouting | undefined;
}

/** Reads texts with the models that a merge is of, and with the merge as it would be. */
export async function routingOfPlan(
  plan: MergePlan,
  texts: readonly string[],
  controls: Controls,
): Promise<RoutingFound> {
  const models = new Map<string, string>();
  for (const { id, name, folder, adapter } of plan.sources) {
    // Other ids are of experts: `task`, `models[0]`, `language.models[1]`.
    if (id.split(".").at(-1) === "base") continue;
    const source = adapter === undefined ? folder : `${folder}+${adapter}`;
    if (![...models.values()].includes(source)) models.set(models.has(name) ? id : name, source);
  }
  if (models.size < 2) return {};
  const { routeMerge } = await import("../engine/index.js");
  const { signal, threads, onProgress, hub } = controls;
  const options = { signal, threads, onProgress, hub };
  const merge = MergePlan.openedOf(plan);
  return { routing: await routeMerge(Object.fromEntries(models), merge, plan.layers, texts, options) };
}

/** By layer, what the merge shares with its parents, and how it spreads tokens. */
export function showRouting({ routing }: RoutingFound): Shown[] {
  if (!routing) return [];
  const { parents, layers, tokens, chosen, experts } = routing;
  const columns = [...parents.map((name) => `with ${name}`), "parents", "load", "entropy"];
  const title =
    `experts that the merge and each parent both choose, on ${formatCount(tokens)} tokens (${chosen} of ${experts} a token, ` +
    `so ${formatPercent(chosen / experts)} by chance); load of the experts, ${formatPercent(1 / experts)} where even:`;
  const rows = layers.map(({ layer, withParents, between, load, entropy }) => [
    String(layer),
    ...withParents.map(formatPercent),
    formatPercent(between),
    [Math.min(...load), Math.max(...load)].map(formatPercent).join(" to "),
    entropy.toFixed(2),
  ]);
  return [{ kind: "table", what: "layer", title, columns: ["layer", ...columns.map(right)], rows }];
}

export function routingVerdict({ routing }: RoutingFound): string {
  return routing ? `\n${routing.verdict}` : "\nWithout two models that have experts, the texts show no routing.";
}
