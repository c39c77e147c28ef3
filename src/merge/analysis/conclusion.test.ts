import { expect, it } from "vitest";
import type { Analysis } from "./analysis.js";
import { alikeSentences, concludeSuggestions } from "./conclusion.js";
import type { Suggestion } from "./suggest.js";

/** Relative changes of layers, of each expert. */
function analysisOf(experts: Readonly<Record<string, readonly number[]>>): Pick<Analysis, "byLayer" | "experts"> {
  const [first = []] = Object.values(experts);
  const byLayer = [...first, 9].map((_, layer) => ({
    layer: layer === first.length ? null : layer,
    experts: Object.values(experts).map((changes) => ({ relativeNorm: changes[layer] ?? 9 })),
  }));
  return { experts: Object.keys(experts), byLayer } as never;
}

const suggestion = (name: string, evidence: Suggestion["evidence"], sources: string) =>
  ({
    ...{ name, evidence },
    owners: { rows: [...sources].map((one) => ({ attention: [one], mlp: [one] })), outside: [] },
  }) as unknown as Suggestion;

it("layers that changed alike, as after six steps, are named noise, and other profiles are not", () => {
  // As measured of a model of 8 layers after 6 steps.
  const six = [0.00956, 0.00993, 0.00959, 0.00967, 0.00934, 0.0091, 0.00917, 0.00886];
  const analysis = analysisOf({ six, peaked: [1, 1, 1, 1.25, 1, 1, 1, 1], frozen: [0, 0, 0, 2, 2, 2, 2, 2] });
  expect(alikeSentences(analysis)).toEqual([
    "six changed all layers alike (the most 1.12 times the least), as after few steps of training: which layer changed more is noise.",
  ]);
});

it("suggestions end with what to try first and how sure it is", () => {
  const suggestions = [suggestion("paper-default", "published", "abbba"), suggestion("profile", "changes", "aabbb")];
  expect(concludeSuggestions(suggestions, analysisOf({ task: [1, 2], language: [2, 1] }))).toBe(
    "Try paper-default first: it worked for other models, and nothing was evaluated here. profile, from what these experts " +
      "changed, takes the same in 3 of 5 layers: evaluate both.",
  );
  expect(concludeSuggestions(suggestions, analysisOf({ task: [1, 1.1], language: [2, 1] }))).toMatch(
    /^Try paper-default first: .* here\. task changed all layers alike \(the most 1\.10 times .* is noise\.$/,
  );
  expect(concludeSuggestions([], analysisOf({}))).toBe("");
});
