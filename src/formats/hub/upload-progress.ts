// Progress of the files of a commit, as bytes of all of them.

import type { Progress } from "../../kit/index.js";

/** Called with bytes of the files that are compared, hashed or sent. */
export type OnUpload = (progress: Progress) => void;

/**
 * A blob that reports the bytes that are read of it, each time it is read. The fetch of Node.js does not say what is sent.
 * @param onBytes called with the bytes of each part, and of all since the start
 */
export function countedBody(blob: Blob, onBytes: (bytes: number, done: number) => void): Blob {
  const stream = () => {
    let done = 0;
    const count = new TransformStream<Uint8Array, Uint8Array>({
      transform: (chunk, controller) => {
        done += chunk.length;
        onBytes(chunk.length, done);
        controller.enqueue(chunk);
      },
    });
    return blob.stream().pipeThrough(count);
  };
  return Object.defineProperties(new Blob([]), { size: { value: blob.size }, stream: { value: stream } });
}

/** What @huggingface/hub gives to fetch with the content of a large file. */
interface ProgressHint {
  /** The same one for all parts of a file. */
  readonly progressCallback: (share: number) => void;
  /** Index of a part; missing for a whole file. */
  readonly part?: number;
  readonly numParts?: number;
}

const PROGRESS_MS = 100;

/** Passes on ten states a second, and the first and last of each phase. */
export function seldom(report: OnUpload | undefined): OnUpload | undefined {
  let [phase, next] = ["", 0];
  return (
    report &&
    ((state) => {
      const now = performance.now();
      if (state.phase === phase && state.done < state.total && now < next) return;
      [phase, next] = [state.phase, now + PROGRESS_MS];
      report(state);
    })
  );
}

/** `CommitProgressEvent` of @huggingface/hub, whose declarations do not compile without those of browsers. */
type CommitEvent =
  | { readonly event: "phase"; readonly phase: string }
  | {
      readonly event: "fileProgress";
      readonly path: string;
      readonly progress: number;
      readonly state: "hashing" | "uploading" | "error";
    };

export class UploadProgress {
  readonly #sizes: ReadonlyMap<string, number>;
  readonly #report: OnUpload | undefined;
  readonly #total: number;
  #phase = "";
  readonly #shares = new Map<string, number>();

  constructor(files: readonly { readonly path: string; readonly bytes: number }[], report: OnUpload | undefined) {
    this.#sizes = new Map(files.map(({ path, bytes }) => [path, bytes]));
    this.#report = report;
    this.#total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  take(event: CommitEvent): void {
    // The small files are in the commit itself.
    if (event.event === "phase" && event.phase === "committing") {
      this.#report?.({ phase: "uploading", done: this.#total, total: this.#total, unit: "bytes" });
    }
    if (event.event !== "fileProgress" || event.state === "error") return;
    if (event.state !== this.#phase) this.#shares.clear();
    this.#phase = event.state;
    this.#shares.set(event.path, event.progress);
    const done = [...this.#shares].reduce((sum, [path, share]) => sum + share * (this.#sizes.get(path) ?? 0), 0);
    this.#report?.({ phase: this.#phase, done: Math.round(done), total: this.#total, unit: "bytes" });
  }

  /** A fetch that reports how much of a body is sent, which that of Node.js does not. */
  counting(send: typeof fetch): typeof fetch {
    const shares = new WeakMap<object, number[]>();
    return (input, init) => {
      const { progressHint: hint } = (init ?? {}) as { progressHint?: ProgressHint };
      if (!hint || !(init?.body instanceof Blob)) return send(input, init);
      const parts = shares.get(hint.progressCallback) ?? [];
      shares.set(hint.progressCallback, parts);
      const { size } = init.body;
      const body = countedBody(init.body, (_, done) => {
        parts[hint.part ?? 0] = done / size;
        hint.progressCallback(parts.reduce((sum, one) => sum + one, 0) / (hint.numParts ?? 1));
      });
      // Otherwise fetch keeps the whole body, to send it again after a redirect.
      return send(input, { ...init, body, redirect: "error", window: null });
    };
  }
}
