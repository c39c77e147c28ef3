// SHA-256 of bytes, texts and JSON values, in hexadecimal.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";

export function digestOf(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

/** Digest of a file's content, as `sha256sum` prints it. */
export async function digestOfFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(path, { highWaterMark: 2 ** 20 }), hash);
  return hash.digest("hex");
}

/** Digest of a value's JSON; depends on the order of fields. */
export function digestOfJson(value: unknown): string {
  return digestOf(JSON.stringify(value));
}

/** JSON with sorted fields: equal values have equal texts. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

/** Digest of a value, whatever the order of its fields. */
export function digestOfValue(value: unknown): string {
  return digestOf(canonicalJson(value));
}
