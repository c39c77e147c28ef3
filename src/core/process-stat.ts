import { readFile } from "node:fs/promises";

/**
 * The fields of /proc/PID/stat from the state, which is field 3 of proc_pid_stat(5); none on other systems than Linux, or if
 * there is no such process.
 */
export async function processStat(pid: number | string): Promise<readonly string[]> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The name, in parentheses, may contain anything and ends at the last one.
  return line === "" ? [] : line.slice(line.lastIndexOf(")") + 2).split(" ");
}
