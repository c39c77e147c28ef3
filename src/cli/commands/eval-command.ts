import { join } from "node:path";
import {
  BLEU_TOKENIZERS,
  type BleuTokenizer,
  HUB_SCORES,
  type LoadedTask,
  loadTasks,
  missingTokenizer,
  modelBackend,
  progressDetail,
  type Results,
  type Sample,
  SCORE_FORMATS,
  type ScoreFormat,
  scoreLines,
  scoreNotes,
  withoutLogin,
  writeHubScores,
} from "../../evaluate/index.js";
import {
  hubLoader,
  type Item,
  openTasks,
  protocolId,
  protocolTitle,
  SUITES,
  TASK_FAMILIES,
  type Task,
} from "../../evaluate/tasks/index.js";
import { BACKENDS } from "../../export/llama/index.js";
import { type ProgressDisplay, right, SILENT, showProgress, terminalLines } from "../../figures/index.js";
import { isFile } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";
import { commandLine, formatDuration, plural, write } from "../../kit/printing/index.js";
import { evaluateTasks, type OpenedBackend, openServer, openStarted } from "../../verbs/shared/index.js";
import {
  openByFlags,
  SOURCE_ARGUMENT,
  withAnswerOptions,
  withEngineOptions,
  withGenerationConfigOption,
  withTemplateOption,
} from "../shared/model-flags.js";
import {
  info,
  inOrder,
  interruptSignal,
  paletteFor,
  parseCount,
  parseList,
  parseNumber,
  parsePositive,
  print,
  printJson,
  readKey,
  runWithProgress,
  warn,
} from "../shared/output.js";
import { type Command, Option } from "../shared/typed.js";

/** The last prints the table, and writes files of the hub. */
const FORMATS = [...SCORE_FORMATS, "hub"] as const;

const BACKEND_HELP =
  "engine, llama (llama.cpp), openai:URL (vLLM, SGLang and others), or serve:'COMMAND {model} {port}', which starts and stops your " +
  "own server";

const parseSeconds = parseNumber(
  (value) => value > 0 && value <= 86_400,
  "It must be a number of seconds, at most 86400.",
);

function parseTokenizer(name: string): BleuTokenizer {
  const found = BLEU_TOKENIZERS.find((one) => one === name);
  if (found === undefined) throw usageError(`--tokenize: ${missingTokenizer(name)}`);
  return found;
}

