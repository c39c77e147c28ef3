// Writes a planned GGUF file: blends and encodes tensors in one streaming pass, with the journal of merges.
import { open, stat } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import {
  CancelledError,
  DiskFullError,
  exists,
  formatSome,
  LayergraftError,
  OutputError,
  plural,
} from "../../core/index.js";
import {
  type Measured,
  measureAll,
  OutputFolder,
  packBits,
  packMeasured,
  Resolver,
  type RunState,
  unpackBits,
  unpackMeasured,
} from "../../values/index.js";
import {
  cutIntoPieces,
  type EncodeJob,
  type Program,
  requireUnchanged,
  resultsByJob,
  runProgram,
  type StreamOptions,
} from "../../weights/index.js";
import type { GgufPlan } from "./plan-gguf.js";

/** Options of `writeGguf`. */
export interface WriteGgufOptions extends StreamOptions {
  /** File or folder to write; it appears when it is complete. */
  readonly out: string;
  /** Replace an existing export or interrupted run. Default: false. */
  readonly force?: boolean | undefined;
  /** GGUF: resume an interrupted run; start from the beginning if there is none. Default: false. */
  readonly resume?: boolean | undefined;
}

export interface WrittenGguf {
  /** Absolute path of the file. */
  readonly out: string;
  readonly bytes: number;
  /** Whether an interrupted run was resumed. */
  readonly resumed: boolean;
  /** Such as values that exceeded float16. */
  readonly warnings: readonly string[];
}

// The file in the partial folder.
const FILE = "model.gguf";

/**
 * Writes a planned file. The bytes do not depend on threads or memory. A run that is stopped leaves `OUT.partial`, which
 * `resume` completes to the same bytes.
 * @throws OutputError if it cannot be written there, or the disk fills up
 * @throws CancelledError if the signal fires
 * @throws LayergraftError code `broken-model` if a tensor has values that a block format cannot hold; code `changed` if a
 *   source changes during the run
 */
export async function writeGguf(plan: GgufPlan, options: WriteGgufOptions): Promise<WrittenGguf> {
  const folder = new OutputFolder(options.out);
  const earlier = await earlierRun(plan, folder, options);
  await checkPlace(plan, folder, options);
  await folder.open({ resume: earlier !== undefined });
  try {
    const warnings = await fill(plan, folder, earlier, options);
    await folder.commitFile(FILE, { replace: options.force ?? false });
    return { out: folder.path, bytes: plan.layout.bytes, resumed: earlier !== undefined, warnings };
  } catch (error) {
    const isUseless = error instanceof LayergraftError && ["changed", "mismatch", "broken-model"].includes(error.code);
    throw explain(error, folder, await folder.abandon(isUseless));
  }
}

async function earlierRun(
  plan: GgufPlan,
  folder: OutputFolder,
  { resume = false, force = false }: WriteGgufOptions,
): Promise<RunState | undefined> {
  const left = await folder.hasPartial(plan.digest);
  if (!left || (force && !resume)) return undefined;
  await folder.requireUnlocked();
  const { partial, path } = folder;
  if (!resume) {
    throw new OutputError(
      `${partial} holds an interrupted run. Pass --resume to continue it, or --force to discard it.`,
      { file: partial },
    );
  }
  const state = await folder.state();
  if (state === undefined || state.plan === plan.digest) return state;
  throw new OutputError(
    `${partial} was started with another model or other options, so it cannot become ${path}. Repeat the options of that run, or pass --force to discard it.`,
    { file: partial },
  );
}

async function checkPlace(
  { source, layout }: GgufPlan,
  folder: OutputFolder,
  { force = false, resume = false }: WriteGgufOptions,
): Promise<void> {
  const { path } = folder;
  const inputs = [...source.sources.values()].flatMap(({ files }) => files.map((file) => resolve(file.path)));
  if (inputs.includes(path)) {
    throw new OutputError(`the output ${path} is one of the inputs. Choose another --out.`, { file: path });
  }
  const parent = dirname(path);
  if (!(await exists(parent))) {
    throw new OutputError(`${parent} does not exist, so ${path} cannot be created. Create it first.`, { file: path });
  }
  const taken = await stat(path).catch(() => undefined);
  if (taken?.isDirectory()) {
    throw new OutputError(`${path} is a folder. Pass --out with the name of a file, such as ${path}/model.gguf.`, {
      file: path,
    });
  }
  if (taken && !taken.isFile()) {
    throw new OutputError(`${path} is not a regular file. Choose another --out.`, { file: path });
  }
  if (taken && !force) {
    const state = resume ? "is complete, so there is nothing to resume" : "already exists";
    const message = `${path} ${state}. Pass --force to replace it, or choose another --out.`;
    throw new OutputError(message, { file: path, option: "force" });
  }
  await folder.checkSpace(layout.bytes);
}

