// Every start of a token against a search of all tokens at each place.
import fc from "fast-check";
import { expect, it } from "vitest";
import { Matcher } from "./matcher.js";

it("finds the longest token at each place, as trying all of them does", () => {
  const word = fc.string({ unit: fc.constantFrom("a", "b", "\u{1f600}", ">"), minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(
      fc.array(word, { maxLength: 8 }),
      fc.string({ unit: fc.constantFrom("a", "b", "\u{1f600}", ">"), maxLength: 30 }),
      (tokens, text) => {
        const wanted = [...Array(text.length).keys()].flatMap((start) => {
          const here = tokens.filter((token) => text.startsWith(token, start));
          const [value] = here.sort((a, b) => b.length - a.length);
          return value === undefined ? [] : [{ value, start, end: start + value.length }];
        });
        expect(new Matcher(tokens.map((token) => [token, token])).longest(text)).toEqual(wanted);
      },
    ),
  );
});

it("of equal tokens has the last, and no match without tokens", () => {
  const tokens = [
    ["ab", 1],
    ["ab", 2],
  ] as const;
  expect(new Matcher(tokens).longest("cab")).toEqual([{ value: 2, start: 1, end: 3 }]);
  expect(new Matcher([]).isEmpty).toBe(true);
});
