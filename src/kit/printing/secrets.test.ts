// Secrets are removed in every simple encoding in which a server may return them.
import { expect, it } from "vitest";
import { redactor } from "./secrets.js";

const KEY = "sk-/Zo+9.secret$key";

it("removes a secret in every simple encoding", () => {
  const redact = redactor([undefined, KEY]);
  for (const around of ["", "a", "ab", "Bearer ", "user:"]) {
    const base64 = Buffer.from(`${around}${KEY} and more`).toString("base64");
    const url = Buffer.from(`${around}${KEY}`).toString("base64url");
    expect(redact(base64), around).toMatch(/^.{0,11}\[redacted\]/);
    expect(redact(url), around).toMatch(/^.{0,11}\[redacted\].{0,2}$/);
  }
  expect(redact(`key ${KEY}, ${KEY.toUpperCase()}!`)).toBe("key [redacted], [redacted]!");
  expect(redact(encodeURIComponent(KEY))).toBe("[redacted]");
  expect(redact(`?key=${encodeURIComponent(KEY).toLowerCase()}&x`)).toBe("?key=[redacted]&x");
  expect(redact(Buffer.from(KEY).toString("hex"))).toBe("[redacted]");
  expect(redact("sk-/Zo+9_secret$key")).toBe("sk-/Zo+9_secret$key");
});

it("keeps the placeholders of servers without keys", () => {
  expect(redactor(["EMPTY"])("the set is empty")).toBe("the set is empty");
});
