// What a comparison found, as a plain value, and its words. `evaluate/findings` decides; every page and terminal renders.
import { plural } from "../kit/printing/index.js";
import type { Verdict } from "./figures.js";
import { probabilityText, scoreText } from "./lead.js";
import type { Scale, Span } from "./scores.js";
import { formatNumber, formatSpan } from "./table.js";

export type ModelKind = "base" | "expert" | "average" | "merge" | "swap" | "joint" | "control" | "result";

/** A model, or a row of several, with its score. */
export interface Compared {
  /** What a sentence calls it, before articles: `math` of an expert, `TIES`. */
  readonly name: string;
  /** Label of its row, where it has one: `TIES, chosen`. */
  readonly label: string;
  /** Its configuration; empty if it has none. */
  readonly detail: string;
  readonly kind: ModelKind;
  readonly score: number;
}

/** How far one model is above another on the same items. */
export interface Lead {
  /** Label of the other. */
  readonly over: string;
  readonly difference: number;
  /** 95% interval over what was resampled. */
  readonly interval?: Span | undefined;
  /** With Holm's correction for the number of others. */
  readonly pValue?: number | undefined;
  /** The smallest difference that these items and experts show with 80% power, at 5% corrected in the same way. */
  readonly detectable?: number | undefined;
  /** Items with which a true difference of this size is shown with that power; undefined where no number of items is known to be enough. */
  readonly needed?: number | undefined;
  /** Levels of each factor, such as `{ math: 4, swahili: 4 }`, and items. */
  readonly resampled: { readonly factors: Readonly<Record<string, number>>; readonly items: number };
}

/** What a comparison asks to be done. */
export type Next =
  /** Nothing: more items would change nothing. */
  | { readonly do: "stop" }
  /** `items`: in all; undefined if how many is not known. */
  | { readonly do: "ask more items"; readonly items: number | undefined; readonly asked: number }
  /** A difference as small as was found takes more items than a study asks. The true one may be larger. */
  | { readonly do: "choose otherwise"; readonly items: number; readonly asked: number }
  | { readonly do: "train more experts" }
  | { readonly do: "score other merges" }
  | { readonly do: "score its models" }
  | { readonly do: "try other layers" }
  | { readonly do: "take the alternative" }
  | { readonly do: "score other items" }
  | { readonly do: "ask another task"; readonly limit: "ceiling" | "floor" };

/** What was compared, with what, by how much, how sure, over which evidence, and what to do next. */
export interface Finding {
  readonly scale: Scale;
  /** What is measured, where there are several: `strict`. */
  readonly metric: string;
  readonly subject: Compared;
  /** The highest of all other models; undefined if none answered the same. */
  readonly alternative: Compared | undefined;
  /** Of the subject less the alternative. */
  readonly difference: number;
  /**
   * Of that difference: `above`, `below`: significant; `unclear`: not; `untested`: no test is possible. `tied`: others score as
   * much as the subject. `optimistic`: it was chosen on these items. `alone`: there is no alternative.
   */
  readonly outcome: "above" | "below" | "unclear" | "untested" | "tied" | "optimistic" | "alone";
  /** Over every other model, the alternative and controls included; empty if it is tied, optimistic or untested. */
  readonly leads: readonly Lead[];
  /** That over the alternative. */
  readonly lead: Lead | undefined;
  /** How many others it is compared with, controls left out. */
  readonly others: number;
  /** Others that score as much as the subject. */
  readonly tied: readonly Compared[];
  /** Others that score as much as the alternative. */
  readonly equals: readonly Compared[];
  /** Others that it is not significantly above. */
  readonly unclear: readonly Compared[];
  /** Controls that it is not significantly above. */
  readonly controls: readonly Compared[];
  /** Whether it is significantly above every other model. */
  readonly isBest: boolean;
  /** Of a merge: whether another merge is among the others, or only the models that it is made of. */
  readonly hasOtherMerges: boolean;
  /** Whether one named model is compared with another, and not with all that there are. */
  readonly isPair: boolean;
  /** Where all models are at the end of the scale. */
  readonly limit: "ceiling" | "floor" | undefined;
  /** Of two models: items that only the subject has right, and that only the other has; undefined unless items are right or wrong. */
  readonly flips: { readonly items: number; readonly gained: number; readonly lost: number } | undefined;
  /** Answers of all models with tied choices; undefined if there are none. */
  readonly tiedChoices: { readonly answers: number; readonly of: number } | undefined;
  readonly next: Next | undefined;
}

