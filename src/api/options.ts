import type { CallOptions } from "../core/index.js";
import type { HubAccess, SourceOptions } from "../weights/index.js";

/** Options of calls that take paths. */
export type FolderOptions = Pick<SourceOptions, "folder">;

/** Access to the hub for sources that are not on this machine: weights are streamed, unless a call downloads them. */
export function hubOf({ signal }: Pick<CallOptions, "signal">): HubAccess {
  return { fetch: "stream", signal };
}
