import { right, terminalLines } from "../../figures/index.js";
import { usageError } from "../../kit/index.js";
import { formatBytes, formatPercent, formatSome, plural } from "../../kit/printing/index.js";
import { columnName } from "../../merge/analysis/index.js";
import {
  DEFAULT_RANK,
  type ExtractedPart,
  type Extraction,
  type ExtractionPlan,
  planExtraction,
} from "../../merge/extract/index.js";
import { extract } from "../../verbs/index.js";
import { hubAccess } from "../shared/hub-access.js";
import {
  addToList,
  elapsed,
  info,
  parseCount,
  parseNumber,
  parsePositive,
  print,
  printJson,
  runWithProgress,
  warn,
  withMatrixWorkOptions,
} from "../shared/output.js";
import { checkPushFlags, printPush, pushResult, withPushOptions } from "../shared/push.js";
import type { Command } from "../shared/typed.js";

const parseEnergy = parseNumber((share) => share > 0 && share <= 1, "It must be a number above 0 and at most 1.");

function declared(program: Command) {
  const command = program
    .command("extract")
    .description(
      "Write the change of a fine-tune or merge as a PEFT LoRA adapter: the best low-rank approximation of each linear " +
        "weight, by randomised singular value decomposition (arXiv 0909.4061). Prints the share of the squared change " +
        "that each rank keeps. Norms and embeddings that changed are saved whole.",
    )
    .optionsGroup("Models:")
    .requiredOption("--base <source>", "model to add the adapter to")
    .requiredOption("--model <source>", "fine-tune or merge: a model or a recipe file (.yaml)")
    .optionsGroup("Adapter:")
    .option("--rank <n>", `largest rank (default: ${DEFAULT_RANK}, or no limit with --energy)`, parsePositive)
    .option("--energy <share>", "use the smallest ranks that keep this share of the squared change", parseEnergy)
    .option("--linear-only", "leave norms, biases and embeddings at the base's")
    .option("--include <pattern>", "tensors to extract, such as *.self_attn.*; repeatable (default: all)", addToList)
    .option("--exclude <pattern>", "tensors to leave at the base's; repeatable", addToList)
    .option("--embed-lora", "give the embedding factors, too, in place of saving it whole")
    .option("--save-module <name>", "module to save whole, such as lm_head; repeatable", addToList)
    .option("--seed <n>", "random seed (default: 0)", parseCount)
    .optionsGroup("Output:")
    .option("-o, --out <folder>", "folder to write; it appears when it is complete")
    .option("--dry-run", "print the plan and exit; reads headers and a sample of weights")
    .option("--force", "replace an existing adapter that extract wrote");
  return withMatrixWorkOptions(withPushOptions(command));
}

export function add(program: Command): void {
  declared(program).action(run);
}

async function run(options: ReturnType<ReturnType<typeof declared>["opts"]>): Promise<void> {
  const start = performance.now();
  const { base, rank, energy, linearOnly, include, exclude, saveModule, embedLora, seed, out, force } = options;
  if (out === undefined && !options.dryRun) {
    throw usageError("Missing --out. Pass --out FOLDER to write the adapter, or --dry-run to print the plan.");
  }
  await checkPushFlags(options);
  const settings = {
    base,
    model: options.model,
    rank,
    energy,
    linearOnly,
    include,
    exclude,
    saveModules: saveModule,
    embedLora,
    seed,
  };
  if (out === undefined || options.dryRun) {
    const plan = await runWithProgress(options, (controls) =>
      planExtraction({ ...settings, hub: hubAccess("plan", controls) }),
    );
    return options.json ? printJson(plan) : print(describePlan(plan));
  }
  const extraction = await runWithProgress(options, (controls) =>
    // Each weight is read several times, and not in the order of the files.
    extract({ ...settings, out, force, ...controls, hub: hubAccess("files", controls) }),
  );
  for (const warning of extraction.warnings) warn(warning);
  if (options.json) {
    const seconds = (performance.now() - start) / 1000;
    printJson({ ...extraction, seconds, ...(await pushResult(out, options)) });
    return;
  }
  print(describe(extraction));
  for (const note of notesOf(extraction)) info(options, `note: ${note}`);
  info(options, `Wrote ${out}: ${formatBytes(extraction.bytes)}, ${elapsed(start)}. Use it as ${base}+${out}`);
  const { push } = await pushResult(out, options);
  if (push) printPush(push);
}

function describePlan({ base, model, linear, others, bytes }: ExtractionPlan): string[] {
  return [
    `Extract ${model} as an adapter of ${base}`,
    `${plural(linear.length, "linear weight")} can get factors; ${plural(others.length, "other tensor")} can be saved whole`,
    bytes === null ? "the ranks, and so the size, follow from the change" : `factors: at most ${formatBytes(bytes)}`,
  ];
}

function describe({ parts, total, ranks }: Extraction): string[] {
  const row = (name: string, { weights, smallestRank, largestRank, shares }: Omit<ExtractedPart, "part">) => [
    name,
    String(weights),
    smallestRank === largestRank ? String(largestRank) : `${smallestRank}-${largestRank}`,
    ...shares.map(formatPercent),
  ];
  const columns = ["weights", "rank", ...ranks.map((rank) => `at ${rank}`)].map(right);
  const rows = [...parts.map((part) => row(columnName(part.part), part)), row("all", total)];
  return ["Share of the squared change kept, by rank:", "", ...terminalLines({ columns: ["part", ...columns], rows })];
}

function notesOf({ unchanged, saved, left, rows }: Extraction): string[] {
  return [
    ...(rows === null
      ? []
      : [
          `the vocabulary has ${rows} rows, not the base's: embedding and head are saved whole, with the tokenizer. In PEFT, call model.resize_token_embeddings(${rows}) before the adapter is loaded`,
        ]),
    ...(unchanged > 0 ? [`${plural(unchanged, "linear weight")} equal to the base's got no factors`] : []),
    ...(saved.length > 0 ? [`saved whole, as factors cannot hold them: ${formatSome(saved)}`] : []),
    ...(left.length > 0 ? [`changed, but left at the base's (--linear-only): ${formatSome(left)}`] : []),
  ];
}
