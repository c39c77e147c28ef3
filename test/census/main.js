// Census of the families of transformers: npm run census. Needs a Python with torch and transformers, LAYERGRAFT_PYTHON.
import { fork } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { Python } from "./python.js";
import { RESULTS, readRows } from "./rows.js";

const { values: options } = parseArgs({
  options: {
    only: { type: "string", default: "" },
    workers: { type: "string", default: String(availableParallelism()) },
    out: { type: "string", default: RESULTS },
    keep: { type: "boolean", default: false },
    resume: { type: "boolean", default: false },
    place: { type: "boolean", default: false },
  },
});

/** @param {string} message @returns {never} */
function fail(message) {
  console.error(message);
  process.exit(1);
}

if (!existsSync(new URL("../../dist/index.js", import.meta.url))) fail("build first: npm run build");

const command = process.env.LAYERGRAFT_PYTHON ?? "python3";
const python = new Python(command);
/** @type {import("./family.js").Family[]} */
const all = await python.ask("families", {}).catch((error) => fail(error.message));
python.close();
const done = new Set(existsSync(options.out) ? readRows(options.out).map(({ id }) => id) : []);
const wanted = options.only === "" ? all : options.only.split(",").flatMap((id) => all.filter((one) => one.id === id));
const queue = wanted.filter(({ id }) => !(options.resume && done.has(id)));
const tried = queue.length;
const from = performance.now();

const settings = JSON.stringify({ ...options, python: command });
const start = () => fork(fileURLToPath(new URL("family.js", import.meta.url)), [settings]);

/** Gives families to a process of its own until none is left. */
async function work() {
  let child = start();
  for (let family = queue.shift(); family; family = queue.shift()) {
    child.send(family);
    const ended = once(child, "exit").then(() => [{ ...family, outcomes: {}, error: "its process ended" }]);
    /** @type {import("./family.js").Row[]} */
    const [row] = await Promise.race([once(child, "message"), ended]);
    if (!row) continue;
    if (child.exitCode !== null) child = start();
    appendFileSync(options.out, `${JSON.stringify(row)}\n`);
    const bad = Object.entries(row.outcomes).filter(([, { state }]) => state !== "works");
    const said = bad.map(([name, { state, details }]) => `\n    ${name} ${state}: ${details.join("; ")}`).join("");
    console.log(`${family.id} ${row.seconds?.toFixed(1)} s${row.error ? ` ERROR ${row.error}` : ""}${said}`);
  }
  if (child.connected) child.disconnect();
}

await Promise.all(Array.from({ length: Math.min(Number(options.workers), queue.length) }, work));
console.log(`${tried} families in ${((performance.now() - from) / 1000).toFixed(0)} s; ${options.out}`);
