// The process of a Slurm job: runs the step of one folder. Its script saves output and exit code.
import { LayergraftError, messageOf } from "../../kit/index.js";
import { write } from "../../kit/printing/index.js";
import { END_SIGNALS } from "../../kit/stopping/index.js";
import { runStepFolder } from "../steps/run-step.js";
import { EXIT_AGAIN } from "./slurm-text.js";

/** Milliseconds between lines of progress. */
const INTERVAL = 30_000;

const [folder] = process.argv.slice(2);
const controller = new AbortController();
for (const signal of END_SIGNALS) process.once(signal, () => controller.abort());

let printed = Number.NEGATIVE_INFINITY;
function printProgress(share: number, what: string): void {
  if (performance.now() - printed < INTERVAL) return;
  printed = performance.now();
  write(process.stdout, `${new Date().toISOString()} ${Math.round(100 * share)}% ${what}\n`);
}

if (folder === undefined) {
  write(process.stderr, "missing argument: folder of a step\n");
  process.exitCode = 2;
} else {
  try {
    const onNote = (note: string) => write(process.stdout, `note: ${note}\n`);
    await runStepFolder(folder, { signal: controller.signal, onProgress: printProgress, onNote });
  } catch (error) {
    write(process.stderr, `${messageOf(error)}\n`);
    const isHeld = error instanceof LayergraftError && error.code === "locked";
    process.exitCode = isHeld || controller.signal.aborted ? EXIT_AGAIN : 1;
  }
}
