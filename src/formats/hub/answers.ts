// Answers of the hub's API. A login page or a broken proxy may send anything in their place.

import { HubError, isObject } from "../../kit/index.js";
import { shorten } from "../../kit/printing/index.js";

/** Longest answer of the API, in bytes. A page of a listing has up to 1,000 files. */
const MAX_ANSWER = 64 * 2 ** 20;
/** Read of what a server says of an upload. */
const MAX_UPLOAD_ANSWER = 2 ** 16;

const isList = (value: unknown): value is readonly Readonly<Record<string, unknown>>[] =>
  Array.isArray(value) && value.every(isObject);

/** @huggingface/hub leaves out a file with another mode, and reports the commit without it as a success. */
const isUploadable = ({ path, uploadMode }: Readonly<Record<string, unknown>>) =>
  typeof path === "string" && (uploadMode === "lfs" || uploadMode === "regular");

const isAddress = (value: unknown): value is string => {
  if (typeof value !== "string" || !URL.canParse(value)) return false;
  const { protocol, username, password } = new URL(value);
  // fetch refuses addresses with a login.
  return /^https?:$/.test(protocol) && username + password === "";
};

/**
 * Whether each object is one that was asked for, with addresses for all of its parts.
 * @throws HubError if the hub refuses one of them
 */
function areUploads(objects: readonly Readonly<Record<string, unknown>>[], asked: unknown): boolean {
  const known = isObject(asked) && isList(asked.objects) ? asked.objects : [];
  const sizes = new Map(known.map(({ oid, size }) => [oid, Number(size)]));
  if (new Set(objects.map(({ oid }) => oid)).size !== sizes.size) return false;
  return objects.every(({ oid, error, actions = {} }) => {
    const size = sizes.get(oid);
    if (size === undefined || !isObject(actions)) return false;
    if (isObject(error)) throw new HubError(`The Hub refuses an upload: ${shorten(String(error.message))}`);
    if (actions.upload === undefined) return error === undefined;
    if (!isObject(actions.upload) || !isAddress(actions.upload.href)) return false;
    const { header } = actions.upload;
    if (!isObject(header) || !header.chunk_size) return header === undefined || header === null || isObject(header);
    const parts = Object.keys(header).filter((key) => /^\d+$/.test(key));
    const count = Math.ceil(size / Number(header.chunk_size));
    return (
      parts.length === count && parts.every((key) => Number(key) >= 1 && Number(key) <= count && isAddress(header[key]))
    );
  });
}

/** What @huggingface/hub reads of an answer without a check, by the path of the request. */
const SHAPES: readonly (readonly [RegExp, (value: unknown, asked: unknown) => boolean])[] = [
  [
    /^\/api\/(model|dataset)s\/[^/]+\/[^/]+\/tree\//,
    (value) => isList(value) && value.every(({ path, type }) => typeof path === "string" && typeof type === "string"),
  ],
  [
    /^\/api\/(model|dataset)s\/[^/]+\/[^/]+\/revision\//,
    (value) => isObject(value) && (typeof value.sha === "string" || typeof value.id === "string"),
  ],
  [
    /^\/api\/whoami-v2$/,
    (value) =>
      isObject(value) &&
      isObject(value.auth) &&
      (value.type === "app" || typeof value.name === "string") &&
      (value.type !== "user" || isList(value.orgs)),
  ],
  [/^\/api\/repos\/create$/, isObject],
  [
    /^\/api\/models\/[^/]+\/[^/]+\/preupload\//,
    (value, asked) =>
      isObject(value) &&
      isList(value.files) &&
      value.files.every(isUploadable) &&
      value.files.length === (isObject(asked) && isList(asked.files) ? asked.files.length : 0),
  ],
  [
    /^\/[^/]+\/[^/]+\.git\/info\/lfs\/objects\/batch$/,
    (value, asked) => isObject(value) && isList(value.objects) && areUploads(value.objects, asked),
  ],
  [/^\/api\/models\/[^/]+\/[^/]+\/commit\//, (value) => isObject(value) && typeof value.commitOid === "string"],
];

function parsed(text: unknown): unknown {
  try {
    return typeof text === "string" ? JSON.parse(text) : undefined;
  } catch {
    return undefined; // a commit has lines of JSON
  }
}

/** The answer to an upload, with the beginning of its body. */
export async function boundedAnswer(response: Response): Promise<Response> {
  const { status, headers } = response;
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes > MAX_UPLOAD_ANSWER) break;
  }
  const body = bytes > 0 ? Buffer.concat(chunks).subarray(0, MAX_UPLOAD_ANSWER) : null;
  return copyOf(response, body, { status: Math.min(status, 599), headers });
}

function copyOf(response: Response, body: string | Uint8Array<ArrayBuffer> | null, init: ResponseInit): Response {
  // Servers send reasons with control characters, which a Response refuses.
  const statusText = response.statusText.replace(/[^\t\x20-\x7e]/g, "?");
  return Object.defineProperty(new Response(body, { ...init, statusText }), "url", { value: response.url });
}

/**
 * Reads the whole answer to a request to the API; other answers are left as they are.
 * @param path of the request, below the endpoint
 * @param server address for messages
 * @param asked JSON of the request, if it had some
 * @param onBytes called with the bytes of each part of the body
 * @throws HubError if the answer is not one of the hub
 */
export async function checkedAnswer(
  path: string,
  response: Response,
  server: string,
  asked: unknown,
  onBytes: (bytes: number) => void,
): Promise<Response> {
  const [, isRight] = SHAPES.find(([pattern]) => pattern.test(path)) ?? [];
  if (!isRight) return response;
  const wrong = (cause?: unknown) =>
    new HubError(`${server} sent an answer that is not the hub's. A proxy or login page may be in between.`, {}, cause);
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    onBytes(chunk.length);
    bytes += chunk.length;
    if (bytes > MAX_ANSWER) throw wrong();
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (response.status < 400) throw wrong(error);
  }
  const { status, headers } = response;
  const isRefusal = status >= 400;
  // Servers send statuses that a Response refuses: above 599, of answers without a body.
  if (status > 599 || (!isRefusal && !isRight(value, parsed(asked)))) throw wrong();
  // @huggingface/hub reads the reason of a refusal, which must be an object if it is JSON.
  const body = isObject(value) || !isRefusal ? text : "{}";
  return copyOf(response, body, { status: isRefusal ? status : 200, headers });
}
