// Uploads files to a repository of the hub as one commit. What is there already is not sent again.

import { createReadStream } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { commitIter } from "@huggingface/hub";
import { stampOf } from "../../kit/files/index.js";
import { CancelledError, HubError, isAnySystemError, LayergraftError } from "../../kit/index.js";
import { formatSome, shorten } from "../../kit/printing/index.js";
import { isCommit } from "./cache.js";
import { listRepository } from "./listing.js";
import { beginHash, type HubFile } from "./ranges.js";
import { hubFetch, networkReason, type RequestOptions, reasonOf, statusOf } from "./requests.js";
import type { HubSettings } from "./settings.js";
import { type OnUpload, seldom, UploadProgress } from "./upload-progress.js";

export interface UploadFile {
  /** Path in the repository. */
  readonly path: string;
  /** Path of a file on this machine, or the bytes. */
  readonly content: string | Uint8Array;
  readonly bytes: number;
}

interface Target extends RequestOptions {
  /** `organisation/name`. */
  readonly name: string;
}

export interface UploadOptions extends Target {
  /** Default `main`; created if missing. */
  readonly branch?: string | undefined;
  /** Create the repository as private. Default false. */
  readonly private?: boolean | undefined;
  /** Title of the commit. */
  readonly message: string;
  readonly files: readonly UploadFile[];
  /** Whether a file of the repository that is not among `files` would be wrong beside them, so that it is removed. */
  readonly isStale?: ((path: string) => boolean) | undefined;
  /** Send nothing. Default false. */
  readonly dryRun?: boolean | undefined;
  /** Called at most ten times a second, and at the start and end of each phase. */
  readonly onProgress?: OnUpload | undefined;
}

export interface UploadResult {
  /** Page of the repository, or of its branch. */
  readonly url: string;
  /** The commit; the branch's last one if nothing changed, null in a dry run. */
  readonly commit: string | null;
  /** Whether the repository was created, or would be; null in a dry run that could not ask the hub. */
  readonly created: boolean | null;
  /** Paths of the files that were sent. */
  readonly sent: readonly string[];
  /** Paths of the files that were there already. */
  readonly unchanged: readonly string[];
  /** Paths of the stale files that were removed. */
  readonly removed: readonly string[];
  /** Size of the files in `sent`. */
  readonly bytes: number;
}

/** A token, and the requests that send it; none in a dry run without one. */
interface Access {
  readonly token: `hf_${string}` | undefined;
  readonly request: { readonly hubUrl: string; readonly fetch: typeof fetch };
}

/**
 * Checks that the token may write to a namespace.
 * @throws HubError if there is no token, it may not write, or the namespace is someone else's
 */
export async function checkUploadAccess(settings: HubSettings, options: Target): Promise<void> {
  await attempt(settings, options, () => openAccess(settings, options), "check");
}

async function openAccess(settings: HubSettings, options: Target & Pick<UploadOptions, "dryRun">): Promise<Access> {
  const { endpoint, token, offline } = settings;
  const { name } = options;
  const create = `Create a token with write access at ${endpoint}/settings/tokens and set HF_TOKEN to it.`;
  if (offline) throw new HubError(`HF_HUB_OFFLINE is set, so ${name} cannot be pushed. Unset it.`);
  const request = { hubUrl: endpoint, fetch: hubFetch(settings, options) };
  if (token === undefined && options.dryRun) return { token, request };
  if (token === undefined) throw new HubError(`Pushing to ${name} needs a token. ${create}`);
  if (!token.startsWith("hf_")) throw new HubError(`The token does not begin with hf_. ${create}`);
  const { whoAmI } = await import("@huggingface/hub");
  const account = await whoAmI({ ...request, accessToken: token }).catch((error: unknown) => {
    if (statusOf(error) === 401) throw new HubError(`${endpoint} does not know the token. ${create}`, {}, error);
    throw error;
  });
  if (account.auth.accessToken?.role === "read") throw new HubError(`The token can only read. ${create}`);
  const [namespace = ""] = name.split("/");
  const organizations = account.type === "user" ? account.orgs.map((org) => org.name) : [];
  // An application's token names no account; the hub decides.
  if (account.type !== "app" && account.name !== namespace && !organizations.includes(namespace)) {
    const others =
      organizations.length > 0 ? `, nor one of your organizations (${formatSome(organizations.map(shorten))})` : "";
    const own = shorten(account.name);
    throw new HubError(
      `${name} cannot be pushed: ${namespace} is not your account (${own})${others}. Choose another name, such as ${own}/${name.split("/")[1]}.`,
    );
  }
  return { token: token as Access["token"], request };
}

/**
 * Uploads files as one commit, and creates the repository and the branch where they are missing. Files are streamed.
 * Large files that an earlier, interrupted upload sent are not sent again.
 * @throws HubError if the hub refuses, cannot be reached, or the branch changes meanwhile
 * @throws CancelledError when the signal fires
 */
