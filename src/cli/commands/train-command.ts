import { basename, isAbsolute, join, resolve } from "node:path";
import { loadSourceTokenizer } from "../../engine/index.js";
import { describeNeed } from "../../engine/memory/index.js";
import {
  lossPage,
  previewLegend,
  renderPreview,
  reportPage,
  right,
  type ShownProgress,
  SILENT,
  showProgress,
  terminalLines,
} from "../../figures/index.js";
import { exists, writeFileAtomically } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";
import { describeFree, freeMemory } from "../../kit/memory/index.js";
import { formatBytes, formatCount, formatRanges, plural, shellQuote } from "../../kit/printing/index.js";
import { previewOf, type SetCounts } from "../../train/data/index.js";
import {
  checkRun,
  describeKept,
  describeSchedule,
  expectedNotes,
  type FieldText,
  handOverRun,
  keptNotes,
  type PreparedRun,
  prepareRun,
  type Run,
  type RunResult,
  readRun,
  readTrainingLog,
  runFields,
  TRL_FILES,
  TRL_PRECISIONS,
  type TrainProgress,
  trainRun,
} from "../../train/index.js";
import { asFlag } from "../shared/advice.js";
import { hubAccess } from "../shared/hub-access.js";
import {
  elapsed,
  info,
  interruptSignal,
  paletteFor,
  parsePositive,
  print,
  printJson,
  warn,
  withCommonOptions,
} from "../shared/output.js";
import { checkPushFlags, printPush, pushResult, withPushOptions } from "../shared/push.js";
import { attributeOf, fieldOption } from "../shared/recipe-flags.js";
import { adding, type Command, Option } from "../shared/typed.js";

/** Writes the run for PyTorch. */
async function handOver(
  run: Run,
  where: { readonly folder: string; readonly dataFolder: string; readonly signal: AbortSignal },
  flags: TrainFlags,
): Promise<void> {
  const { gpus: processes, machines, precision } = flags;
  const cluster = { processes, machines, precision };
  const display = flags.quiet ? SILENT : showProgress();
  const onWritten = (done: number, total: number) => display.update({ phase: "writing sequences", done, total });
  let notes: readonly string[] = [];
  const onReady = (prepared: PreparedRun) => {
    notes = prepared.notes;
    for (const warning of prepared.warnings) warn(warning);
  };
  const written = await handOverRun({ ...where, run, cluster, force: flags.force, onWritten, onReady }).finally(() =>
    display.stop(),
  );
  if (flags.json) return printJson({ ...written, notes });
  const { folder, sequences, tokens, out, memory } = written;
  print([
    `Wrote ${folder}: ${plural(sequences, "sequence")}, ${formatCount(tokens)} tokens, ${TRL_FILES.entry}, ${TRL_FILES.accelerate}`,
    `Start it with: cd ${shellQuote(folder)} && accelerate launch --config_file ${TRL_FILES.accelerate} ${TRL_FILES.entry}`,
    `Checkpoints go to ${out}`,
    `Weights, gradients and moments take ${formatBytes(memory.bfloat16)} in bfloat16, the default on a GPU, or ${formatBytes(memory.float32)} with float32 weights (--precision mixed), plus activations`,
    ...notes.map((note) => `note: ${note}`),
  ]);
}

function declared(program: Command) {
  const command = program
    .command("train")
    .description(
      "Fine-tune an expert from a run file, from flags, or from both. Each field of a run file is a flag, and a flag " +
        "overrides the file. Values are read as YAML. Relative paths in the file start from its folder, those in flags " +
        "from the working folder. Formats of data: docs/train-experts.md; all fields: docs/fields.md; files to copy: examples/train.",
    )
    .argument("[run]", "run file (YAML)")
    .optionsGroup("Run:")
    .option("--dry-run", "open base and data, print what would be trained and the memory it needs, and exit")
    .option("--preview <n>", "print the first n examples as the model sees them, and exit", parsePositive)
    .option("--resume", "resume an interrupted run; the weights are bit-identical")
    .option("--force", "replace an existing run in --out");
  const pushed = withPushOptions(command)
    .optionsGroup("PyTorch (TRL):")
    .addOption(
      new Option("--engine <engine>", "trainer; trl writes a folder to run with PyTorch")
        .choices(["embedded", "trl"])
        .default("embedded"),
    )
    .option("--gpus <n>", "processes per machine (default: 1)", parsePositive)
    .option("--machines <n>", "number of machines (default: 1)", parsePositive)
    .addOption(
      new Option("--precision <type>", "type of weights (default: auto, bfloat16 on a GPU)").choices(TRL_PRECISIONS),
    );
  return withCommonOptions(withFieldFlags(pushed));
}

