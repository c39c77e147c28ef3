import { CancelledError, LayergraftError, usageError } from "../../kit/index.js";
import { commandLine, formatBytes, plural } from "../../kit/printing/index.js";
import { checkPush, type PushResult, pushNotes } from "../../merge/output/index.js";
import { type PushOptions, push } from "../../verbs/index.js";
import { type CommonOptions, info, interruptSignal, print, runWithProgress } from "./output.js";
import { adding } from "./typed.js";

export interface PushFlags extends CommonOptions {
  readonly push?: string;
  readonly private?: boolean;
}

/** Adds `PushFlags`. */
export const withPushOptions = adding<Pick<PushFlags, "push" | "private">>((command) =>
  command
    .option("--push <org/name>", "push the result to this repository on the Hugging Face hub")
    .option("--private", "create the repository as private; needs --push"),
);

/** Checks before the work that its result can be pushed. */
export async function checkPushFlags(flags: PushFlags): Promise<void> {
  if (flags.push === undefined) {
    if (flags.private) throw usageError("--private needs --push.");
    return;
  }
  await checkPush({ name: flags.push, private: flags.private }, interruptSignal());
}

/** Pushes a result that is complete, if the flags say so. An error says how to push it again. */
export async function pushResult(out: string, flags: PushFlags): Promise<{ readonly push?: PushResult }> {
  if (flags.push === undefined) return {};
  try {
    return { push: await runPush(out, { name: flags.push, private: flags.private }, flags) };
  } catch (error) {
    if (!(error instanceof LayergraftError)) throw error;
    const again = commandLine`push ${out} ${flags.push} ${flags.private ? ["--private"] : []}`;
    const message = `${error.message}\n${out} is complete. Push it with: ${again}`;
    if (error instanceof CancelledError) throw new CancelledError(message, error.where);
    throw new LayergraftError(error.code, message, error.where, error);
  }
}

export async function runPush(
  folder: string,
  options: Omit<PushOptions, "signal" | "onProgress">,
  common: CommonOptions,
): Promise<PushResult> {
  const result = await runWithProgress(common, ({ signal, onProgress }) =>
    push(folder, { ...options, signal, onProgress }),
  );
  for (const note of pushNotes(result)) info(common, `note: ${note}`);
  return result;
}

export function printPush({ url, sent, unchanged, removed, bytes, commit }: PushResult): void {
  const others = [
    ...(unchanged.length > 0 ? [`${plural(unchanged.length, "file")} unchanged`] : []),
    ...(removed.length > 0 ? [`${plural(removed.length, "old weight file")} removed`] : []),
  ];
  const what = [`${plural(sent.length, "file")} (${formatBytes(bytes)})`, ...others].join(", ");
  if (commit === null) print(`Would push to ${url}: ${what}`);
  else if (sent.length + removed.length === 0) print(`${url} is already up to date`);
  else print(`Pushed to ${url}: ${what}`);
}
