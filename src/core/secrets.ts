// Secrets that a server was told must not come back from it: what it says is stored and printed.

const REDACTED = "[redacted]";
/** Shorter ones, such as EMPTY and none, are placeholders that servers without keys are given, and ordinary words. */
const LEAST_LENGTH = 8;

/** A function that takes secrets out of a text: as they are, and in base64, percent and hexadecimal encoding. */
export function redactor(secrets: readonly (string | undefined)[]): (text: string) => string {
  const known = secrets.filter((secret) => secret !== undefined && secret.length >= LEAST_LENGTH) as string[];
  if (known.length === 0) return (text) => text;
  const forms = known.flatMap(formsOf).sort((a, b) => b.length - a.length);
  const pattern = new RegExp(forms.map((form) => form.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")).join("|"), "gi");
  return (text) => text.replace(pattern, REDACTED);
}

function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  // Base64 of a longer text, such as "Bearer KEY", depends on where the secret begins in its groups of three bytes; the
  // characters at both ends that its neighbours have a part in are left away.
  const encoded = [0, 1, 2].flatMap((before) => {
    const base64 = Buffer.concat([Buffer.alloc(before), bytes])
      .toString("base64")
      .replaceAll("=", "");
    const whole = Math.floor(((before + bytes.length) * 8) / 6);
    const inner = base64.slice(Math.ceil((before * 8) / 6), whole);
    return [inner, inner.replaceAll("+", "-").replaceAll("/", "_")];
  });
  return [secret, encodeURIComponent(secret), bytes.toString("hex"), ...encoded];
}
