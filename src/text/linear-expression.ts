// Whether a tokenizer's regular expression takes time in proportion to its text, by its form alone: nothing that can fail follows
// what may have read far. What is not sure to be linear is taken for not linear.

/** Ends of published splits. A run of spaces is read by each of them, and the last one takes it. */
const SPACES = ["|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+", "|\\s+(?!\\S)|\\s+"];

/** One character: a class without inner classes, a set, or the character itself. */
const CHARACTER = String.raw`\[(?:\\[pP]\{\^?\w+\}|\\[^pP]|(?!&&)[^\\\[\]])+\]|\\[pP]\{\^?\w+\}|\\[sSdDwWhHnrtfv]|\\[^\w\s]|[^\\\[\](){}*+?|^$]`;
/** A choice among short words. */
const WORDS = String.raw`\((?:\?i?:)(?:${CHARACTER})+(?:\|(?:${CHARACTER})+)*\)`;
const QUANTIFIER = String.raw`[?*+]|\{\d{1,2}(?:,\d*)?\}`;
const ATOM = new RegExp(`(${WORDS}|${CHARACTER})(${QUANTIFIER})?`, "uy");
const ATOMS = 30;
/** Optional characters double the ways to begin. */
const OPTIONAL = 4;

export function isLinear(expression: string): boolean {
  const end = SPACES.find((one) => expression.endsWith(one)) ?? "";
  const rest = expression.slice(0, expression.length - end.length);
  return splitAlternatives(rest)?.every(canOnlyFailEarly) ?? false;
}

/** The alternatives, outside of classes and groups. */
function splitAlternatives(expression: string): string[][] | undefined {
  const alternatives: string[][] = [[]];
  for (let at = 0; at < expression.length; ) {
    if (expression[at] === "|") {
      alternatives.push([]);
      at++;
      continue;
    }
    ATOM.lastIndex = at;
    const [atom] = ATOM.exec(expression) ?? [];
    if (atom === undefined) return undefined;
    alternatives.at(-1)?.push(atom);
    at += atom.length;
  }
  return alternatives;
}

function canOnlyFailEarly(atoms: readonly string[]): boolean {
  const quantifiers = atoms.map((atom) => {
    ATOM.lastIndex = 0;
    const [, one = "", quantifier = ""] = ATOM.exec(atom) ?? [];
    // A repeated choice may be read in several ways.
    return one.startsWith("(") && quantifier !== "" && quantifier !== "?" ? "(" : quantifier;
  });
  const repeated = quantifiers.findIndex((one) => one !== "" && one !== "?" && !/^\{\d+\}$/.test(one));
  const after = repeated < 0 ? [] : quantifiers.slice(repeated + 1);
  return (
    !quantifiers.includes("(") &&
    atoms.length <= ATOMS &&
    quantifiers.filter((one) => one === "?").length <= OPTIONAL &&
    after.every((one) => one === "*" || one === "?")
  );
}