function declared(program: Command) {
  const command = program
    .command("eval")
    .description(
      "Score a model on tasks, with confidence intervals and the full name of each protocol. --list shows the tasks. " +
        "--out keeps results, samples and answers, and --resume continues an interrupted evaluation. Fields of a task: " +
        "docs/evaluate-and-compare.md.",
    )
    .argument("[source]", `${SOURCE_ARGUMENT}; for a server, its name for the model or the model's folder`)
    .optionsGroup("Tasks:")
    .option("-t, --tasks <names>", "comma-separated tasks: mgsm_sw, a suite such as paper, or a .yaml file", parseList)
    .option("--list", "list tasks, suites and protocols")
    .option(
      "--protocol <names>",
      "protocols (default: each task's first, or its chat if the model has a template)",
      parseList,
    )
    .option("--shots <n>", "solved examples in each prompt (default: the protocol's)", parseCount)
    .option("--limit <n>", "maximum items per task", parsePositive)
    .option("--prompts <file>", "mbpp: translated prompts, a row with task_id and text for each problem")
    .option("-d, --data <folder>", "folder with task data (default: Hugging Face datasets)")
    .addOption(
      new Option("--tokenize <name>", "BLEU tokenizer")
        .choices(BLEU_TOKENIZERS)
        .default(undefined, "by language")
        .argParser(parseTokenizer),
    );
  const sampled = withAnswerOptions("maximum tokens of an answer (default: the protocol's)")(command);
  const answering = withGenerationConfigOption(sampled)
    .option("--repeats <n>", "sampled answers per item, averaged (default: 1)", parsePositive)
    .optionsGroup("Output:")
    .option("-o, --out <folder>", "folder for results, samples and answers")
    .option("--resume", "resume an interrupted evaluation in --out")
    .option("--dry-run", "read the data of all tasks, print their items, and exit")
    .option("--skip-unanswered", "leave items without an answer out of the scores (default: they count as wrong)")
    .option("--show <n>", "print prompt, answer and verdict of the first n items", parsePositive)
    .addOption(new Option("--format <format>", "output format").choices(FORMATS).default("table"))
    .option("--seed <n>", "seed of the bootstrap, of sampling and of retry delays", parseCount, 0)
    .option("--resamples <n>", "bootstrap resamples (default: 1000)", parsePositive)
    .optionsGroup("Model-written programs (MBPP):")
    .option("--allow-code", "run programs that the model writes, in a sandbox")
    .option("--unsafe-code", "run them even if the kernel cannot confine them")
    .option("--python <path>", "Python interpreter (default: python3 on the PATH)")
    .option("--code-timeout <seconds>", "timeout of each program (default: 3)", parseSeconds)
    .optionsGroup("Backend:")
    .option(
      "-b, --backend <backend>",
      `backend that runs the model: ${BACKEND_HELP} (default: llama for .gguf files, else engine)`,
    )
    .option("--batch <n>", "prompts per batch of the engine (default: 8)", parsePositive)
    .option("--model <name>", "model name on the server (default: <source>, or its only one)")
    .option("--tokenizer <folder>", "folder with tokenizer.json, for servers that cannot tokenize")
    .option("--concurrency <n>", "parallel requests to a server (default: 8)", parsePositive)
    .option("--timeout <seconds>", "timeout of a request (default: 600)", parseSeconds)
    .option("--retries <n>", "retries on transient errors (default: 6)", parseCount)
    .option("--start-timeout <seconds>", "seconds to wait for the server to start (default: 900)", parseSeconds)
    .option("--api-key-env <name>", "environment variable with the server's API key");
  return withEngineOptions(withTemplateOption(answering));
}

type EvalFlags = ReturnType<ReturnType<typeof declared>["opts"]>;

export function add(program: Command): void {
  declared(program).action(async (source, flags) => {
    if (flags.list) return list(flags);
    if (source === undefined) {
      const words = "Pass a folder, a recipe, or a server's name for a model";
      const first =
        flags.model === undefined
          ? ""
          : ` first: ${commandLine`eval ${flags.model} --tasks ${flags.tasks?.join(",") ?? "TASK"}`}`;
      throw usageError(`Missing the model to evaluate. ${words}${first || "."}`);
    }
    if (!flags.tasks) throw usageError("Missing --tasks, such as --tasks mgsm_sw,mbpp. --list shows all tasks.");
    if (flags.format === "hub" && flags.limit !== undefined)
      throw usageError("--format hub is for scores of all items; leave out --limit.");
    if (flags.format === "hub" && flags.out === undefined && !(await isCheckpoint(source)))
      throw usageError(
        "--format hub needs --out, the folder for its files, as the model is not a folder of this machine.",
      );
    if (flags.resume && flags.out === undefined)
      throw usageError("--resume needs --out, the folder of the interrupted evaluation.");
    await run(source, flags, flags.tasks);
  });
}

