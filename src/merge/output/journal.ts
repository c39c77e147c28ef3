// The journal of a run: what is measured and written so far, from which an interrupted merge is resumed.

import { open } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { exists, RunFolder, readJsonObject, writeFileAtomically } from "../../kit/files/index.js";
import { LayergraftError } from "../../kit/index.js";
import { formatBytes, plural } from "../../kit/printing/index.js";
import { recordOf } from "../../kit/settings/index.js";
import type { Sources } from "../../tensor/expressions/index.js";
import { packBits, packedMeasured, packMeasured, unpackBits, unpackMeasured } from "../../tensor/expressions/index.js";
import { factorsOf, type Measurement, type MeasureOptions, measureAll } from "../../tensor/measurements/index.js";
import {
  cutIntoPieces,
  type Program,
  type RunResult,
  runProgram,
  type StreamOptions,
} from "../../tensor/streaming/index.js";

const runState = z.lazy(() =>
  z.object({
    /** Digest of the output; only a run with the same digest can resume. */
    plan: z.string(),
    /** Modification times of the input files. */
    inputs: recordOf(z.number()),
    /** Commits of the sources on the hub, as `HubAccess.pins`. */
    pins: recordOf(z.string()).optional(),
    /** Measured values by measurement id. */
    measured: packedMeasured,
    /** Finished pieces of the program, one bit each, base64; empty before the first. */
    done: z.string(),
  }),
);

export type RunState = Readonly<z.output<typeof runState>>;

export const JOURNAL_FILE = ".layergraft-run.json";

/**
 * Bytes of layergraft.json and of a journal, which have what was measured; V8 has no longer strings. A plan of 70,000 tensors
 * (a mixture of experts) with an operation each takes about 300 MB.
 */
export const MAX_PROVENANCE_BYTES = 500_000_000;

/** Fewer tensors than this have a short plan. */
const MANY_STEPS = 10_000;

/**
 * Checks that a file can record a plan and what is measured for it, before anything is measured.
 * @param file its name
 * @throws LayergraftError code `memory` if not
 */
export function requireRecordable(
  file: string,
  { steps = [], measurements }: { readonly steps?: readonly object[]; readonly measurements: readonly Measurement[] },
  most = MAX_PROVENANCE_BYTES,
): void {
  const ofSteps = steps.length < MANY_STEPS ? 0 : steps.reduce((sum, step) => sum + JSON.stringify(step).length, 0);
  const factors = measurements.reduce((sum, one) => sum + factorsOf(one), 0);
  const bytes = ofSteps + Math.ceil((factors * 4) / 3) * 4;
  if (bytes <= most) return;
  const kept = [...(steps.length > 0 ? [plural(steps.length, "tensor")] : []), `${plural(factors, "measured factor")}`];
  throw new LayergraftError(
    "memory",
    `${file} would have ${formatBytes(bytes)} for ${kept.join(" and ")}; it may have ${formatBytes(most)}. Choose a method that measures less, or merge fewer tensors.`,
    { expected: `at most ${most} bytes`, actual: `${bytes} bytes` },
  );
}

export class Journal {
  readonly #file: string;

  /** @param partial the unfinished folder of the run */
  constructor(partial: string) {
    this.#file = join(partial, JOURNAL_FILE);
  }

  /** What an interrupted run has left; undefined if nothing, or it cannot be read. */
  async read(): Promise<RunState | undefined> {
    return runState.safeParse(await readJsonObject(this.#file, MAX_PROVENANCE_BYTES).catch(() => undefined)).data;
  }

  isThere(): Promise<boolean> {
    return exists(this.#file);
  }

  async write(state: RunState): Promise<void> {
    await writeFileAtomically(this.#file, JSON.stringify(state));
  }

  /** Measures what is left to measure, and keeps each value for a later run. */
  measure(measurements: readonly Measurement[], sources: Sources, state: RunState, options: MeasureOptions) {
    return measureAll(measurements, sources, {
      ...options,
      known: unpackMeasured(state.measured),
      onMeasured: (values) => this.write({ ...state, measured: packMeasured(values), done: "" }),
    });
  }

  /** Runs what is left of a program, and keeps which pieces are done for a later run. */
  async run(program: Program, state: RunState, options: StreamOptions): Promise<RunResult> {
    await this.write(state);
    const handles = await Promise.all(program.outputs.map((path) => open(path, "r+")));
    try {
      return await runProgram(program, {
        ...options,
        phase: "reading and writing",
        done: unpackBits(state.done, cutIntoPieces(program.jobs).length),
        // Data before journal: the journal must never be ahead, even after a power cut.
        onCheckpoint: async (done) => {
          for (const handle of handles) await handle.datasync();
          await this.write({ ...state, done: packBits(done) });
        },
      });
    } finally {
      await Promise.all(handles.map((handle) => handle.close()));
    }
  }
}

/**
 * The commits that an interrupted run read from the hub, for `HubAccess.pins`; none if there is no such run.
 * @param out folder that the run was to write
 */
export async function pinsOfRun(out: string): Promise<Map<string, string>> {
  const state = await new Journal(new RunFolder(out).partial).read();
  return new Map(Object.entries(state?.pins ?? {}));
}
