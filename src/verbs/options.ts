import type { HubAccess, SourceOptions } from "../formats/checkpoint/index.js";
import type { CallOptions } from "../kit/index.js";

/** Options of calls that read models. */
export interface FolderOptions extends Pick<SourceOptions, "folder"> {
  /** How models on the hub are read. Default: their weights are streamed, or downloaded to run them. */
  readonly hub?: HubAccess | undefined;
}

/** Access to the hub for sources that are not on this machine. */
export function hubOf({ hub, signal }: Pick<FolderOptions, "hub"> & Pick<CallOptions, "signal">): HubAccess {
  return hub ?? { fetch: "stream", signal };
}