async function run(source: string, flags: EvalFlags, names: readonly string[]): Promise<void> {
  const display = flags.quiet ? SILENT : showProgress();
  const tasks = await openTasks(names, {
    protocols: flags.protocol,
    shots: flags.shots,
    prompts: flags.prompts,
    answers: {
      maxNewTokens: flags.maxNewTokens,
      // The default is no setting.
      temperature: flags.temperature || undefined,
      topP: flags.topP,
      topK: flags.topK,
      repeats: flags.repeats,
    },
    tokenize: flags.tokenize,
    onNote: (note) => info(flags, `note: ${note}`),
  });
  const loadRows = hubLoader({
    onProgress: ({ dataset, done, total }) => done === total && total > 0 && display.note(`fetched ${dataset}`),
  });
  const data = { folder: flags.data, loadRows };
  const signal = interruptSignal("this pass");
  if (flags.dryRun) {
    const loaded = await loadTasks(tasks, { data, limit: flags.limit, signal }).finally(() => display.stop());
    return printTasks(loaded, flags);
  }
  if (flags.out === undefined) info(flags, "note: results are not saved; pass --out FOLDER to save them");
  const failures: string[] = [];
  const { out, resume, limit, seed, resamples, skipUnanswered, allowCode, unsafeCode, python } = flags;
  const open = () => openBackend(source, flags, signal, (text) => display.note(text));
  const settings: Parameters<typeof evaluateTasks>[1] = {
    opensModel: flags.backend === undefined || BACKENDS.some((name) => name === flags.backend),
    ...{ data, source, out, resume, limit, seed, resamples, skipUnanswered, allowCode, unsafeCode, python, signal },
    seconds: flags.codeTimeout,
    onProgress: (progress) => {
      const { number, title, done, total } = progress;
      const phase = tasks.length > 1 ? `${number}/${tasks.length} ${title}` : title;
      display.update({ phase, done, total, detail: progressDetail(progress) });
    },
    onNote: (note) => display.note(`warning: ${note}`),
    onFailure: (_, { message }) => failures.push(message),
    onSample: shower(flags, display),
  };
  const { results } = await evaluateTasks(tasks, settings, open).finally(() => display.stop());
  report(results, flags);
  for (const message of failures) warn(message);
  if (failures.length > 0) process.exitCode = 1;
  if (flags.format === "hub") await writeForHub(source, results, flags);
}

/** Opens what the flags say runs the model. @param note receives messages while it opens */
async function openBackend(
  source: string,
  flags: EvalFlags,
  signal: AbortSignal,
  note: (text: string) => void,
): Promise<OpenedBackend> {
  const { backend: chosen, chatTemplateKwargs: templateVariables, ...own } = flags;
  if (chosen === undefined || chosen === "engine" || chosen === "llama") {
    const { engine, facts } = await runWithProgress(flags, ({ onProgress }) =>
      openByFlags(source, chosen === undefined ? own : { ...own, backend: chosen }, { signal, onProgress }),
    );
    note(`${engine.name}: ${facts.join(", ")}`);
    for (const text of engine.notes) note(`note: ${text}`);
    const backend = await modelBackend(engine, { batch: flags.batch, templateVariables });
    return { backend, name: engine.name, close: () => backend.close() };
  }
  const [, kind, rest = ""] = /^(openai|serve)[^a-z](.+)$/s.exec(chosen) ?? [];
  if (kind === undefined) throw usageError(`unknown --backend "${withoutLogin(chosen)}"; use ${BACKEND_HELP}`);
  let notedAt = 0;
  return (kind === "serve" ? openStarted : openServer)(rest, source, {
    ...{ ...own, templateVariables, signal, apiKey: readKey(flags.apiKeyEnv) },
    onStart: (log) => note(`starting the server; its output goes to ${log}`),
    onWait: ({ seconds, lastLine }) => {
      if (seconds - notedAt < 10) return;
      notedAt = seconds;
      const said = lastLine ? `: ${lastLine.slice(0, 120)}` : "";
      note(`waiting for the server, ${formatDuration(seconds)} so far${said}`);
    },
  });
}

function printTasks(loaded: readonly LoadedTask[], { json }: EvalFlags) {
  const found = loaded.map(({ task, items, notes }) => ({
    ...{ task: task.name, protocol: protocolId(task.protocol), shots: task.shots, items: items.length, notes },
  }));
  if (json) return printJson({ tasks: found });
  const rows = found.map(({ task, protocol, shots, items }) => [task, protocol, String(shots), String(items)]);
  print([
    ...terminalLines({ columns: ["task", "protocol", right("shots"), right("items")], rows }),
    ...found.flatMap(({ task, notes }) => notes.map((note) => `${task}: ${note}`)),
  ]);
}

