// Answers and scores, item by item, against lm-evaluation-harness with its own declarations.
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { CLI, measure } from "../measure.js";
import { askPeer, worstOf } from "./peers.js";

const FIVE_SUBJECTS = ["abstract_algebra", "anatomy", "global_facts", "marketing", "world_religions"];
const MGSM = ["en", "es", "de", "sw"];
/** The training problems of GSM8K are not in the folder of data; the last problems of the test stand in for them. */
const SHOTS = 8;

/** @typedef {{ output: number[] | string, scores: Record<string, number>, verdict: Record<string, number> }} Sample */

/** @typedef {{ what: string, tasks: string[], items: number, shots: number }} Group */

/** Log-likelihoods of choices. @param {import("./main.js").Given} given */
export function compareChoices(given) {
  const files = readdirSync(join(given.data, "mmlu/test")).filter((file) => file.endsWith("_test.csv"));
  const subjects = files.map((file) => file.replace("_test.csv", ""));
  return compareGroups(given, [
    { what: "MMLU, all subjects, no shots", tasks: subjects.map((one) => `mmlu_${one}`), items: given.items, shots: 0 },
    {
      what: "MMLU, five subjects, five shots",
      tasks: FIVE_SUBJECTS.map((one) => `mmlu_${one}`),
      items: 4 * given.items,
      shots: 5,
    },
    {
      what: "Belebele, English and German",
      tasks: ["belebele_eng_Latn", "belebele_deu_Latn"],
      items: 10 * given.items,
      shots: 0,
    },
  ]);
}

/** Greedy answers. @param {import("./main.js").Given} given */
export function compareAnswers(given) {
  const common = { items: given.items, shots: SHOTS };
  return compareGroups(given, [
    { what: "GSM8K, 8 shots, greedy", tasks: ["gsm8k"], ...common },
    ...MGSM.map((code) => ({ what: `MGSM ${code}, 8 shots, greedy`, tasks: [`mgsm_${code}`], ...common })),
  ]);
}

/** @param {import("./main.js").Given} given @param {Group[]} groups @returns {AsyncGenerator<import("./main.js").Row>} */
async function* compareGroups(given, groups) {
  const data = folderOfData(given);
  for (const { what, tasks, items, shots } of groups) {
    const out = join(given.out, "results", what.replaceAll(/\W+/g, "-"));
    rmSync(out, { recursive: true, force: true });
    const settings = ["--limit", String(items), "--shots", String(shots), "--data", data, "--out", out, "--quiet"];
    const asked = ["--tasks", tasks.join(), "--protocol", what.startsWith("MGSM") ? "lm-eval/mgsm-direct" : "lm-eval"];
    await measure(process.execPath, [CLI, "eval", given.float32, ...asked, ...settings]);
    const question = { folder: given.float32, data, scratch: join(given.out, "harness"), tasks, items, shots };
    const theirs = askPeer(given.python, "harness_peer.py", question);
    writeFileSync(join(out, "lm-eval.json"), JSON.stringify(theirs));
    /** @type {{ ours: Sample, theirs: Sample }[]} */
    const pairs = tasks.flatMap((task) =>
      readFileSync(join(out, `samples-${task}.jsonl`), "utf8")
        .trim()
        .split("\n")
        .map((line, i) => ({ ours: JSON.parse(line), theirs: theirs.samples[task][i] })),
    );
    const against = `lm-eval ${theirs.version}`;
    yield { what, against, compared: `${pairs.length} items`, difference: differenceOf(pairs) };
  }
}

/** @param {{ ours: Sample, theirs: Sample }[]} pairs */
function differenceOf(pairs) {
  const verdicts = pairs.filter(({ ours, theirs }) => {
    return Object.entries(theirs.scores).some(([name, score]) => ours.verdict[name] !== score);
  });
  const scored = verdicts.length === 0 ? "every score equal" : `${verdicts.length} scores differ`;
  const texts = pairs.filter(({ ours }) => typeof ours.output === "string");
  if (texts.length > 0) {
    const others = texts.filter(({ ours, theirs }) => ours.output !== theirs.output);
    return `${scored}, ${others.length === 0 ? "every answer equal" : `${others.length} answers differ`}`;
  }
  const worst = pairs.map(({ ours, theirs }) => {
    return worstOf(/** @type {number[]} */ (ours.output), /** @type {number[]} */ (theirs.output));
  });
  return `${scored}, log-likelihoods at most ${Math.max(...worst).toExponential(1)} apart`;
}

/** The folder of data, with problems that stand in for GSM8K's training set. @param {import("./main.js").Given} given */
function folderOfData({ data, out }) {
  const folder = join(out, "data");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, "gsm8k"), { recursive: true });
  for (const name of readdirSync(data)) if (name !== "gsm8k") symlinkSync(resolve(data, name), join(folder, name));
  const problems = readFileSync(join(data, "gsm8k/test.jsonl"), "utf8").trim().split("\n");
  writeFileSync(join(folder, "gsm8k/test.jsonl"), `${problems.slice(0, -SHOTS).join("\n")}\n`);
  writeFileSync(join(folder, "gsm8k/train.jsonl"), `${problems.slice(-SHOTS).join("\n")}\n`);
  return folder;
}
