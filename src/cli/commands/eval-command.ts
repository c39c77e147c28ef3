// The command of the verb, and what it does beside: lists of tasks, items as they are judged, other forms of the scores.
import { join } from "node:path";
import { Option } from "commander";
import {
  HUB_SCORES,
  type Sample,
  SCORE_FORMATS,
  type ScoreFormat,
  scoreLines,
  writeHubScores,
} from "../../evaluate/index.js";
import { type Item, protocolId, protocolTitle, SUITES, TASK_FAMILIES, type Task } from "../../evaluate/tasks/index.js";
import { right, terminalLines } from "../../figures/index.js";
import { isFile } from "../../kit/files/index.js";
import { usageError } from "../../kit/index.js";
import { commandLine, write } from "../../kit/printing/index.js";
import type { EvaluateResult } from "../../verbs/index.js";
import { type EvaluateControls, evalVerb } from "../../verbs/shared/index.js";
import { info, inOrder, paletteFor, parsePositive, print, printJson, warn } from "../shared/output.js";
import { verbCommand } from "../shared/verb-command.js";

/** The last prints the table, and writes files of the hub. */
const FORMATS = [...SCORE_FORMATS, "hub"] as const;

export const add = verbCommand(evalVerb, {
  description:
    "Score a model on tasks, with confidence intervals and the full name of each protocol. --list shows the tasks. " +
    "--out keeps results, samples and answers, and --resume continues an interrupted evaluation. Fields of a task: " +
    "docs/evaluate-and-compare.md.",
  missing: {
    source: ({ model, tasks }) => {
      const words = "Pass a folder, a recipe, or a server's name for a model";
      const named = (tasks as string[] | undefined)?.join(",") ?? "TASK";
      const first = ` first: ${commandLine`eval ${String(model)} --tasks ${named}`}`;
      return `Missing the model to evaluate. ${words}${model === undefined ? "." : first}`;
    },
    tasks: () => "Missing --tasks, such as --tasks mgsm_sw,mbpp. --list shows all tasks.",
  },
  flags: {
    list: (command) => command.option("--list", "list tasks, suites and protocols"),
    show: (command) =>
      command.option("--show <n>", "print prompt, answer and verdict of the first n items", parsePositive),
    format: (command) =>
      command.addOption(new Option("--format <format>", "output format").choices(FORMATS).default("table")),
  },
  async before({ list, format, limit, out, resume, json }, [source]) {
    if (list) printList(json);
    if (list) return true;
    if (format === "hub" && limit !== undefined)
      throw usageError("--format hub is for scores of all items; leave out --limit.");
    if (format === "hub" && source !== undefined && out === undefined && !(await isCheckpoint(source)))
      throw usageError(
        "--format hub needs --out, the folder for its files, as the model is not a folder of this machine.",
      );
    if (resume && source !== undefined && out === undefined)
      throw usageError("--resume needs --out, the folder of the interrupted evaluation.");
    return false;
  },
  controls: ({ show, json }, clear): Pick<EvaluateControls, "onSample"> =>
    typeof show === "number" ? { onSample: shower(show, json, clear) } : {},
  async printed(result: EvaluateResult, input: { source: unknown; out?: string }, { format, json, ...flags }) {
    const { results } = result;
    if (format === "hub") await writeForHub(String(input.source), input.out, result, flags);
    if (json || format === "table" || format === "hub") return false;
    print(scoreLines(results, format as ScoreFormat));
    return true;
  },
});

const isCheckpoint = (source: string) => isFile(join(source, "config.json"));

/** In the model's folder, from which `push` takes them, or in --out. */
async function writeForHub(
  source: string,
  out: string | undefined,
  { results }: EvaluateResult,
  flags: Parameters<typeof info>[0],
): Promise<void> {
  const folder = out === undefined || (await isCheckpoint(source)) ? source : out;
  const leftOut = await writeHubScores(folder, results, new Date());
  if (leftOut.length < results.tasks.length)
    info(flags, `Wrote scores for the hub to ${join(folder, HUB_SCORES)}; push sends them with the model`);
  if (leftOut.length > 0) warn(`${leftOut.join(", ")}: in no data set of the hub, so without a file for it`);
}

/** Prints the first items of each task, each when it is done. */
function shower(count: number, json: boolean | undefined, clear: () => void): EvaluateControls["onSample"] {
  const next = new Map<Task, (lines: string[], index: number) => void>();
  const shown = (lines: string[]) => {
    clear();
    // stdout holds only the JSON document under --json.
    write(json ? process.stderr : process.stdout, `${lines.join("\n")}\n`);
  };
  return (task, sample, item, index) => {
    if (index >= count) return;
    if (!next.has(task)) next.set(task, inOrder(shown));
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

function printList(json: boolean | undefined): void {
  if (json) {
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
