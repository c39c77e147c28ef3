// What this machine lacks for a plan: cores, memory, Slurm, disk space.
import { stat, statfs } from "node:fs/promises";
import { availableParallelism, totalmem } from "node:os";
import { dirname } from "node:path";
import { exists } from "../../kit/files/index.js";
import { groupBy, LayergraftError } from "../../kit/index.js";
import { formatBytes, plural } from "../../kit/printing/index.js";
import { commandRunner } from "../execute/slurm-commands.js";
import type { ExperimentPlan } from "../plan/plan-schema.js";

/** What a plan's executor lacks on this machine. @param run for tests */
export async function machineNotes({ executor, evaluate }: ExperimentPlan, run = commandRunner()): Promise<string[]> {
  if (executor.kind === "slurm") {
    const missing = await run("sbatch", ["--version"]).then(
      () => [],
      (error: unknown) => (error instanceof LayergraftError ? [error.message] : []),
    );
    const { gpus = executor.gpus, partition = executor.partition } = executor.evaluate ?? {};
    const isGpu = gpus !== undefined || /gpu/i.test(partition ?? "");
    const idle =
      isGpu && evaluate.backend === "engine"
        ? [
            "evaluation steps ask for a GPU, but backend: engine runs on the CPU. Leave the GPU out, or use serve: with a server",
          ]
        : [];
    return [...missing, ...idle];
  }
  const [cores, memory] = [availableParallelism(), totalmem()];
  const resources = [
    ["cores", cores, String, plural(cores, "core")],
    ["total_cores", cores, String, plural(cores, "core")],
    ["memory", memory, formatBytes, formatBytes(memory)],
    ["total_memory", memory, formatBytes, formatBytes(memory)],
  ] as const;
  return resources.flatMap(([field, available, format, has]) => {
    const set = executor[field];
    if (set === undefined || set <= available) return [];
    return [`executor.${field} is ${format(set)}, but this machine has ${has}`];
  });
}

/** Problems of disks that have less space than the folders on them need. @param needs bytes by absolute folder */
export async function spaceProblems(needs: ReadonlyMap<string, number>): Promise<string[]> {
  const located = await Promise.all(
    [...needs].map(async ([folder, bytes]) => {
      let at = folder;
      while (!(await exists(at))) at = dirname(at);
      return { folder, bytes, at, disk: (await stat(at)).dev };
    }),
  );
  const problems: string[] = [];
  for (const alike of groupBy(located, ({ disk }) => disk).values()) {
    const bytes = alike.reduce((sum, one) => sum + one.bytes, 0);
    const { bavail, bsize } = await statfs(alike[0]?.at ?? "");
    const free = bavail * bsize;
    if (bytes <= free) continue;
    const folders = alike.map(({ folder }) => folder).join(" and ");
    problems.push(
      `the experiment needs about ${formatBytes(bytes)} in ${folders}, but only ${formatBytes(free)} are free`,
    );
  }
  return problems;
}
