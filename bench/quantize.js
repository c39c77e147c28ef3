// The kernels of the block encodings alone, on one thread: nanoseconds a weight, the least of many rounds, as other work on
// the machine only adds to them. With --against, the kernels.wasm of another build takes turns, and its bytes are compared.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ENCODINGS } from "#kernels";
import { randomWeights } from "./checkpoints.js";
import { describeMachine } from "./measure.js";

const BUILT = fileURLToPath(new URL("../dist/kernels/kernels.wasm", import.meta.url));
const COUNT = 2 ** 15;

/** @param {string[]} args */
export function benchmarkQuantize(args) {
  const { values } = parseArgs({
    args,
    options: { rounds: { type: "string", default: "40" }, against: { type: "string" } },
  });
  console.log(`machine: ${describeMachine()}\n`);
  const builds = [BUILT, ...(values.against ? [values.against] : [])].map(load);
  for (const [encoding, { elements, bytes }] of Object.entries(ENCODINGS).filter(([, { elements }]) => elements > 1)) {
    const nanoseconds = builds.map(() => Number.POSITIVE_INFINITY);
    for (let round = 0; round < Number(values.rounds); round++) {
      builds.forEach(({ run, x, to }, i) => {
        const start = performance.now();
        run[`quantize${encoding}`](x, to, COUNT / elements);
        const passed = ((performance.now() - start) * 1e6) / COUNT;
        nanoseconds[i] = Math.min(nanoseconds[i] ?? passed, passed);
      });
    }
    const [first, ...others] = builds.map(({ run, to }) =>
      Buffer.from(run.memory.buffer, to, (COUNT / elements) * bytes),
    );
    const same = others.map((other) => (first?.equals(other) ? ", the same bytes" : ", OTHER BYTES"));
    console.log(`${encoding}  ${nanoseconds.map((one) => one.toFixed(2)).join(" against ")} ns a weight${same}`);
  }
}

/** An instance with weights at `x`. @param {string} file */
function load(file) {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(file)));
  const run = /** @type {any} */ (exports);
  run.memory.grow(8);
  const x = Math.ceil(run.heapBase() / 32) * 32;
  const to = x + COUNT * 4;
  new Uint8Array(run.memory.buffer, to).set(randomWeights(COUNT, 1));
  run.scaleBF16(to, x, COUNT, 1);
  return { run, x, to };
}