function report(results: Results, flags: EvalFlags) {
  if (flags.json) return printJson(results);
  const format: ScoreFormat = flags.format === "hub" ? "table" : flags.format;
  const lines = scoreLines(results, format);
  if (format !== "table") {
    print(lines);
    for (const note of scoreNotes(results)) info(flags, `note: ${note}`);
  } else {
    const palette = paletteFor(process.stdout);
    const { backend, server, model } = results.backend;
    const who = server === null ? backend : `${server} (${backend})`;
    const [header = "", ...rows] = lines;
    const notes = scoreNotes(results).map((note) => palette.dim(note));
    print([
      palette.bold(`${model}, ${who}`),
      palette.dim(header),
      ...rows,
      ...(notes.length > 0 ? ["", ...notes] : []),
    ]);
  }
  const unscored = results.tasks.filter(({ problems }) => problems.unscored > 0);
  for (const { task, problems, items, answers } of unscored) {
    const asked = plural(items * (answers?.repeats ?? 1), "answer");
    warn(`${task}: ${problems.unscored} of ${asked} have no verdict and are not in the score`);
  }
  if (flags.out !== undefined) info(flags, `Wrote results and samples to ${flags.out}`);
}

const isCheckpoint = (source: string) => isFile(join(source, "config.json"));

/** In the model's folder, from which `push` takes them, or in --out. */
async function writeForHub(source: string, results: Results, flags: EvalFlags): Promise<void> {
  const folder = flags.out === undefined || (await isCheckpoint(source)) ? source : flags.out;
  const leftOut = await writeHubScores(folder, results, new Date());
  if (leftOut.length < results.tasks.length)
    info(flags, `Wrote scores for the hub to ${join(folder, HUB_SCORES)}; push sends them with the model`);
  if (leftOut.length > 0) warn(`${leftOut.join(", ")}: in no data set of the hub, so without a file for it`);
}

/** Prints the first items of each task, each when it is done. */
function shower(
  { show = 0, json }: EvalFlags,
  display: ProgressDisplay,
): ((task: Task, sample: Sample, item: Item, index: number) => void) | undefined {
  if (show === 0) return undefined;
  const next = new Map<Task, (lines: string[], index: number) => void>();
  const print = (lines: string[]) => {
    display.clear();
    // stdout holds only the JSON document under --json.
    write(json ? process.stderr : process.stdout, `${lines.join("\n")}\n`);
  };
  return (task, sample, item, index) => {
    if (index >= show) return;
    if (!next.has(task)) next.set(task, inOrder(print));
    next.get(task)?.(describe(task, sample, item), index);
  };
}

function describe(task: Task, sample: Sample, { prompt }: Item): string[] {
  const palette = paletteFor(process.stdout);
  const asked =
    prompt.form === "text"
      ? prompt.shared + prompt.own
      : prompt.messages.map(({ role, content }) => `[${role}]\n${content}`).join("\n");
  const { output, fault, finish, execution } = sample;
  const answer = typeof output === "string" ? output : JSON.stringify(output);
  const title = (text: string) => palette.bold(`--- ${text}`);
  return [
    title(`${task.name}, item ${sample.id}: prompt (${protocolTitle(task)})`),
    asked,
    title(`answer${finish === "length" ? ", cut at the token limit" : ""}`),
    fault === undefined ? answer : `none: ${fault}`,
    title("verdict"),
    `read:    ${JSON.stringify(sample.reading)}`,
    `gold:    ${JSON.stringify(sample.gold)}`,
    ...(execution ? [`program: ${execution.outcome}${execution.detail ? `, ${execution.detail}` : ""}`] : []),
    `worth:   ${JSON.stringify(sample.verdict)}`,
    "",
  ];
}

function list(flags: EvalFlags): void {
  if (flags.json) {
    printJson({
      families: TASK_FAMILIES.map(({ name, summary, pattern, names, protocols }) => ({
        name,
        summary,
        pattern,
        tasks: names,
        protocols: protocols.map((protocol) => ({ ...protocol, id: protocolId(protocol) })),
      })),
      suites: SUITES,
    });
    return;
  }
  const families = TASK_FAMILIES.map(({ pattern, summary }) => [pattern, summary]);
  const protocols = TASK_FAMILIES.flatMap(({ protocols }) =>
    protocols.map((protocol) => [protocolId(protocol), String(protocol.shots.default), protocol.summary]),
  );
  const suites = Object.entries(SUITES).map(([name, tasks]) => [name, tasks.join(" ")]);
  print([
    ...terminalLines({ columns: ["tasks", ""], rows: families }),
    "",
    ...terminalLines({ columns: ["protocol", right("shots"), ""], rows: protocols }),
    "",
    ...terminalLines({ columns: ["suite", ""], rows: suites }),
  ]);
}
