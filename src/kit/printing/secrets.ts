// Removes secrets from the replies of servers, which are stored and printed.

const REDACTED = "[redacted]";
/** Shorter ones, such as EMPTY and none, are placeholders and ordinary words. */
const LEAST_LENGTH = 8;

/** A function that removes secrets from a text, also in base64, percent and hexadecimal encoding. */
export function redactor(secrets: readonly (string | undefined)[]): (text: string) => string {
  const known = secrets.filter((secret) => secret !== undefined && secret.length >= LEAST_LENGTH) as string[];
  if (known.length === 0) return (text) => text;
  const forms = known.flatMap(formsOf).sort((a, b) => b.length - a.length);
  const pattern = new RegExp(forms.map((form) => form.replace(/[.*+?^${}()|[\]\\/-]/g, "\\$&")).join("|"), "gi");
  return (text) => text.replace(pattern, REDACTED);
}

function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  // Base64 of a longer text, such as "Bearer KEY", depends on the position of the secret in groups of three bytes.
  // Characters at both ends that also encode its neighbors are left out.
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
