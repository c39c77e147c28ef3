// A job's process: runs the step of the folder that it is given, and leaves. What it says goes to the step's log; the
// script that started it notes how it ended. For clusters (slurm.ts).
import { LayergraftError } from "../../core/index.js";
import { runStepFolder } from "../steps/run-step.js";
import { EXIT_AGAIN } from "./slurm-text.js";

/** How often a line on progress is written, in milliseconds. */
const SAY_EVERY = 30_000;

const [folder] = process.argv.slice(2);
const controller = new AbortController();
for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => controller.abort());

let said = 0;
function tell(share: number, what: string): void {
  if (Date.now() - said < SAY_EVERY) return;
  said = Date.now();
  process.stdout.write(`${new Date(said).toISOString()} ${Math.round(100 * share)}% ${what}\n`);
}

if (folder === undefined) {
  process.stderr.write("give the folder of a step\n");
  process.exitCode = 2;
} else {
  try {
    await runStepFolder(folder, { signal: controller.signal, onProgress: tell });
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    const isHeld = error instanceof LayergraftError && error.code === "locked";
    process.exitCode = isHeld || controller.signal.aborted ? EXIT_AGAIN : 1;
  }
}
