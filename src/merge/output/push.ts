import { basename, resolve } from "node:path";
import { checkUploadAccess, hubSettings, isHubName, type UploadResult, uploadFiles } from "../../formats/hub/index.js";
import { type CallOptions, usageError, VERSION } from "../../kit/index.js";
import { publishedFiles } from "./published-files.js";

export interface PushTarget {
  /** Repository on the hub, such as `org/name`; created if missing. */
  readonly name: string;
  /** Create the repository as private; an existing public one is an error. Default: false. */
  readonly private?: boolean | undefined;
  /** Branch to push to, created if missing. Default: `main`. */
  readonly branch?: string | undefined;
}

export interface PushOptions extends PushTarget, CallOptions {
  /** Title of the commit. Default: names the folder and layergraft's version. */
  readonly message?: string | undefined;
  /** Send nothing, and return what would be sent. Default: false. */
  readonly dryRun?: boolean | undefined;
  /** Milliseconds before the first retry, doubled each time. Default: 500. */
  readonly retryDelay?: number | undefined;
  /** Milliseconds without an answer after which a request fails; ten times as many for a file. Default: 30,000. */
  readonly timeout?: number | undefined;
}

/** What was pushed. */
export interface PushResult extends UploadResult {
  /** Files and folders that are not part of a model, so that they were not sent. */
  readonly leftOut: readonly string[];
}

/**
 * Checks that a token is there that may write to the target, so that a merge need not fail at its end.
 * @throws HubError if not
 * @throws LayergraftError if it cannot be the name of a repository or a branch
 */
export async function checkPush(target: PushTarget, signal?: AbortSignal): Promise<void> {
  checkNames(target);
  await checkUploadAccess(await hubSettings(), { name: target.name, signal });
}

function checkNames({ name, branch = "main" }: PushTarget): void {
  if (!isHubName(name)) throw usageError(`${JSON.stringify(name)} is not the name of a repository, such as org/name`);
  if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(branch) || branch.includes(".."))
    throw usageError(`${JSON.stringify(branch)} is not the name of a branch`);
}

/**
 * Pushes a folder as one commit: the weights and a listed set of files beside them, without paths of this machine.
 * Repository and branch are created if missing. Files that are there with the same hash are not sent.
 * @throws HubError if the hub refuses or cannot be reached
 * @throws CheckpointError if the folder is not a complete model or adapter
 * @throws FormatError if a weight file is broken
 * @throws CancelledError if the signal fires
 */
export async function pushFolder(folder: string, options: PushOptions): Promise<PushResult> {
  const { message = `Push ${basename(resolve(folder))} with layergraft ${VERSION}`, ...rest } = options;
  checkNames(options);
  if (message.trim() === "") throw usageError("the message of the commit is empty");
  const { leftOut, ...published } = await publishedFiles(folder);
  const result = await uploadFiles(await hubSettings(), {
    ...rest,
    ...published,
    message,
  });
  return { ...result, leftOut };
}