/** Whether a finding is about a merge. */
export const isMerge = ({ kind }: Pick<Compared, "kind">) => kind === "average" || kind === "merge" || kind === "swap";

/** What people call a model: `the base`, `the math expert` (also of `math-expert`), `the layer swap`, `TIES`. */
export function nameInWords({ name, kind }: Pick<Compared, "name" | "kind">): string {
  if (kind === "result" || name.startsWith("the ")) return name;
  if (kind === "base") return name === "base" ? "the base" : name;
  if (kind === "expert")
    return /expert$/i.test(name) ? `the ${name.replace(/[-_](?=expert$)/i, " ")}` : `the ${name} expert`;
  return /(^|\s)(swap|soup|average|merge)$/.test(name) ? `the ${name}` : name;
}

/** `a, b and c`; if there are too many, the number of the others. Names with commas are quoted. */
export function listed(names: readonly string[], max = 3): string {
  const quoted = names.map((name) => (name.includes(",") ? `“${name}”` : name));
  const shown = quoted.length > max ? [...quoted.slice(0, max - 1), `${quoted.length - max + 1} more`] : quoted;
  return shown.length < 2 ? (shown[0] ?? "") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/** Begins with a capital where it begins with a word, and not with a name such as `qwen2.5` or `a/b`. */
export const sentence = (text: string) =>
  text.replace(/^\p{Ll}(?=\p{L}*[\s,.])/u, (letter) => letter.toLocaleUpperCase("en"));

/** How a sentence puts a score: `solves 82.1% of the word problems`. */
export interface Measured {
  /** Default: `scores`. */
  readonly verb?: string;
  /** What the score is a share of. Default: empty. */
  readonly of?: string;
}

/** A finding in sentences, each empty where there is nothing to say. */
export interface FindingWords {
  /** The score, and how far it is from the best alternative. */
  readonly lead: string;
  /** How sure that is. */
  readonly test: string;
  /** Over which evidence, where that limits what it means. */
  readonly evidence: string;
  /** What to do next. */
  readonly next: string;
}

/** All of a finding in sentences. */
export function findingText(finding: Finding | undefined, measured?: Measured): string {
  if (!finding) return "";
  const { lead, test, evidence, next } = findingWords(finding, measured);
  return [lead, test, evidence, next].filter((text) => text !== "").join(" ");
}

/** A finding as a page's conclusion: what to do next is below it. */
export function findingVerdict(finding: Finding | undefined, title = ""): Verdict {
  if (!finding) return { title, text: "", isOpen: true };
  const { lead, test, evidence, next } = findingWords(finding);
  const [text, more] = [
    [lead, test],
    [evidence, next],
  ].map((parts) => parts.filter((part) => part !== "").join(" ")) as [string, string];
  return { title, text, ...(more === "" ? {} : { more }), isOpen: finding.outcome !== "above" };
}

export function findingWords(finding: Finding, measured: Measured = {}): FindingWords {
  return {
    lead: sentence(leadWords(finding, measured)),
    test: testWords(finding),
    evidence: evidenceWords(finding),
    next: nextWords(finding),
  };
}

const labelInWords = ({ label, kind }: Compared) => nameInWords({ name: label, kind });
const labelsOf = (some: readonly Compared[]) => listed(some.map(labelInWords));

function leadWords(
  { subject, alternative, difference, lead, outcome, tied, limit, scale, metric, hasOtherMerges, isPair }: Finding,
  { verb = "scores", of = metric === "" ? "" : `by ${metric}` }: Measured,
): string {
  const score = scoreText(subject.score, scale);
  if (outcome === "tied") {
    const atLimit = limit ? `All rows are at the ${limit}, so this task cannot tell these models apart. ` : "";
    return `${atLimit}${sentence(labelsOf([subject, ...tied]))} are tied at ${score}.`;
  }
  const name = listed([nameInWords(subject)]);
  const share = of === "" ? score : `${score} ${of}`;
  if (!alternative) return `${name} ${verb} ${share}. No other model was asked the same.`;
  const points = formatNumber({ value: Math.abs(difference), scale });
  const how = Number(points) === 0 ? "as much as" : `${points} points ${difference > 0 ? "above" : "below"}`;
  const isSingle =
    isMerge(subject) && !hasOtherMerges && (alternative.kind === "expert" || alternative.kind === "base");
  const role = isPair ? "" : isSingle ? ", the best single model" : ", the best alternative";
  const sure = [
    scoreText(alternative.score, scale),
    ...(lead?.interval
      ? [`95% interval of the difference: ${formatSpan(lead.interval, { scale, isSigned: true })}`]
      : []),
    ...(lead?.pValue === undefined ? [] : [probabilityText(lead.pValue)]),
  ];
  return `${name} ${verb} ${share}, ${how} ${listed([nameInWords(alternative)])}${role} (${sure.join("; ")}).`;
}

function testWords({ outcome, others, unclear, controls, scale, isPair, flips, lead }: Finding): string {
  const said = () => {
    if (outcome === "optimistic") return "It was chosen on these items, so its score is optimistic.";
    if (outcome === "untested") return "Whether that is significant is unknown.";
    if (outcome === "tied" || outcome === "alone") return "";
    if (outcome === "below" || isPair) {
      return `The difference is ${outcome === "unclear" ? "not " : ""}significant.`;
    }
    const except = controls.length === 0 ? "" : ` except ${labelsOf(controls)}`;
    if (unclear.length === others && others > 1) return "It is not significantly above any other.";
    if (unclear.length === 0) return `It is significantly above all others${except}.`;
    return `It is not significantly above ${labelsOf([...unclear, ...controls])}.`;
  };
  const flipped = flips ? `Of ${plural(flips.items, "item")}, ${flips.gained} gained and ${flips.lost} lost.` : "";
  const { detectable } = lead ?? {};
  const shown =
    isPair && outcome === "unclear" && detectable !== undefined
      ? `A difference of ${formatNumber({ value: detectable, scale })}${scale === "share" ? " points" : ""} would show in 80 of 100 such comparisons.`
      : "";
  return [said(), flipped, shown].filter((text) => text !== "").join(" ");
}

function evidenceWords(finding: Finding): string {
  const { subject, alternative, equals, hasOtherMerges, isPair, tiedChoices, scale } = finding;
  const isLonely = isMerge(subject) && alternative !== undefined && !hasOtherMerges && !isPair;
  return [
    ...(alternative && equals.length > 0
      ? [
          `${sentence(labelsOf(equals))} ${equals.length === 1 ? "scores" : "score"} ${scoreText(alternative.score, scale)}, too.`,
        ]
      : []),
    ...(isLonely ? ["No other merge was tried on these items."] : []),
    ...(tiedChoices
      ? [`${tiedChoices.answers} of ${plural(tiedChoices.of, "answer")} of these models have tied choices.`]
      : []),
  ].join(" ");
}

const count = (value: number) => value.toLocaleString("en-US");

function nextWords({ next, alternative }: Finding): string {
  if (!next) return "";
  switch (next.do) {
    case "stop":
      return "More items are not needed.";
    case "ask more items":
      return next.items === undefined
        ? "Ask more items to tell them apart."
        : `Ask about ${count(next.items)} items to tell them apart (${count(next.asked)} so far).`;
    case "choose otherwise":
      return `A difference this small takes about ${count(next.items)} items to show (${count(next.asked)} so far): choose by something else.`;
    case "train more experts":
      return "Train more experts to tell them apart: the difference varies with them.";
    case "score other merges":
      return "Score a soup or TIES, too.";
    case "score its models":
      return "Score its models on the same items.";
    case "try other layers":
      return `Try other layers${alternative ? `, or take ${listed([nameInWords(alternative)])}` : ""}.`;
    case "take the alternative":
      return alternative ? `Take ${listed([nameInWords(alternative)])}.` : "";
    case "score other items":
      return "Score it on other items.";
    case "ask another task":
      return next.limit === "ceiling" ? "Ask a harder task." : "Ask an easier task.";
  }
}
