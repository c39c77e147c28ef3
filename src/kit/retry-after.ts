/** Longest pause in seconds that a server is believed to mean. */
const MAX_SECONDS = 7 * 24 * 3600;

/**
 * The pause that a Retry-After header asks for: seconds, or a date (RFC 9110, section 10.2.3).
 * @returns seconds; undefined without a header, or for one that makes no sense
 */
export function readRetryAfter(header: string | null | undefined): number | undefined {
  if (header === null || header === undefined) return undefined;
  const number = Number(header);
  const seconds = Number.isNaN(number) ? (Date.parse(header) - Date.now()) / 1000 : number;
  return seconds <= MAX_SECONDS ? Math.max(0, seconds) : undefined;
}
