// Every command that opens a model, on models from 270M parameters to 111B: npm run bench -- ladder [--models FOLDER] [--rung gemma,gemma-3-27b@2]
// [--only generate,score] [--peers PYTHON]. A cell works, or is refused in a sentence before anything is computed, or fails. Finished cells
// are in FILE (--results) and are not run again; --table prints them.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { totalmem } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { DATA } from "../checkpoints.js";
import { CLI, describeMachine } from "../measure.js";
import { PROMPT, ROWS, writeInputs } from "./commands.js";
import { openRung, RUNGS } from "./models.js";
import { peersOf } from "./peers.js";
import { printTable } from "./table.js";
import { isError, judge, watch } from "./watch.js";

/**
 * @typedef {{ outcome: "works" | "refused" | "failed" | "skipped", message: string, seconds: number, cpuSeconds: number, peakBytes: number,
 *   ownBytes: number, command: string }} Cell
 */
/** @typedef {{ machine: string, cells: Record<string, Record<string, Cell>>, peers: Record<string, Record<string, Cell>> }} Results */
/** @typedef {{ seconds: number, bytes: number, refusalSeconds: number, disk: number }} Limits */

/** @param {string[]} args */
export async function benchmarkLadder(args) {
  const { values } = parseArgs({
    args,
    options: {
      models: { type: "string", default: join(DATA, "models") },
      work: { type: "string", default: join(DATA, "ladder") },
      results: { type: "string", default: join(DATA, "ladder.json") },
      rung: { type: "string", default: RUNGS.join() },
      only: { type: "string" },
      python: { type: "string", default: "python3" }, // has pip, for models; with --peers also transformers and PEFT
      peers: { type: "boolean", default: false },
      mergekit: { type: "string" },
      llama: { type: "string" }, // node-llama-cpp/dist/index.js
      seconds: { type: "string", default: "600" },
      memory: { type: "string", default: String(0.85 * totalmem()) },
      disk: { type: "string", default: "25e9" },
      refusal: { type: "string", default: "10" },
      again: { type: "boolean", default: false },
      keep: { type: "boolean", default: false },
      table: { type: "boolean", default: false },
    },
  });
  const file = resolve(values.results);
  /** @type {Results} */
  const results = existsSync(file)
    ? JSON.parse(readFileSync(file, "utf8"))
    : { machine: describeMachine(), cells: {}, peers: {} };
  if (values.table) return printTable(results);
  mkdirSync(values.models, { recursive: true });
  const limits = {
    seconds: Number(values.seconds),
    bytes: Number(values.memory),
    refusalSeconds: Number(values.refusal),
    disk: Number(values.disk),
  };
  const isWanted = matcher(values.only);
  /** @param {Record<string, Record<string, Cell>>} kind @param {string} rung @param {string} row @param {() => Promise<Cell>} run */
  const fill = async (kind, rung, row, run) => {
    kind[rung] ??= {};
    if (kind[rung][row] && !values.again) return;
    const cell = await run();
    kind[rung][row] = cell;
    writeFileSync(file, JSON.stringify(results, null, 1));
    const peak = `${(cell.peakBytes / 1e9).toFixed(2)} GB`;
    console.log(
      `${rung}  ${row}  ${cell.outcome}  ${cell.seconds.toFixed(1)} s (CPU ${cell.cpuSeconds.toFixed(1)})  ${peak}  ${cell.message}`,
    );
  };
  for (const name of values.rung.split(",")) {
    const rung = await openRung(name, {
      models: resolve(values.models),
      work: resolve(values.work),
      python: values.python,
    });
    const folder = join(resolve(values.work), `scratch-${process.pid}`);
    const at = (/** @type {string} */ part) => join(folder, part);
    const clean = () => {
      rmSync(folder, { recursive: true, force: true });
      writeInputs(folder, rung);
    };
    for (const row of ROWS.filter((one) => isWanted(one.name))) {
      if (row.needsLlama && !values.llama) continue;
      await fill(results.cells, name, row.name, async () => {
        const bytes = row.writes?.(rung) ?? 0;
        if (bytes > limits.disk) return skipped(`writes ${(bytes / 1e9).toFixed(0)} GB`);
        clean();
        // Elsewhere it would run what does not fit into the engine, and each cell would export the model.
        const llama = values.llama && (row.needsLlama || rung.isFile) ? resolve(values.llama) : undefined;
        const env = { LAYERGRAFT_CACHE: at("cache"), ...(llama === undefined ? {} : { NODE_LLAMA_CPP: llama }) };
        return run(row.steps(at, rung), env, limits);
      });
    }
    if (values.peers) {
      for (const [row, peer] of Object.entries(peersOf(rung, at, values))) {
        if (!isWanted(row)) continue;
        await fill(results.peers, name, row, async () => {
          clean();
          peer.prepare?.();
          const { seconds, bytes } = limits;
          const ended = await watch(peer.command, peer.args, {
            seconds,
            bytes,
            env: { HF_HUB_OFFLINE: "1", OMP_NUM_THREADS: "2" },
          });
          const why = ended.stderr.trim().split("\n").at(-1) ?? "";
          const outcome = ended.code === 0 ? "works" : "failed";
          const message = ended.stoppedBy ? `over the limit of ${ended.stoppedBy}` : why;
          return cellOf(ended, { outcome, message: outcome === "works" ? "" : message }, [peer.command, ...peer.args]);
        });
      }
    }
    rmSync(folder, { recursive: true, force: true });
    if (!values.keep && rung.bytes > 1e9) rmSync(join(resolve(values.work), name), { recursive: true, force: true });
  }
}

