// What a request must have before it is answered: an allowed host, origin and key, and a body of a bounded size.

import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { isIPv4 } from "node:net";
import { parseWritten } from "../kit/numbers/index.js";
import { formatBytes } from "../kit/printing/index.js";
import { ApiError, badRequest } from "./api-error.js";

export interface GuardOptions {
  /** Whether the server is bound to this machine alone. */
  readonly isLoopback: boolean;
  readonly apiKey?: string | undefined;
  /** Origins of pages that may send requests; "*" for all. */
  readonly origins: readonly string[];
}

/** The path of a request, as it was sent: `URL` throws for `//` and takes the host from `//host/path`. */
export function pathOf({ url = "/" }: IncomingMessage): string {
  return url.replace(/[?#].*$/s, "");
}

/** Whether only this machine reaches an address. */
export function isLoopback(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, "").toLowerCase();
  return name === "localhost" || name === "::1" || (isIPv4(name) && name.startsWith("127."));
}

/**
 * Refuses pages of foreign origins. Also sets the headers with which browsers let allowed ones read the reply.
 * @throws ApiError
 */
export function checkOrigin(request: IncomingMessage, response: ServerResponse, options: GuardOptions): void {
  const { origin, host = "" } = request.headers;
  // A page whose name was made to point to this machine sends that name (DNS rebinding). A key protects as well.
  if (options.isLoopback && options.apiKey === undefined && !isLoopback(host.replace(/:\d*$/, ""))) {
    throw new ApiError(403, "The Host header is not this machine's. Use the address that the server printed.");
  }
  if (origin === undefined) return;
  if (!options.origins.includes("*") && !options.origins.includes(origin)) {
    throw new ApiError(403, "Pages of this origin may not use the server. Who starts it can allow the origin.");
  }
  response.setHeader("access-control-allow-origin", origin);
  response.setHeader("access-control-allow-headers", "authorization, content-type, *");
  response.setHeader("access-control-allow-methods", "GET, POST");
  response.setHeader("vary", "origin");
}

/** @throws ApiError if the server has a key and the request does not */
export function checkKey(request: IncomingMessage, { apiKey }: GuardOptions): void {
  if (apiKey === undefined) return;
  const given = /^Bearer (.*)$/i.exec(request.headers.authorization ?? "")?.[1] ?? "";
  // Digests have one length, so the comparison takes the same time for every key.
  const digest = (text: string) => createHash("sha256").update(text).digest();
  if (timingSafeEqual(digest(given), digest(apiKey))) return;
  throw new ApiError(401, "The API key is missing or wrong. Send it as Authorization: Bearer KEY.", {
    code: "invalid_api_key",
    headers: { "www-authenticate": "Bearer" },
  });
}

/** A body that is too long is read to its end up to this many times the limit, as many clients read no reply before. */
const MAX_DISCARDED = 8;

/** Reads a body as JSON. @throws ApiError if it is too long or is not JSON */
export async function readBody(request: IncomingMessage, most: number): Promise<unknown> {
  const encoding = request.headers["content-encoding"] ?? "identity";
  if (encoding !== "identity") throw new ApiError(415, `The body is encoded with ${encoding}. Send it unencoded.`);
  const tooLong = () =>
    new ApiError(413, `The body has more than ${formatBytes(most)}.`, { headers: { connection: "close" } });
  if (Number(request.headers["content-length"] ?? 0) > most * MAX_DISCARDED) throw tooLong();
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= most) chunks.push(chunk);
    else chunks.length = 0;
    if (bytes > most * MAX_DISCARDED) break;
  }
  if (bytes > most) throw tooLong();
  try {
    return parseWritten(Buffer.concat(chunks).toString("utf8"));
  } catch {
    throw badRequest("The body is not valid JSON.");
  }
}
