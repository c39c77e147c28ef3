// When a run began, which chat templates may write: a resumed run keeps it.
import { readJsonObject, writeFileAtomically } from "../kit/files/index.js";
import { wallClock } from "./jinja/strftime.js";

/** Of a file with it, such as run.json of an evaluation. */
const MAX_BYTES = 10_000_000;

/**
 * The start that a file keeps as `started`, as a wall clock showed it, so that another time zone does not change the date. A file
 * without one, or that cannot be read, is written.
 * @param now the start, where the file has none
 */
export async function keepStart(file: string, now: Date): Promise<Date> {
  const { started } = await readJsonObject(file, MAX_BYTES).catch((): { started?: unknown } => ({}));
  const before = new Date(typeof started === "string" ? started : Number.NaN);
  if (!Number.isNaN(before.getTime())) return before;
  await writeFileAtomically(file, `${JSON.stringify({ started: wallClock(now) })}\n`);
  return now;
}
