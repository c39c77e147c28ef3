// What a plan has no model of because guards refused checkpoints, in sentences.
import { plural } from "../../core/index.js";
import type { Selection } from "./choose-checkpoints.js";

const MAX_NAMED = 8;

/**
 * Families that have fewer checkpoints than the plan names.
 * @param missing families and merges of the plan that therefore have no model
 */
export function describeRefusals(selections: readonly Selection[], missing: readonly string[]): string[] {
  const refused = selections.filter((one) => countKept(one) === 0);
  const gone = missing.filter((name) => !refused.some(({ family }) => family === name));
  const lacking = selections.filter((one) => refused.includes(one) || (gone.length > 0 && countKept(one) < one.top));
  if (lacking.length === 0) return [];
  const shown = gone.length > MAX_NAMED ? [...gone.slice(0, MAX_NAMED), `${gone.length - MAX_NAMED} more`] : gone;
  return [
    ...lacking.map(describeRefusal),
    ...(gone.length > 0 ? [`Without these checkpoints, there is no model of ${shown.join(", ")}.`] : []),
  ];
}

const countKept = ({ checkpoints }: Selection) => checkpoints.filter(({ name }) => name !== undefined).length;

/** `Guards refused all 6 checkpoints of math (6 by mmlu, 3 by gsm), so math has no model.` */
function describeRefusal(selection: Selection): string {
  const { family, top, guards, checkpoints } = selection;
  const kept = countKept(selection);
  const by = guards.flatMap(({ task }) => {
    const count = checkpoints.filter(({ refusedBy }) => refusedBy.includes(task)).length;
    return count === 0 ? [] : [`${count} by ${task}`];
  });
  if (kept > 0) {
    const why = by.length === 0 ? "the others are of the same runs or data" : `guards refused ${by.join(", ")}`;
    return `${family} has ${kept} of the ${plural(top, "checkpoint")} that the plan names: ${why}.`;
  }
  const all = checkpoints.length === 1 ? "the only checkpoint" : `all ${checkpoints.length} checkpoints`;
  return `Guards refused ${all} of ${family} (${by.join(", ")}), so ${family} has no model.`;
}
