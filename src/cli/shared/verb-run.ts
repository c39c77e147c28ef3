// Runs a verb as a command: progress, notes and output.
import { type Shown, type ShownProgress, shownLines } from "../../figures/index.js";
import { type Progress, usageError } from "../../kit/index.js";
import type { Controls, Located, Noted, Verb, WorkOptions } from "../../verbs/shared/index.js";
import { asFlag } from "./advice.js";
import { asTyped } from "./command-name.js";
import { hubAccess } from "./hub-access.js";
import { elapsed, hasColors, info, paletteFor, print, printJson, runWithProgress, warn } from "./output.js";
import { checkPushFlags, printPush, pushResult } from "./push.js";
import { type Extra, type Flags, type Input, withFlags } from "./verb-flags.js";

/** Asks for --out, but says first what is wrong with the input, where its verb can be planned without. */
export async function planMissingOut(verb: Verb, located: Located<Input>, flags: Flags): Promise<never> {
  const { plansFirst, writes, flags: spelled } = verb.terminal;
  if (plansFirst) await runPlanned(verb, located, flags);
  const out = (spelled?.out?.value ?? "folder").toUpperCase();
  throw usageError(`Missing --out. Pass --out ${out} to write ${writes}, or --dry-run to print the plan.`);
}

/** Runs a verb, or prints its plan. */
export async function carryOut(
  verb: Verb,
  { input, ...places }: Located<Input>,
  flags: Flags,
  extra?: Extra,
): Promise<void> {
  const start = performance.now();
  const { terminal, options } = verb;
  if (flags.dryRun && verb.plan) return runPlan(verb, { input, ...places }, flags);
  if (terminal.pushed) await checkPushFlags(flags);
  const said = new Set<string>();
  const result = await runWithProgress(
    flags,
    ({ onNote, onProgress, clear = () => undefined, ...controls }) => {
      const note = (text: string) => {
        if (!flags.quiet) said.add(text.replace(/^(?:note|warning): /, ""));
        onNote?.(withFlags(verb, text));
      };
      const update = (progress: Progress) => {
        const shown: ShownProgress & Progress = {
          ...progress,
          ...(terminal.detail ? { detail: terminal.detail(progress) } : {}),
        };
        onProgress?.(shown);
      };
      const onPlan = (planned: unknown) => announce(verb, planned, input, flags, said);
      const given = Object.keys(options).flatMap((name) => (flags[name] === undefined ? [] : [[name, flags[name]]]));
      const work = Object.fromEntries(given) as WorkOptions;
      const hub = hubAccess(verb.fetch, { signal: controls.signal, onProgress, ...(onNote ? { onNote } : {}) });
      const own = {
        onNote: note,
        onProgress: update,
        onPlan,
        say: asFlag,
        ...extra?.controls?.(flags, clear, input as never),
      };
      return verb.run(input, { ...places, ...controls, ...work, ...own, hub });
    },
    terminal.waitsFor,
  );
  await printResult(verb, result, { input, flags, start, said, extra });
  if (terminal.isFailure?.(result)) process.exitCode = 1;
}

/** Prints what is about to be done, on stderr. */
function announce(verb: Verb, planned: unknown, input: Input, flags: Flags, said: Set<string>): void {
  const { notes = [], warnings = [] } = Object(planned) as Partial<Noted>;
  if (!verb.plan?.title) return;
  const title = verb.plan.title(input);
  const lines = linesOf(verb.plan.show(planned, input), process.stderr);
  info(flags, [...(title === "" ? lines : [paletteFor(process.stderr).bold(title), ...lines, ""])].join("\n"));
  for (const warning of warnings) warn(warning);
  for (const text of [...notes, ...warnings]) said.add(text);
}

async function printResult(
  verb: Verb,
  result: Noted,
  {
    input,
    flags,
    start,
    said,
    extra,
  }: { input: Input; flags: Flags; start: number; said: ReadonlySet<string>; extra?: Extra | undefined },
): Promise<void> {
  const { terminal } = verb;
  const seconds = () => (performance.now() - start) / 1000;
  for (const warning of result.warnings) if (!said.has(warning)) warn(warning);
  await extra?.finished?.(result as never, input as never);
  const held = flags.push === undefined ? undefined : terminal.heldBack?.(result, input);
  const pushed = async (): Promise<Awaited<ReturnType<typeof pushResult>>> =>
    terminal.pushed && held === undefined ? pushResult(terminal.pushed(result, input), flags) : {};
  if (held !== undefined) warn(withFlags(verb, held));
  if (held !== undefined) process.exitCode = 1;
  if (await extra?.printed?.(result as never, input as never, flags)) {
    // It is.
  } else if (flags.json) {
    const shown = terminal.json ? terminal.json(result, seconds(), input) : result;
    printJson(Array.isArray(shown) ? shown : { ...Object(shown), ...(await pushed()) });
  } else {
    const lines = linesOf(verb.show(result, input, seconds()), process.stdout);
    if (lines.length > 0) print(lines);
  }
  for (const note of result.notes) if (!said.has(note)) info(flags, `note: ${withFlags(verb, note)}`);
  for (const line of terminal.closing?.(result, input, elapsed(start)) ?? []) info(flags, withFlags(verb, line));
  if (flags.json) return;
  const { push } = await pushed();
  if (push) printPush(push);
}

function runPlanned({ plan, terminal }: Verb, { input, ...places }: Located<Input>, flags: Flags): Promise<unknown> {
  return runWithProgress(
    flags,
    async (controls) =>
      plan?.run(input, { ...places, ...controls, say: asFlag, hub: hubAccess("plan", controls) } as Controls),
    terminal.waitsFor,
  );
}

async function runPlan(verb: Verb, { input, ...places }: Located<Input>, flags: Flags): Promise<void> {
  const { plan } = verb;
  if (!plan) return;
  const planned = await runPlanned(verb, { input, ...places }, flags);
  const { notes = [], warnings = [] } = Object(planned) as Partial<Noted>;
  const pushed = verb.terminal.pushed === undefined ? undefined : (flags.push as string | undefined);
  const to = pushed === undefined ? {} : { push: { name: pushed, private: flags.private === true } };
  if (flags.json) printJson({ ...Object(plan.json ? plan.json(planned, input) : planned), ...to });
  else print(linesOf(plan.show(planned, input), process.stdout));
  if (pushed !== undefined && !flags.json)
    print([`then push to ${pushed}${flags.private === true ? " (private)" : ""}`]);
  for (const note of flags.json ? notes : []) info(flags, `note: ${note}`);
  for (const warning of warnings) warn(warning);
  for (const line of plan.closing?.(planned, input) ?? []) if (!flags.json) info(flags, withFlags(verb, line));
  plan.refuse?.(planned, input);
}

function linesOf(shown: readonly Shown[], stream: NodeJS.WriteStream): string[] {
  const typed = shown.map((one) => (one.kind === "text" ? { ...one, lines: one.lines.map(asTyped) } : one));
  return shownLines(typed, { palette: paletteFor(stream), hasColours: hasColors(stream) });
}
