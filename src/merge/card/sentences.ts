// What a check of a card found, in sentences, from its fields.
import { formatPercent, formatRanges, formatSome, plural } from "../../kit/printing/index.js";
import type { CardCheck, CardPlan, CardVerdict } from "./check-card.js";
import type { Certainty } from "./sample.js";

/** Less than what two digits show is not nothing. */
const percent = (share: number): string => (share > 0 && share < 0.0005 ? "less than 0.1%" : formatPercent(share));

const DTYPES: Readonly<Record<string, string>> = { BF16: "bfloat16", F16: "float16", F32: "float32" };

/** The verdict first, then what explains it better, then how sure that is. */
export function cardSentences(check: CardCheck): string[] {
  const { certainty, recipes, refused, recipe, better, share } = check;
  const all = recipes.length + refused.length;
  const taken =
    all > 1 && recipe ? [`The card has ${plural(all, "recipe")}; this is of the one after line ${recipe.line}.`] : [];
  return [
    verdictOf(check),
    ...taken,
    ...(better ? [betterOf(check)] : []),
    ...(certainty ? certaintyOf(certainty, share) : []),
  ];
}

function verdictOf(check: CardCheck): string {
  const { verdict, tensors, rounding, random, refused, problems, sources } = check;
  const what = refused.flatMap((block) => block.what);
  const certainty = check.certainty;
  const weights = certainty && certainty.sampled < certainty.all ? "The compared weights" : "The weights";
  switch (verdict) {
    case "identical":
      return `${weights} are what the card says: ${plural(tensors.compared, "tensor")} bit-identical.`;
    case "rounding":
      return `${weights} are what the card says, ${roundedTo(rounding)}.`;
    case "ties": {
      const to = rounding ? `${roundedTo(rounding)}, ` : "";
      return `${weights} are what the card says, ${to}but for a cut among equal values in ${plural(tensors.ties, "tensor")}.`;
    }
    case "statistics":
      return `The method draws at random, and ${weights.toLowerCase()} have the statistics of the card's recipe: ${drawsOf(random)}.`;
    case "differs":
      return random
        ? `The weights are not what the card says: the method draws at random, and the statistics differ: ${drawsOf(random)}.`
        : `The weights are not what the card says: ${differences(check).join("; ")}.`;
    case "source-missing": {
      const gone = sources.filter(({ missing }) => missing !== null);
      return `The card cannot be checked, as ${formatSome(gone.map(({ name }) => name))} cannot be read: ${gone[0]?.missing}.`;
    }
    case "invalid-recipe":
      return `The card's recipe cannot be planned: ${[...problems, ...what].slice(0, 3).join("; ")}.`;
    case "local-source":
      return `The card cannot be checked: ${formatSome(what)} ${what.length === 1 ? "is a local folder" : "are local folders"} that only its author has.`;
    case "own-code":
      return `The card cannot be checked: its method ${formatSome(what)} is a program, which verify does not run.`;
    default:
      return "The card has no recipe.";
  }
}

function roundedTo(rounding: CardCheck["rounding"]): string {
  const { dtype = "", roundings = 0, left = null } = rounding ?? {};
  const share = left === null ? "" : `, ${percent(left)} of what the merge changed`;
  return `to rounding in ${DTYPES[dtype] ?? dtype} (${plural(roundings, "rounding")} at most${share})`;
}

/** What differs, one clause each. */
function differences({ layers, tensors, left, missing, extra, deviations }: CardCheck): string[] {
  const beside = deviations.filter(({ layer, verdict }) => layer === null && verdict === "differs");
  const off = left === null ? "" : `, by ${percent(left)} of what the merge changed`;
  const where = [
    ...(layers.length > 0 ? [`${layers.length === 1 ? "layer" : "layers"} ${formatRanges(layers)}`] : []),
    ...(beside.length > 0 ? [formatSome(beside.map(({ tensor }) => tensor))] : []),
  ];
  return [
    ...(where.length > 0
      ? [`${where.join(" and ")} ${layers.length === 1 && beside.length === 0 ? "differs" : "differ"}${off}`]
      : []),
    ...(tensors.form > 0 ? [`${plural(tensors.form, "tensor")} of another shape or dtype`] : []),
    ...(missing.length > 0 ? [`missing: ${formatSome(missing)}`] : []),
    ...(extra.length > 0 ? [`not in the recipe: ${formatSome(extra)}`] : []),
  ];
}

