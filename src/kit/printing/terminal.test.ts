// Foreign text on a terminal.
import fc from "fast-check";
import { expect, it } from "vitest";
import { endLine, visible, write } from "./terminal.js";

it("shows control characters, and keeps text and our colors", () => {
  expect(visible("\u001b[2J\u001b]0;title\u0007\u009b1A\u007f\rover")).toBe("␛[2J␛]0;title␇\\u009b1A␡␍over");
  expect(visible("a\u202egnp.exe")).toBe("a\\u202egnp.exe");
  const kept = "Jibu ni 5.\n\t\u001b[1mউত্তর\u001b[22m 👩‍🏫\u001b[48;2;1;22;255;30m\r\n";
  expect(visible(kept, { styles: true })).toBe(kept);
  expect(visible("\u001b[1m")).toBe("␛[1m");
  expect(visible("\u001b[8mhidden\u001b[5mblink", { styles: true })).toBe("␛[8mhidden␛[5mblink");
});

it("leaves no control character in any text, and is idempotent", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const shown = visible(text, { styles: true });
      expect(shown.replaceAll("\r\n", "").replace(/\p{Cc}\[[\d;]+m/gu, "")).not.toMatch(/(?![\n\t])\p{Cc}/u);
      expect(visible(shown, { styles: true })).toBe(shown);
    }),
    { numRuns: 50 },
  );
});

it("ends a line that was begun, once", () => {
  const written: string[] = [];
  const stream = { write: (text: string) => written.push(text) } as unknown as NodeJS.WritableStream;
  endLine(stream);
  for (const text of ["An answer", " of a", ""]) write(stream, text);
  endLine(stream);
  endLine(stream);
  write(stream, "A line\n");
  endLine(stream);
  expect(written.join("")).toBe("An answer of a\nA line\n");
});
