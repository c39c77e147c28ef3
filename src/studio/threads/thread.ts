import { createRequire } from "node:module";
import { Worker } from "node:worker_threads";
import { Answerer } from "../../kit/index.js";
import type { Progress } from "../protocol/index.js";

export type ThreadEvent =
  | { readonly type: "progress"; readonly progress: Progress }
  | { readonly type: "text"; readonly stream: string; readonly text: string };

export type Thread = Answerer<Readonly<Record<string, (input: object) => unknown>>, ThreadEvent>;

/** A thread that answers as threads/worker.ts says, until it is ended. */
export const openThread = (): Thread =>
  new Answerer(new Worker(createRequire(import.meta.url).resolve("#studio-thread")));