function drawsOf(random: CardCheck["random"]): string {
  if (!random) return "nothing could be compared";
  const { published, drawn, cosine, cosineOfDraws } = random;
  return [
    `${formatPercent(published.changed)} of the elements changed (a draw: ${formatPercent(drawn.changed)})`,
    `size ${published.size.toPrecision(3)} (${drawn.size.toPrecision(3)})`,
    `cosine with a draw ${cosine.toFixed(2)} (${cosineOfDraws.toFixed(2)})`,
  ].join(", ");
}

function betterOf({ better }: CardCheck): string {
  if (!better) return "";
  const { what, names, given, of, recipe } = better;
  const share = given === of ? "all compared tensors" : `${given} of ${of} compared tensors`;
  if (what === "swapped") return `With ${names.join(" and ")} in each other's place, the recipe gives ${share}.`;
  if (what === "base") return `With ${names[0]} as the base, the recipe gives ${share}.`;
  if (what === "adapter") return `Without the adapter of ${names[0]}, the recipe gives ${share}.`;
  const written = JSON.stringify(recipe).replaceAll("hub:", "");
  return `Other weights give ${share}${written.length > MAX_RECIPE ? ", which the JSON output has" : `: ${written}`}.`;
}

/** Characters of a recipe that a sentence holds. */
const MAX_RECIPE = 300;

const probability = (p: number): string => (p < 0.0001 ? "below 0.0001" : p.toPrecision(2));

function certaintyOf({ unit, all, sampled, changed, missed, missedInOneMatrix }: Certainty, share: number): string[] {
  if (sampled >= all) return [];
  const one = unit === "rows" ? "row" : "tensor";
  const of = `${sampled.toLocaleString("en-US")} of ${all.toLocaleString("en-US")}`;
  const alone =
    missedInOneMatrix === undefined
      ? ""
      : `, and in a single matrix with probability ${probability(missedInOneMatrix)} at most`;
  return [
    `A sample of ${formatPercent(share)} of the ${unit} (${of}) would miss a change of one ${one} in ${Math.round(1 / changed)} with probability ${probability(missed)}${alone}.`,
  ];
}

/** What would be compared. */
export function planSentences({ recipes, refused, share }: CardPlan): string[] {
  return [
    ...recipes.map(({ line, from, method }) => `Recipe after line ${line}: ${method}, as ${from} writes it`),
    ...refused.map(({ line, why, what }) => `Block after line ${line} is not used (${why}): ${formatSome(what)}`),
    ...(recipes.length + refused.length === 0 ? ["The card has no recipe."] : []),
    ...recipes.slice(0, 1).flatMap(({ certainty }) => (certainty ? certaintyOf(certainty, share) : [])),
  ];
}

/** Of the badge. */
export const BADGES: Readonly<Record<CardVerdict, readonly [text: string, color: string]>> = {
  identical: ["bit-identical", "#2da44e"],
  rounding: ["to rounding", "#2da44e"],
  ties: ["but for ties", "#2da44e"],
  statistics: ["statistics agree", "#2da44e"],
  differs: ["differs", "#cf222e"],
  "source-missing": ["source missing", "#6e7781"],
  "invalid-recipe": ["recipe not valid", "#6e7781"],
  "local-source": ["local source", "#6e7781"],
  "own-code": ["own program", "#6e7781"],
  "no-recipe": ["no recipe", "#6e7781"],
};

/** Whether a verdict says that the card is true. */
export const isTrue = (verdict: CardVerdict): boolean =>
  ["identical", "rounding", "ties", "statistics"].includes(verdict);
