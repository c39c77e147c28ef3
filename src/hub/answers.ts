// Answers of the hub's API. A login page or a broken proxy may send something else in their place.

import { isObject, shorten } from "../core/index.js";
import { HubError } from "./settings.js";

const LISTS: readonly (readonly [path: RegExp, field: string])[] = [
  [/\/preupload\//, "files"],
  [/\/info\/lfs\/objects\/batch$/, "objects"],
];

/** Whether an answer at this path, below the endpoint, is JSON. */
const isOfApi = (path: string) => path.startsWith("/api/") || LISTS.some(([pattern]) => pattern.test(path));

/** The answer with its whole body. @param onBytes called with the bytes of each part of it */
export async function wholeAnswer(response: Response, onBytes: (bytes: number) => void): Promise<Response> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of response.body ?? []) {
    onBytes(chunk.length);
    chunks.push(chunk);
  }
  const { url, status, statusText, headers } = response;
  const body = chunks.length > 0 ? Buffer.concat(chunks) : null;
  return Object.defineProperty(new Response(body, { status, statusText, headers }), "url", { value: url });
}

/**
 * Reads the whole answer to a request to the API; other answers are left as they are.
 * @param path of the request, below the endpoint
 * @param server address for messages
 * @throws HubError if the answer is not JSON, or the hub refuses an upload
 */
export async function checkedAnswer(
  path: string,
  response: Response,
  server: string,
  onBytes: (bytes: number) => void,
): Promise<Response> {
  if (!isOfApi(path)) return response;
  const answer = await wholeAnswer(response, onBytes);
  if (answer.status >= 400) return answer;
  const value: unknown = await answer
    .clone()
    .json()
    .catch((error: unknown) => {
      const message = `${server} sent an answer that is not the hub's. A proxy or login page may be in between.`;
      throw new HubError(message, {}, error);
    });
  const [, field = ""] = LISTS.find(([pattern]) => pattern.test(path)) ?? [];
  const list = isObject(value) ? value[field] : undefined;
  for (const entry of Array.isArray(list) ? (list as unknown[]) : []) {
    if (!isObject(entry)) continue;
    // @huggingface/hub takes no notice of these, and reports the commit without the file as a success.
    if (isObject(entry.error)) throw new HubError(`The Hub refuses an upload: ${shorten(String(entry.error.message))}`);
    if (entry.uploadMode !== undefined && !["lfs", "regular"].includes(String(entry.uploadMode))) {
      throw new HubError(`The Hub asks for an upload of the mode ${String(entry.uploadMode)}. Update layergraft.`);
    }
  }
  return answer;
}
