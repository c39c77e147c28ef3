import { formatNumber, type ProgressDisplay } from "../../figures/index.js";
import { formatDuration, plural } from "../../kit/printing/index.js";
import type { FetchOptions } from "../check/facts-reader.js";
import type { Counts, RunEvent } from "../run/run-experiment.js";

/** `12 of about 130 steps done, 2 running, 1 failed` */
export function describeCounts(counts: Counts): string {
  const { done, waiting } = counts;
  const total = `${waiting > 0 ? "about " : ""}${totalOf(counts).toLocaleString("en-US")}`;
  return [`${done.toLocaleString("en-US")} of ${total} steps done`, ...openOf(counts)].join(", ");
}

const totalOf = ({ done, running, failed, left, waiting }: Counts) => done + running + failed + left + waiting;

const openOf = ({ running, failed }: Counts) => [
  ...(running > 0 ? [`${running} running`] : []),
  ...(failed > 0 ? [`${failed} failed`] : []),
];

/**
 * Shows the events of a run on a display.
 * @param lineOf the line that an event leaves; none if it is empty
 */
export function progressOf(
  display: Pick<ProgressDisplay, "update" | "note">,
  lineOf: (event: EndEvent) => string = noteOf,
): (event: RunEvent, counts: Counts) => void {
  const running = new Map<string, string>();
  /** Many steps have the same. */
  const noted = new Set<string>();
  return (event, counts) => {
    const { key, label } = event;
    if (event.event === "started") running.set(key, label);
    else if (event.event === "progress") {
      const what = event.what === "" ? "" : ` (${event.what})`;
      running.set(key, `${Math.round(100 * event.share)}% ${label}${what}`);
    } else {
      running.delete(key);
      const line = lineOf(event);
      if (line !== "") display.note(line);
      for (const text of event.event === "done" ? (event.notes ?? []) : []) {
        if (!noted.has(text)) display.note(`note    ${label}: ${text}`);
        noted.add(text);
      }
    }
    const detail = [openOf(counts).join(", "), ...running.values()].filter((part) => part !== "").join("  ");
    display.update({ phase: "steps", done: counts.done, total: totalOf(counts), detail });
  };
}

/** Shows the downloads before the first step on a display. */
export function downloadsOn(display: Pick<ProgressDisplay, "update">): NonNullable<FetchOptions["onProgress"]> {
  return ({ source, done, total }) =>
    display.update({ phase: "downloading", done, total, unit: "bytes", detail: source });
}

type EndEvent = Exclude<RunEvent, { event: "started" | "progress" }>;

/** `done    train math-1 (1.5 s)` */
export function noteOf(event: EndEvent): string {
  const { label } = event;
  if (event.event !== "done") {
    if (event.event === "failed") return `failed  ${label}: ${event.reason}`;
    return event.reason === "stopped" ? `stopped ${label}` : `retry   ${label}: ${event.reason}`;
  }
  const { score: share, scale = "share" } = event;
  const value = share === undefined || scale === "share" ? share : 100 * share;
  // The report's table may be of fewer items, if a search saw the others.
  const items = event.items === undefined ? "" : ` on ${plural(event.items, "item")}`;
  const score = value === undefined ? "" : `${formatNumber({ value, scale })}${items}, `;
  return `done    ${label} (${score}${formatDuration(event.seconds)})`;
}
