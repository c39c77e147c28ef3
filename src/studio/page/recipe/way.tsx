// A way to leave with a result: its form and command, what was made, and whether that is of the recipe as it is now.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { formatBytes, formatDuration } from "../../../kit/printing/format.js";
import { type Input, type Job, recipeSource } from "../../protocol/index.js";
import { Button, Notice } from "../components/basics.js";
import { TextField } from "../components/inputs.js";
import { Command } from "../components/progress.js";
import { attempt, fingerprints, isStale, jobs, project } from "../store.js";
import { JobNotes, JobOutcome } from "./outcome.js";
import { refusal, startSaved as start, whenSaved } from "./recipe-store.js";

export type Started = Extract<Input<"job.start">, { kind: "merge" | "export" }>;

export interface Again {
  readonly force?: boolean;
  readonly allowUnrelated?: boolean;
}

/** What was made of the recipe at some time. */
type Dated = Pick<Job, "fingerprints">;

interface MadeProps {
  readonly of: Dated | Job;
  readonly text: string;
  /** Where it is on this machine. */
  readonly path?: string | undefined;
  /** What to do with it, and the command. */
  readonly next?: readonly [text: string, ...words: string[]];
  /** What else can follow. */
  readonly children?: ComponentChildren;
}

/** What was made of the recipe, where it is and what can follow; or that it is not of the recipe as it is now. */
export function Made({ of, text, path, next, children }: MadeProps) {
  const late = expired(of);
  return (
    <>
      {late === null ? (
        <p role="status" class="soft">
          {text}
        </p>
      ) : (
        <Notice kind="caution" text={`${text} ${late}`} />
      )}
      {path === undefined ? null : <p class="path">{path}</p>}
      <div class="row">
        {path === undefined ? null : (
          <Button text="Copy the path" onClick={() => attempt(() => navigator.clipboard.writeText(path))} />
        )}
        {late === null ? children : null}
      </div>
      {late === null && next ? (
        <>
          <p class="small soft">{next[0]}</p>
          <Command words={next.slice(1)} />
        </>
      ) : null}
    </>
  );
}

/** Why what was made is not that of the recipe as it is now; null if it is. */
export function expired(made: Dated | Job): string | null {
  // Earlier versions of the studio did not note what a job was about.
  if (made.fingerprints === undefined || isStale(made)) {
    return "It is of an earlier version of the recipe or its models. Make it again.";
  }
  const isOver = (one: Job, other: Job) =>
    one.kind === other.kind && one.state === "done" && one.started > other.started && pathOf(one) === pathOf(other);
  const isReplaced = "id" in made && jobs.value.some((one) => isOver(one, made));
  return isReplaced ? "Another recipe was written to this place since. Make it again." : null;
}

interface LatestProps extends Omit<MadeProps, "of" | "text"> {
  readonly job: Job | undefined;
  /** What it is a result of, if that is not the recipe. */
  readonly of?: Job | undefined;
  readonly again?: (how: Again) => Started;
  readonly done?: string;
}

/** The latest job of a kind for a recipe, how it went, and what can follow. */
export function Latest({ job, of = job, again, done = "Written", ...rest }: LatestProps) {
  if (!job || !of) return null;
  const { state, option, error, started, ended, made } = job;
  if (state === "done") {
    const size = made ? `: ${formatBytes(made.bytes)}` : "";
    const text = `${done} in ${formatDuration(((ended ?? started) - started) / 1000)}${size}.`;
    return (
      <>
        <Made {...rest} of={of} text={text} />
        <JobNotes job={job} />
      </>
    );
  }
  // What went wrong with an earlier version may not any more.
  if (state !== "running" && expired(of) !== null) return null;
  if (again && state === "failed" && option !== undefined) {
    const isThere = option === "force";
    return (
      <Notice kind="problem" text={isThere ? "There is already one at this place." : error}>
        <Button
          text={isThere ? "Replace what is there" : "Merge them anyway"}
          class="danger"
          onClick={() => start(again({ [option]: true }))}
        />
      </Notice>
    );
  }
  return <JobOutcome job={job} />;
}

/** Where a merge or an export was written: absolute, so that recipes find it, too. */
export function pathOf(job: Job | undefined): string | undefined {
  const { out } = (job?.input ?? {}) as { out?: string };
  return out === undefined || /^([/~]|[A-Za-z]:)/.test(out) ? out : `${project.value?.folder}/${out}`;
}

interface SubmitProps {
  readonly text: string;
  readonly class?: string;
  /** Why this way is closed, where the recipe leaves it open. */
  readonly closed?: string | false | undefined;
  readonly isBusy?: boolean | undefined;
}

/** The button of a way; it is closed, and says why, where nothing can be made of the recipe. */
export function Submit({ text, closed, isBusy = false, ...rest }: SubmitProps) {
  const why = refusal.value ?? (closed || null);
  return (
    <>
      <Button {...rest} text={text} type="submit" disabled={isBusy || why !== null} />
      {why === null ? null : <p class="soft">{why}</p>}
    </>
  );
}

/** What an operation made of a recipe, with the recipe as it was then. */
export function useMade<T extends object>(recipe: string) {
  const [made, setMade] = useState<(T & Dated) | null>(null);
  const make = (work: () => Promise<T>) =>
    whenSaved(async () => {
      setMade(null);
      const source = recipeSource(recipe);
      const then = { [source]: fingerprints.peek()[source] ?? null };
      setMade({ ...(await work()), fingerprints: then });
    });
  return [made, make] as const;
}

interface WayProps {
  readonly title: string;
  readonly text: string;
  readonly command: readonly string[];
  readonly children: ComponentChildren;
}

/** A way to leave: what it makes, its form, and the command that does the same. */
export function Way({ title, text, command, children }: WayProps) {
  return (
    <article class="card way" aria-label={title}>
      <h2>{title}</h2>
      <p class="soft">{text}</p>
      {children}
      <details>
        <summary>Command</summary>
        <Command words={["layergraft", ...command]} />
      </details>
    </article>
  );
}

export const pathField = (label: string, value: string, onChange: (value: string) => void, hint: string) => (
  <TextField {...{ label, value, onChange, hint, isCode: true, required: true }} />
);