type TrainFlags = ReturnType<ReturnType<typeof declared>["opts"]>;

export function add(program: Command): void {
  declared(program).action(async (file, flags) => {
    const { run, ...folders } = await readRunOf(file, flags);
    const signal = interruptSignal("this step");
    const start = performance.now();
    const palette = paletteFor(process.stderr);
    if (flags.dryRun || flags.preview !== undefined) {
      const checkMemory = flags.preview === undefined && flags.engine === "embedded";
      const prepared = await prepareRun({ run, ...folders, signal, hub: { fetch: "plan", signal }, checkMemory });
      if (flags.preview !== undefined) await printPreview(prepared, flags.preview);
      else if (flags.json) printJson(summaryOf(run, prepared));
      else print(describeRun(run, prepared));
      for (const warning of prepared.warnings) warn(warning);
      return;
    }
    if (flags.engine === "trl") {
      if (flags.push !== undefined) {
        throw usageError("--push needs --engine embedded. Push a checkpoint with layergraft push.");
      }
      return handOver(run, { ...folders, signal }, flags);
    }
    await checkPushFlags(flags);
    const display = flags.quiet ? SILENT : showProgress();
    let result: RunResult;
    try {
      result = await trainRun({
        ...{ run, ...folders, signal },
        hub: hubAccess("files", { signal, onProgress: display.update }),
        ...(flags.resume ? { resume: true } : {}),
        ...(flags.force ? { force: true } : {}),
        onRead: display.update,
        onReady: (prepared) => {
          info(flags, [palette.bold(titleOf(run)), ...describeRun(run, prepared), ""].join("\n"));
          for (const warning of prepared.warnings) warn(warning);
        },
        onResume: ({ step, steps }) =>
          display.note(
            step > 0
              ? `resuming after step ${step} of ${steps}`
              : `note: ${run.out} has no saved state, so training starts at step 0`,
          ),
        onProgress: (progress) => display.update(stateOf(progress)),
      });
    } finally {
      display.stop();
    }
    const pictures = await drawLoss(run.out, result.log);
    const { merged, reverted, best, last } = result;
    const model = merged ?? reverted ?? best ?? last;
    if (flags.json) return printJson({ ...result, pictures, ...(await pushResult(model, flags)) });
    print(describeResult(result, elapsed(start)));
    const { push } = await pushResult(model, flags);
    if (push) printPush(push);
  });
}

const withFieldFlags = adding<unknown>((command) => {
  for (const field of runFields()) {
    const option = fieldOption(field, field.name).helpGroup(groupOf(field.name));
    // Shown only: the schema checks the values of flags and of files alike.
    if (field.choices) option.argChoices = [...field.choices];
    command.addOption(option);
  }
  return command;
});

const FIELD_GROUPS: Readonly<Record<string, string>> = {
  lora: "LoRA:",
  ...Object.fromEntries(
    ["sequence_length", "packing", "loss_on", "batch", "accumulation", "steps", "epochs", "samples"].map((field) => [
      field,
      "Batches and length:",
    ]),
  ),
  optimizer: "Optimizer (AdamW):",
  schedule: "Learning-rate schedule:",
  checkpoints: "Checkpoints:",
  save_dtype: "Checkpoints:",
  holdout: "Held-out data:",
  early_stopping: "Held-out data:",
  seed: "General:",
  threads: "General:",
};

const groupOf = (field: string) => FIELD_GROUPS[field.split(".", 1)[0] ?? ""] ?? "Model and data:";

