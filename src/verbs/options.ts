import type { HubAccess, SourceOptions } from "../formats/checkpoint/index.js";
import type { CallOptions } from "../kit/index.js";

/** Options of calls that take paths. */
export type FolderOptions = Pick<SourceOptions, "folder">;

/** Access to the hub for sources that are not on this machine: weights are streamed, unless a call downloads them. */
export function hubOf({ signal }: Pick<CallOptions, "signal">): HubAccess {
  return { fetch: "stream", signal };
}
