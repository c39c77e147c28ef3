// The table of languages: complete, and found by every code.
import { describe, expect, it } from "vitest";
import { findLanguage, LANGUAGES, requireLanguage } from "./languages.js";

describe("languages", () => {
  it("are found by every code, ignoring case", () => {
    for (const code of ["sw", "swh", "swh_Latn", "swa", "SWH-latn", "Swahili"])
      expect(findLanguage(code)?.code).toBe("swh_Latn");
    expect(findLanguage("zho")?.code).toBe("zho_Hans");
    expect(findLanguage("zho_Hant")?.name).toBe("Traditional Chinese");
    expect(findLanguage("xx")).toBeUndefined();
    expect(() => requireLanguage("swahilli", { task: "belebele_swahilli", field: "tasks" })).toThrow(
      /belebele_swahilli: unknown language "swahilli".*; did you mean Swahili\?/,
    );
  });

  it("are those of FLORES-200, each once", () => {
    const codes = LANGUAGES.map(({ code }) => code);
    expect(new Set(codes).size).toBe(codes.length);
    expect(codes.every((code) => /^[a-z]{3}_[A-Z][a-z]{3}$/.test(code))).toBe(true);
    const shorts = LANGUAGES.flatMap(({ short }) => short ?? []);
    expect(new Set(shorts).size).toBe(shorts.length);
    expect(shorts.every((short) => /^[a-z]{2}$/.test(short))).toBe(true);
    expect(new Set(LANGUAGES.map(({ name }) => name)).size).toBe(codes.length);
    // The platform knows the two-letter codes too, and gives them the same first letters in all but a few.
    const names = new Intl.DisplayNames("en", { type: "language" });
    const alike = LANGUAGES.filter(({ short, name }) => short && names.of(short)?.[0] === name[0]);
    expect(alike.length).toBeGreaterThan(0.9 * shorts.length);
  });
});