/** The run, and the folders its relative paths start from: the file's for its fields, the working folder for flags. */
async function readRunOf(
  file: string | undefined,
  flags: Record<string, unknown>,
): Promise<{ run: Run; folder: string; dataFolder: string }> {
  const fields = runFields().flatMap(({ name }): FieldText[] => {
    const value = flags[attributeOf(name)];
    return typeof value === "string" ? [[name, value]] : [];
  });
  if (file === undefined) {
    if (fields.length === 0) throw usageError("Missing a run. Pass a run file, or --base, --data and --out.");
    return { run: checkRun({}, { fields }), folder: ".", dataFolder: "." };
  }
  const { run, folder } = await readRun(file, { fields });
  const startOf = (...names: string[]) => (fields.some(([field]) => names.includes(field)) ? "." : folder);
  const first = resolve(startOf("mask", "mask.from"), run.mask?.from ?? "");
  const mask = run.mask && (await exists(first)) ? { ...run.mask, from: first } : run.mask;
  return {
    run: { ...run, ...(mask ? { mask } : {}), out: isAbsolute(run.out) ? run.out : join(startOf("out"), run.out) },
    folder: startOf("base"),
    dataFolder: startOf("data", "partition"),
  };
}

function titleOf({ method, out, base }: Run): string {
  return `${method === "lora" ? "LoRA" : "Full"} fine-tuning of ${base} into ${out}`;
}

function describeRun(run: Run, prepared: PreparedRun): string[] {
  const { settings, trained, lora, mask, memory, source, streams, kept, notes } = prepared;
  const parameters = [...trained].reduce((sum, name) => sum + sizeOf(source.tensors.get(name)?.shape ?? []), 0);
  const layers = [...new Set([...trained].flatMap((name) => source.tensors.get(name)?.layer ?? []))].sort(
    (a, b) => a - b,
  );
  const factors = lora?.modules.reduce(
    (sum, module) => sum + lora.settings.rank * (module.experts ?? 1) * (module.in + module.out),
    0,
  );
  const what = lora
    ? `rank ${lora.settings.rank} adapter for ${plural(lora.modules.length, "weight")}, ${formatCount(factors ?? 0)} trained parameters`
    : `${formatCount(parameters)} trained parameters`;
  return [
    `${what}, in layers ${formatRanges(layers) || "none"}`,
    ...(mask ? [`mask: the ${formatCount(mask.kept)} of them that ${run.mask?.from} changed most`] : []),
    ...streams.flatMap(({ name, counts }) => [
      ...(streams.length > 1 ? [`stream ${name}:`] : []),
      ...terminalLines({ columns: ["set", ...COUNT_COLUMNS.map(right)], rows: counts.map(countRow) }),
      ...counts.map(formatOf),
      ...counts.flatMap(lossesOf),
    ]),
    `${plural(settings.steps, "step")} of ${settings.sequencesPerStep} sequences of ${run.packing ? "" : "at most "}${settings.sequenceLength} tokens${run.packing ? ", packed" : ""}`,
    `learning rate ${settings.learningRate}, ${describeSchedule(settings.schedule, settings.steps)}`,
    ...(memory ? [`needs ${describeNeed(memory)}; ${describeFree(freeMemory())}`] : []),
    ...[...notes, ...expectedNotes(kept, asFlag)].map((note) => `note: ${note}`),
  ];
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, extent) => product * extent, 1);
}

function stateOf(progress: TrainProgress): ShownProgress {
  const { step, steps, loss, holdoutLoss, learningRate, gradientNorm, tokensPerSecond } = progress;
  const detail = [
    `loss ${loss.toFixed(4)}`,
    ...(holdoutLoss === undefined ? [] : [`held-out loss ${holdoutLoss.toFixed(4)}`]),
    `lr ${learningRate.toExponential(1)}`,
    `|g| ${gradientNorm.toFixed(2)}`,
    `${formatCount(tokensPerSecond)} tokens/s`,
  ].join("  ");
  return { phase: "training", done: step, total: steps, detail };
}

const COUNT_COLUMNS = ["rows", "examples", "training", "held out", "cut", "tokens", "learned"];

function countRow(counts: SetCounts): string[] {
  const { name, rows, examples, kept, heldOut, cut, tokens, lossTokens } = counts;
  return [
    name,
    ...[rows, examples, kept - heldOut, heldOut, cut].map((n) => n.toLocaleString("en-US")),
    formatCount(tokens),
    formatCount(lossTokens),
  ];
}

/** The fields and the template that gave the texts of a set. */
const formatOf = ({ name, fields, template }: SetCounts) =>
  `  ${name}: ${fields}; formatted ${template === "plain" ? "as plain text" : `with ${template}`}`;

