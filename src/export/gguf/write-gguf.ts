// Writes a planned GGUF file: blends and encodes tensors in one streaming pass, with the journal of merges.
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { requireUnchanged } from "../../formats/checkpoint/index.js";
import { encodedBytes } from "../../kernels/index.js";
import { requireOutside, withFile, writeFully } from "../../kit/files/index.js";
import { OutputError } from "../../kit/index.js";
import type { Step } from "../../merge/index.js";
import {
  JOURNAL_FILE,
  OutputFolder,
  type RunState,
  requireEncodable,
  requireRecordable,
} from "../../merge/output/index.js";
import { type Measured, packMeasured, Resolver } from "../../tensor/expressions/index.js";
import { type EncodeJob, type Program, remembered, type StreamOptions } from "../../tensor/streaming/index.js";
import type { GgufPlan } from "./plan-gguf.js";
import { elementsOfPart } from "./planned-tensors.js";

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
  readonly warnings: readonly string[];
}

// The file in the partial folder.
const FILE = "model.gguf";

/**
 * Writes a planned file. The bytes do not depend on threads or memory. A run that is stopped leaves `OUT.partial`, which
 * `resume` completes to the same bytes.
 * @throws OutputError if it cannot be written there, or the disk fills up
 * @throws CancelledError if the signal fires
 * @throws LayergraftError code `broken-model` if a tensor has values that are not finite in its encoding; code `changed` if a
 *   source changes during the run
 */
export async function writeGguf(plan: GgufPlan, options: WriteGgufOptions): Promise<WrittenGguf> {
  const folder = new OutputFolder(options.out);
  const earlier = await folder.earlierRun(plan.digest, options);
  await checkPlace(plan, folder, options);
  await folder.open({ resume: earlier !== undefined });
  try {
    await fill(plan, folder, earlier, options);
    await folder.commitFile(FILE, { replace: options.force ?? false });
    return {
      out: folder.path,
      bytes: plan.layout.bytes,
      resumed: earlier !== undefined,
      warnings: folder.notes,
    };
  } catch (error) {
    throw await folder.abandon(error);
  }
}

async function checkPlace(
  { source, layout }: GgufPlan,
  folder: OutputFolder,
  { force = false, resume = false }: WriteGgufOptions,
): Promise<void> {
  const { path } = folder;
  await folder.requireParent();
  const taken = await stat(path).catch(() => undefined);
  if (taken?.isDirectory()) {
    throw new OutputError(`${path} is a folder. Name a file, such as ${path}/model.gguf`, {
      file: path,
      option: "out",
    });
  }
  if (taken && !taken.isFile()) {
    throw new OutputError(`${path} is not a regular file`, { file: path, option: "out" });
  }
  const checkpoints = [...source.sources.values()];
  const inputs = checkpoints.flatMap(({ files }) => files.map((file) => file.path));
  // Beside the weights, a model is its configuration and tokenizer; an earlier export may be there, too.
  const beside = await Promise.all(
    checkpoints.map(async ({ texts }) => {
      const names = await readdir(texts).catch(() => []);
      return names.filter((name) => !name.endsWith(".gguf")).map((name) => join(texts, name));
    }),
  );
  await requireOutside(path, [...inputs, ...beside.flat()], { replaced: true });
  if (taken && !force) {
    const state = resume ? "is complete, so there is nothing to resume" : "already exists";
    throw new OutputError(`${path} ${state}`, { file: path, option: "force" });
  }
  await folder.checkSpace(layout.bytes);
  requireRecordable(JOURNAL_FILE, source);
}

/** Writes the file into the partial folder. */
async function fill(
  plan: GgufPlan,
  folder: OutputFolder,
  earlier: RunState | undefined,
  { threads, memory, signal, onProgress }: WriteGgufOptions,
): Promise<void> {
  const bounds = { threads, memory, signal, onProgress };
  const { source, layout, computed } = plan;
  const state: RunState = { plan: plan.digest, inputs: {}, measured: earlier?.measured ?? {}, done: "" };
  const measured = await folder.journal.measure(source.measurements, source.sources, state, bounds);
  const { path, wasThere } = await folder.prepareShard({
    name: FILE,
    header: layout.header,
    bytes: layout.bytes,
    tensors: [],
  });
  const program = compile(plan, measured, path);
  await withFile(path, "r+", async (handle) => {
    for (const [i, { values }] of computed.entries()) {
      await writeFully(handle, values, layout.offsets[i] as number);
    }
  });
  const done = (wasThere && earlier?.done) || "";
  const outcome = await folder.journal.run(program, { ...state, measured: packMeasured(measured), done }, bounds);
  await requireUnchanged(source.sources.values(), "the file would mix old and new. Run it again.");
  requireEncodable(outcome, program.jobs, source.name, "Use the type bf16 if they are beyond float16. ");
}

function compile({ source, tensors, computed, layout }: GgufPlan, measured: Measured, path: string): Program {
  const resolver = new Resolver(source.sources, measured);
  const evaluationOf = remembered((step: Step) => resolver.evaluation(step.value));
  const jobs = tensors.flatMap(({ name, parts, encoding }, i): EncodeJob[] => {
    let offset = layout.offsets[computed.length + i] as number;
    return parts.map((part): EncodeJob => {
      const { step, divisor = 1, ...writing } = part;
      const value = evaluationOf(step);
      const to = { file: 0, offset };
      offset += encodedBytes(encoding, elementsOfPart(part));
      const scaled = divisor === 1 ? value : { ...value, divisor: value.divisor * divisor };
      return { kind: "encode", name, value: scaled, to, encoding, ...writing };
    });
  });
  return { inputs: resolver.inputs, outputs: [path], jobs };
}
