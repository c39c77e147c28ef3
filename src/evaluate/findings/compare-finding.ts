// What a comparison of two evaluations found.
import type { Compared, Finding, Lead } from "../../figures/index.js";
import type { MethodComparison } from "../compare-results.js";
import { isDifferent, nextOf } from "./finding.js";

/** How far the second of a comparison is above the first. */
export function leadOf(one: MethodComparison, over: string): Lead {
  const { difference, interval, pAdjusted: pValue, detectable, needed, items } = one;
  const span = interval && { low: interval.low, high: interval.high };
  return { over, difference, interval: span, pValue, detectable, needed, resampled: { factors: {}, items } };
}

/** About the second of a comparison, which is named last. @param names of the first and of the second */
export function compareFinding(one: MethodComparison, [first, second]: readonly [string, string]): Finding {
  const lead = leadOf(one, first);
  const named = (name: string, score: number): Compared => {
    return { name, label: name, detail: "", kind: "result", score };
  };
  const { items, discordance, gained, lost, scale, title: metric, difference } = one;
  const outcome = !isDifferent(lead) ? "unclear" : difference > 0 ? "above" : "below";
  const finding = {
    ...({
      scale,
      metric,
      difference,
      outcome,
      lead,
      leads: [lead],
      isPair: true,
      hasOtherMerges: false,
      isBest: false,
    } as const),
    subject: named(second, one.second),
    alternative: named(first, one.first),
    others: 1,
    tied: [],
    equals: [],
    unclear: [],
    controls: [],
    limit: undefined,
    tiedChoices: undefined,
    flips: discordance === undefined ? undefined : { items, gained: gained.length, lost: lost.length },
  };
  const next = nextOf(finding, items);
  // Which of two to take is the reader's to say.
  return { ...finding, next: next?.do === "take the alternative" || next?.do === "stop" ? undefined : next };
}