/** What is not trained on, and why, and what may be a mistake in the file. */
function lossesOf(counts: SetCounts): string[] {
  const lost: [number, string][] = [
    [counts.badRows, "could not be read"],
    [counts.emptyRows, "without prompt or response"],
    [counts.duplicates, "duplicates"],
    [counts.notSampled, "over the cap"],
    [counts.tooLong, "too long"],
    [counts.nothingToLearn, "without tokens to learn"],
    [counts.refused, "rejected by the chat template"],
  ];
  for (const [filter, count] of Object.entries({ ...counts.filteredRows, ...counts.filtered }))
    lost.push([count, `not ${filter}`]);
  const reasons = lost.filter(([count]) => count > 0).map(([count, why]) => `${count.toLocaleString("en-US")} ${why}`);
  const first = ({ file, line }: { readonly file: string; readonly line: number }) => `first: ${file}, line ${line}`;
  return [
    ...(reasons.length > 0 ? [`  ${counts.name}: ${reasons.join("; ")}`] : []),
    ...(counts.firstEmpty
      ? [`  ${counts.name}: fill in or remove rows without prompt or response (${first(counts.firstEmpty)})`]
      : []),
    ...Object.entries(counts.leftOut).map(
      ([why, at]) =>
        `  ${counts.name}: ${plural(at.count, "turn")} of the assistant not learned: ${why} (${first(at)})`,
    ),
    ...Object.entries(counts.missing).map(
      ([cell, at]) =>
        `  ${counts.name}: note: ${plural(at.count, "row")} with the text ${cell}. Leave a missing value empty (${first(at)})`,
    ),
  ];
}

function summaryOf(
  run: Run,
  { settings, trained, lora, streams, memory, kept, notes, warnings }: PreparedRun,
): unknown {
  return {
    run,
    settings,
    trained: [...trained],
    ...(lora ? { factors: lora.modules.map(({ module }) => module) } : {}),
    data: Object.fromEntries(streams.map(({ name, counts }) => [name, counts])),
    memory,
    kept,
    notes,
    warnings,
  };
}

async function printPreview({ source, streams }: PreparedRun, count: number): Promise<void> {
  const palette = paletteFor(process.stdout);
  const tokenizer = await loadSourceTokenizer(source);
  print(previewLegend(palette));
  for (const { name, counts, batches } of streams) {
    for (const line of [...counts.map(formatOf), ...counts.flatMap(lossesOf)]) print(line);
    for (let i = 0; i < Math.min(count, batches.mixture.size); i++) {
      const { set, encoded } = batches.exampleAt(i);
      print("");
      print(
        palette.bold(
          `${streams.length > 1 ? `${name}, ` : ""}example ${i + 1} of ${set}, ${plural(encoded.ids.length, "token")}`,
        ),
      );
      print(renderPreview(previewOf(encoded, tokenizer), palette));
    }
  }
}

async function drawLoss(out: string, log: string): Promise<string[]> {
  const entries = (await readTrainingLog(log)).filter(({ kept }) => !kept);
  if (entries.length < 2) return [];
  const file = join(out, "loss.html");
  await writeFileAtomically(file, await reportPage(lossPage(entries, `Loss of ${basename(out)}`)));
  return [file];
}

function describeResult(result: RunResult, time: string): string[] {
  const { last, best, bestLoss, kept, merged, reverted, steps, samples, tokens, loss, stoppedEarly, resumed } = result;
  const lossy = keptNotes(kept, asFlag);
  return [
    `Trained ${plural(steps, "step")}, ${plural(samples, "sample")}, ${formatCount(tokens)} tokens${resumed ? " (resumed)" : ""} in ${time}${loss === null ? "" : `; loss ${loss.toFixed(4)}`}${stoppedEarly ? "; stopped early, as the held-out loss stopped improving" : ""}`,
    `last  ${last}`,
    ...(best ? [`best  ${best} (held-out loss ${bestLoss?.toFixed(4)})`] : []),
    ...(merged ? [`merged  ${merged}`] : []),
    ...(reverted ? [`reverted  ${reverted}`] : []),
    ...(lossy.length > 0 || !kept ? [] : [`saved  ${describeKept(kept)}`]),
    ...lossy.map((note) => `warning: ${note}`),
  ];
}