/** @param {string | undefined} only names or beginnings of names, with = before those that have no more words @returns {(name: string) => boolean} */
function matcher(only) {
  const names = only
    ?.split(";")
    .flatMap((part) => part.split(","))
    .map((part) => part.trim());
  return (name) =>
    names?.some((one) => `=${name}` === one || `${name} `.startsWith(`${one} `) || name.startsWith(`${one},`)) ?? true;
}

/** @param {string} message @returns {Cell} */
const skipped = (message) => ({
  outcome: "skipped",
  message,
  seconds: 0,
  cpuSeconds: 0,
  peakBytes: 0,
  ownBytes: 0,
  command: "",
});

/**
 * @param {import("./watch.js").Ended} ended @param {{ outcome: Cell["outcome"], message: string }} verdict @param {string[]} command
 * @returns {Cell}
 */
function cellOf({ seconds, cpuSeconds, peakBytes, ownBytes }, { outcome, message }, command) {
  return {
    outcome,
    message: message.slice(0, 1000),
    seconds,
    cpuSeconds,
    peakBytes,
    ownBytes,
    command: command.join(" "),
  };
}

/**
 * Runs the steps of a row: the seconds of all, the most memory of one.
 * @param {import("./commands.js").Step[]} steps @param {Record<string, string>} env @param {Limits} limits @returns {Promise<Cell>}
 */
async function run(steps, env, { seconds, bytes, refusalSeconds }) {
  /** @type {Cell[]} */
  const cells = [];
  for (const { args, stdin, codes = [0], meanwhile } of steps) {
    const command = [CLI, ...args, "--json", "--quiet"];
    /** @type {string[]} */
    const answers = [];
    const ended = await watch(process.execPath, command, {
      seconds,
      bytes,
      ...(stdin === undefined ? {} : { stdin }),
      env,
      ...(meanwhile
        ? {
            meanwhile: (line, stop) => {
              if (isError(line)) return; // it ends by itself
              void ask(line)
                .then((answer) => answers.push(answer))
                .finally(stop);
            },
          }
        : {}),
    });
    const verdict = judge(ended, { codes: meanwhile ? [...codes, 130, 143] : codes, refusalSeconds });
    const wrong = verdict.outcome === "works" && meanwhile ? answers.find((answer) => answer !== "") : undefined;
    cells.push(
      cellOf(ended, wrong === undefined ? verdict : { outcome: "failed", message: wrong }, ["layergraft", ...args]),
    );
    if (verdict.outcome !== "works") break;
  }
  const last = cells.at(-1) ?? skipped("no steps");
  const sum = (/** @type {"seconds" | "cpuSeconds"} */ of) => cells.reduce((total, cell) => total + cell[of], 0);
  const most = (/** @type {"peakBytes" | "ownBytes"} */ of) => Math.max(...cells.map((cell) => cell[of]));
  return {
    ...last,
    seconds: sum("seconds"),
    cpuSeconds: sum("cpuSeconds"),
    peakBytes: most("peakBytes"),
    ownBytes: most("ownBytes"),
  };
}

/** What is wrong with a completion of the server whose line this is; "" if nothing. @param {string} line */
async function ask(line) {
  try {
    const { url } = JSON.parse(line);
    const body = JSON.stringify({ prompt: PROMPT, max_tokens: 4, temperature: 0 });
    const headers = { "content-type": "application/json" };
    const reply = await fetch(`${url}/v1/completions`, { method: "POST", body, headers });
    return reply.ok ? "" : `${reply.status}: ${await reply.text()}`;
  } catch (error) {
    return String(error);
  }
}
