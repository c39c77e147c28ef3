// Bounds the time of synchronous work that strangers decide, such as their regular expressions and templates. Bounds no
// memory, and nothing that awaits.
import vm from "node:vm";

/** What work is given that a sound file's does in milliseconds. */
export const PATIENCE_SECONDS = 10;

/** Work that took longer than it was given. */
export class TimeLimitError extends Error {}

// Only such a script can be stopped in the midst of a regular expression; all that it does is to call back.
const script = new vm.Script("work()");
const context: { work?: () => void } = vm.createContext(Object.create(null));

/**
 * Does some work, and stops it where it takes too long. Costs about 20 microseconds.
 * @param work it is begun again where the process did not compute meanwhile
 * @param attempts how often at the most; 1 for work that must not be begun twice, as it keeps what it was told
 * @throws {TimeLimitError} if it took longer than `seconds`
 */
export function withinSeconds<T>(seconds: number, work: () => T, attempts = 3): T {
  let result: { value: T } | undefined;
  const { work: outer } = context;
  context.work = () => {
    result = { value: work() };
  };
  const before = process.cpuUsage();
  try {
    script.runInContext(context, { timeout: Math.ceil(1000 * seconds) });
  } catch (error) {
    if ((error as NodeJS.ErrnoException | null)?.code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
    // A process that was stopped, or a machine that slept, has not computed for so long.
    const { user, system } = process.cpuUsage(before);
    if (attempts > 1 && user + system < 0.5e6 * seconds) return withinSeconds(seconds, work, attempts - 1);
    throw new TimeLimitError(`took longer than ${seconds} s`, { cause: error });
  } finally {
    if (outer) context.work = outer;
    else delete context.work;
  }
  return (result as { value: T }).value;
}