export async function uploadFiles(settings: HubSettings, options: UploadOptions): Promise<UploadResult> {
  if (options.dryRun && settings.offline) return unasked(settings, options);
  return attempt(settings, options, async () => {
    const access = await openAccess(settings, options);
    return upload(settings, access, { ...options, onProgress: seldom(options.onProgress) }).catch((error: unknown) => {
      if (options.dryRun && networkReason(error, settings) !== undefined) return unasked(settings, options);
      throw error;
    });
  });
}

/** What a dry run says without a network: every file, as what is there is not known. */
function unasked({ endpoint }: HubSettings, options: UploadOptions): UploadResult {
  const { files } = options;
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  const sent = files.map(({ path }) => path);
  return { url: urlOf(endpoint, options), created: null, sent, unchanged: [], removed: [], bytes, commit: null };
}

/** The page of a repository or of its branch. */
const urlOf = (endpoint: string, { name, branch = "main" }: Pick<UploadOptions, "name" | "branch">) =>
  `${endpoint}/${name}${branch === "main" ? "" : `/tree/${branch}`}`;

async function upload(settings: HubSettings, access: Access, options: UploadOptions): Promise<UploadResult> {
  const { endpoint } = settings;
  const { createBranch, createRepo } = await import("@huggingface/hub");
  const { name, branch = "main", private: isPrivate = false, files, isStale, dryRun = false } = options;
  const { request } = access;
  const repo = { type: "model" as const, name };
  const known = await infoOf(access, name);
  if (known && !known.private && isPrivate) {
    throw new HubError(
      `${name} exists and is public, but should be private. Make it private at ${endpoint}/${name}/settings`,
      { option: "private" },
    );
  }
  const created = known === undefined;
  if (created && !dryRun) {
    const visibility = isPrivate ? { visibility: "private" as const } : {};
    // 409: another push was first, or the reply to the first attempt was lost.
    await createRepo({ ...request, ...visibility, repo, ...(access.token ? { accessToken: access.token } : {}) }).catch(
      ignoreStatus(409),
    );
  }
  let head = created && dryRun ? undefined : await headOf(access, name, branch);
  if (head === undefined && !dryRun) {
    await createBranch({ ...request, repo, branch }).catch(ignoreStatus(409));
    head = await headOf(access, name, branch);
  }
  const there =
    head === undefined ? new Map<string, HubFile>() : await listRepository({ ...request, repo, revision: head });
  const unchanged = await unchangedFiles(files, there, options);
  const sent = files.filter(({ path }) => !unchanged.has(path));
  const paths = new Set(files.map(({ path }) => path));
  const removed = [...there.keys()].filter((path) => !paths.has(path) && isStale?.(path));
  const result = {
    url: urlOf(endpoint, options),
    created,
    sent: sent.map(({ path }) => path),
    unchanged: [...unchanged],
    removed,
    bytes: sent.reduce((sum, { bytes }) => sum + bytes, 0),
  };
  if (dryRun) return { ...result, commit: null };
  if (sent.length + removed.length === 0) return { ...result, commit: head ?? null };
  return { ...result, commit: await commit(settings, access, options, sent, removed, head) };
}

const ignoreStatus =
  (...statuses: readonly number[]) =>
  (error: unknown) => {
    if (!statuses.includes(statusOf(error) ?? 0)) throw error;
    return undefined;
  };

/** What the hub says of a repository or a branch of it; undefined if it does not exist, or is hidden without a token. */
async function infoOf({ request, token }: Access, name: string, branch: { readonly revision?: string } = {}) {
  const { modelInfo } = await import("@huggingface/hub");
  return modelInfo({ ...request, name, ...branch, additionalFields: ["sha" as const] }).catch(
    ignoreStatus(404, ...(token === undefined ? [401] : [])),
  );
}

async function headOf(access: Access, name: string, branch: string): Promise<string | undefined> {
  const found = await infoOf(access, name, { revision: branch });
  if (found === undefined || isCommit(String(found.sha))) return found?.sha;
  throw new HubError(`the Hub does not name the commit of ${name} (${branch})`);
}

async function unchangedFiles(
  files: readonly UploadFile[],
  there: ReadonlyMap<string, HubFile>,
  { signal, onProgress }: UploadOptions,
): Promise<Set<string>> {
  const candidates = files.filter(({ path, bytes }) => there.get(path)?.size === bytes);
  const total = candidates.reduce((sum, { bytes }) => sum + bytes, 0);
  const unchanged = new Set<string>();
  let done = 0;
  for (const { path, content } of candidates) {
    const listed = there.get(path) as HubFile;
    const hash = beginHash(listed);
    for await (const chunk of typeof content === "string" ? createReadStream(content) : [content]) {
      signal?.throwIfAborted();
      hash.update(chunk as Uint8Array);
      done += (chunk as Uint8Array).length;
      onProgress?.({ phase: "comparing", done, total, unit: "bytes" });
    }
    if (hash.digest("hex") === listed.hash) unchanged.add(path);
  }
  return unchanged;
}