/** Writes the file into the partial folder; returns warnings. */
async function fill(
  plan: GgufPlan,
  folder: OutputFolder,
  earlier: RunState | undefined,
  { threads, memory, signal, onProgress }: WriteGgufOptions,
): Promise<string[]> {
  const bounds = { threads, memory, signal, onProgress };
  const { source, layout, computed } = plan;
  const state: RunState = { plan: plan.digest, inputs: {}, measured: earlier?.measured ?? {}, done: "" };
  const measured = await measureAll(source.measurements, source.sources, {
    ...bounds,
    known: unpackMeasured(state.measured),
    onMeasured: (values) => folder.saveState({ ...state, measured: packMeasured(values) }),
  });
  const { path, wasThere } = await folder.prepareShard({
    name: FILE,
    header: layout.header,
    bytes: layout.bytes,
    tensors: [],
  });
  const program = compile(plan, measured, path);
  const pieces = cutIntoPieces(program.jobs).length;
  const current = { ...state, measured: packMeasured(measured), done: (wasThere && earlier?.done) || "" };
  const handle = await open(path, "r+");
  try {
    for (const [i, { values }] of computed.entries()) {
      const bytes = Buffer.from(values.buffer, values.byteOffset, values.byteLength);
      await handle.write(bytes, 0, bytes.byteLength, layout.offsets[i]);
    }
    await folder.saveState(current);
    const outcome = await runProgram(program, {
      ...bounds,
      phase: "reading and writing",
      done: unpackBits(current.done, pieces),
      onCheckpoint: async (done) => {
        await handle.datasync();
        await folder.saveState({ ...current, done: packBits(done) });
      },
    });
    await requireUnchanged(source.sources.values(), "the file would mix old and new. Run it again.");
    const broken = resultsByJob(outcome, program.jobs.length).map((list) =>
      list.reduce((sum, piece) => sum + (piece[0] ?? 0), 0),
    );
    return overflowWarnings(plan, broken);
  } finally {
    await handle.close();
  }
}

function compile({ source, tensors, computed, layout }: GgufPlan, measured: Measured, path: string): Program {
  const resolver = new Resolver(source.sources, measured);
  const jobs = tensors.map(({ name, step, divisor, plus, interleave, encoding }, i): EncodeJob => {
    const value = resolver.evaluation(step.value);
    return {
      kind: "encode",
      name,
      value: divisor === 1 ? value : { ...value, divisor: value.divisor * divisor },
      to: { file: 0, offset: layout.offsets[computed.length + i] as number },
      encoding,
      ...(plus === 0 ? {} : { plus }),
      ...(interleave === undefined ? {} : { interleave }),
    };
  });
  return { inputs: resolver.inputs, outputs: [path], jobs };
}

/** @param broken by tensor, how many values or scales are not finite */
function overflowWarnings({ tensors, source }: GgufPlan, broken: readonly number[]): string[] {
  const some = tensors.filter((_, i) => (broken[i] ?? 0) > 0);
  const blocks = some.filter(({ encoding }) => encoding !== "F16");
  if (blocks.length > 0) {
    throw new LayergraftError(
      "broken-model",
      `${source.name} has values that are not finite or too large in ${formatSome(blocks.map(({ name }) => name))}. Find the broken weights with layergraft analyze.`,
    );
  }
  if (some.length === 0) return [];
  const values = broken.reduce((sum, count) => sum + count, 0);
  const named = formatSome(some.map(({ name }) => name));
  return [
    `${plural(values, "value")} in ${plural(some.length, "tensor")} (${named}) exceed the range of float16 and became infinite. Use --type bf16.`,
  ];
}

/** Adds to an error what is on disk and how to resume. */
function explain(error: unknown, { partial, path }: OutputFolder, isResumable: boolean): unknown {
  const left = isResumable
    ? `what was written so far is in ${partial}; repeat the command with --resume to continue`
    : "nothing was written";
  if (error instanceof CancelledError) return new CancelledError(`stopped; ${left}`, { file: path });
  if (error instanceof DiskFullError || DiskFullError.isMeantBy(error)) {
    const rest = isResumable ? "then pass --resume to continue" : "then start again";
    return new DiskFullError(`the disk is full; free some space, ${rest}`, { file: path }, error);
  }
  return error;
}
