// What a person should know about a result that was written or pushed.
import { describeKept, losesChange } from "../../kernels/index.js";
import { asField, formatBytes, formatPercent, plural, type SayField } from "../../kit/printing/index.js";
import { methodOf, type Plan } from "../recipe/recipe.js";
import type { ExecuteResult } from "./execute-plan.js";
import type { PushResult } from "./push.js";
import { sourceLabels } from "./summary.js";

/** @param set how advice sets a field; default as in a file */
export function writeNotes(
  { kept, changedShare, equalTo, rounding }: ExecuteResult,
  plan: Plan,
  set: SayField = asField,
): string[] {
  const notes = keptNotes(kept, plan, set);
  if (rounding) {
    const advice = losesChange(rounding) ? `. ${set("dtype", "float32")} to keep all of it` : "";
    notes.push(`rounding to ${describeKept(rounding)}${advice}`);
  }
  if (changedShare !== null) {
    notes.push(`${formatPercent(changedShare)} of the parameters stay the expert's; the others are the base's`);
  }
  if (equalTo !== null && plan.sources.length > 1) {
    notes.push(`the weights are those of ${equalTo}, bit for bit; this merge changed nothing`);
  }
  return notes;
}

/** Of thresholds that keep at least a point more than the recipe asks for. */
function keptNotes(kept: ExecuteResult["kept"], plan: Plan, set: SayField): string[] {
  const more = kept.filter((one) => one.kept - one.asked > 0.01);
  if (more.length === 0) return [];
  const labels = sourceLabels(plan);
  const whose = (of: readonly string[]) => of.map((label) => labels.get(label) ?? label).join(" and ");
  const shares = more.map(
    (one) => `${formatPercent(one.kept)} of the changes of ${whose(one.of)} instead of ${formatPercent(one.asked)}`,
  );
  const cut = "cutoff" in methodOf(plan.recipe).schema.shape ? ` ${set("cutoff", "exact")} for the exact share.` : "";
  return [`keeps ${shares.join(" and ")}, because all changes that equal the threshold are kept.${cut}`];
}

export function pushNotes({ created, leftOut, unknown }: PushResult): string[] {
  return [
    ...(created === null ? ["the hub was not reached, so files that it may have already are listed, too"] : []),
    ...(leftOut.length > 0 ? [`not part of the model, so not pushed: ${leftOut.join(", ")}`] : []),
    ...unknownNotes(unknown),
  ];
}

/** What was pushed; of a dry run each file that would be. */
export function pushLines({ url, commit, sent, unchanged, removed, bytes }: PushResult): string[] {
  const others = [
    ...(unchanged.length > 0 ? [`${plural(unchanged.length, "file")} unchanged`] : []),
    ...(removed.length > 0 ? [`${plural(removed.length, "old weight file")} removed`] : []),
  ];
  const what = [`${plural(sent.length, "file")} (${formatBytes(bytes)})`, ...others].join(", ");
  if (commit === null) {
    return [
      ...sent.map((path) => `send      ${path}`),
      ...unchanged.map((path) => `unchanged ${path}`),
      ...removed.map((path) => `remove    ${path}`),
      `Would push to ${url}: ${what}`,
    ];
  }
  return [sent.length + removed.length === 0 ? `${url} is already up to date` : `Pushed to ${url}: ${what}`];
}

/** What the hub asks for and the model card does not say. */
export const unknownNotes = (fields: readonly string[]): string[] =>
  fields.length > 0
    ? [
        `README.md does not say ${fields.join(" and ")}, as the models do not. Add ${fields.length > 1 ? "them" : "it"} at its top before you publish the model`,
      ]
    : [];