async function commit(
  settings: HubSettings,
  { request }: Access,
  { name, branch = "main", message, signal, onProgress }: UploadOptions,
  sent: readonly UploadFile[],
  removed: readonly string[],
  head: string | undefined,
): Promise<string> {
  const { commitIter } = await import("@huggingface/hub");
  signal?.throwIfAborted();
  const progress = new UploadProgress(sent, onProgress);
  const stamps = await Promise.all(sent.map(stampOfFile));
  // Ends the other uploads when one fails.
  const ended = new AbortController();
  const steps = commitIter({
    ...request,
    fetch: afterProgress(progress.counting(request.fetch)),
    repo: { type: "model", name },
    branch,
    title: message,
    // A push meanwhile would mix two models, as files that did not change are not sent.
    ...(head === undefined ? {} : { parentCommit: head }),
    abortSignal: AbortSignal.any([ended.signal, ...(signal ? [signal] : [])]),
    operations: [
      ...sent.map(({ path, content }) => ({
        operation: "addOrUpdate" as const,
        path,
        content: typeof content === "string" ? pathToFileURL(content) : new Blob([content as Uint8Array<ArrayBuffer>]),
      })),
      ...removed.map((path) => ({ operation: "delete" as const, path })),
    ],
  });
  try {
    const made = await lastOf(steps, progress, settings);
    const now = await Promise.all(sent.map(stampOfFile));
    const changed = sent.find((_, i) => now[i] !== stamps[i]);
    if (changed) throw new HubError(`${changed.path} changed while it was pushed. Push ${name} again.`);
    return made;
  } finally {
    ended.abort();
  }
}

const stampOfFile = ({ content }: UploadFile) => (typeof content === "string" ? stampOf(content) : undefined);

async function lastOf(steps: ReturnType<typeof commitIter>, progress: UploadProgress, settings: HubSettings) {
  for (;;) {
    const step = await steps.next().catch((error: unknown) => {
      throw isKnown(error, settings)
        ? error
        : new HubError(
            `the Hub's answer cannot be used: ${reasonOf(error, settings)}. Push again, or try another HF_ENDPOINT.`,
            {},
            error,
          );
    });
    if (step.done) return step.value?.commit.oid ?? "";
    progress.take(step.value);
  }
}

/**
 * A fetch that settles when all progress before it was read: @huggingface/hub loses an error that comes earlier, and would
 * wait without end.
 */
function afterProgress(send: typeof fetch): typeof fetch {
  return async (input, init) => {
    try {
      return await send(input, init);
    } finally {
      await setImmediate();
    }
  };
}

/** Whether an error has a message or a status of its own. @huggingface/hub throws others for answers that it did not expect. */
function isKnown(error: unknown, settings: HubSettings): boolean {
  const isOurs = error instanceof LayergraftError || isAnySystemError(error);
  return isOurs || statusOf(error) !== undefined || networkReason(error, settings) !== undefined;
}

/** Runs requests of an upload, and explains their errors. */
async function attempt<T>(
  settings: HubSettings,
  { name, signal, dryRun = false }: Target & Pick<UploadOptions, "dryRun">,
  work: () => Promise<T>,
  stage: Stage = dryRun ? "dry run" : "upload",
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (signal?.aborted) throw new CancelledError(`stopped while pushing ${name}; run again to push what is missing`);
    throw explainUpload(error, settings, name, stage);
  }
}

/** What failed: the question, before the work, whether its result may be pushed, or the push. */
type Stage = "check" | "dry run" | "upload";

function explainUpload(error: unknown, settings: HubSettings, name: string, stage: Stage): unknown {
  if (error instanceof LayergraftError) return error;
  const { endpoint } = settings;
  // What the storage refuses, such as an address that has expired, is not about the token.
  const isStorage = error instanceof Error && "url" in error && !String(error.url).startsWith(`${endpoint}/`);
  const status = isStorage ? 500 : statusOf(error);
  const said = reasonOf(error, settings);
  const because = (sentence: string) => new HubError(sentence, {}, error);
  if (status === 401 || status === 403) {
    return because(
      `The token may not write to ${name}. Give it write access at ${endpoint}/settings/tokens; for a gated repository, ask its owner first. The Hub says: ${said}`,
    );
  }
  if (status === 409 || status === 412) {
    return because(`${name} was changed by someone else during the push. Push again.`);
  }
  if (status === 429) {
    return because(
      `${endpoint} limits how often it answers and refused to take ${name}. Wait some minutes, then push again.`,
    );
  }
  if (status !== undefined && status < 500) return because(`${endpoint} refused ${name}: ${said}`);
  const network = networkReason(error, settings);
  if (status === undefined && network === undefined) return error;
  const why = network ?? said;
  const sentences: Readonly<Record<Stage, string>> = {
    check: `${endpoint} could not be asked whether ${name} may be pushed to: ${why}. Nothing was done; leave the push out, and push the result later.`,
    "dry run": `${name} could not be read at ${endpoint}: ${why}. Nothing was sent.`,
    upload: `${name} could not be pushed to ${endpoint}: ${why}. Push again; what was sent is not sent again.`,
  };
  return because(sentences[stage]);
}
