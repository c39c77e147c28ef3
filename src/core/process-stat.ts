// What Linux tells of a process, for those that must know whether it lives, since when, or how it fares.
import { readFile } from "node:fs/promises";

/**
 * The fields of /proc/PID/stat from the state on, which is the third of proc_pid_stat(5); none where the system does not
 * tell, or there is no such process.
 */
export async function processStat(pid: number | string): Promise<readonly string[]> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The name, in parentheses, may hold anything but ends at the last one.
  return line === "" ? [] : line.slice(line.lastIndexOf(")") + 2).split(" ");
}
