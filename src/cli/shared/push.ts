import { CancelledError, LayergraftError, usageError } from "../../kit/index.js";
import { commandLine } from "../../kit/printing/index.js";
import { checkPush, pushLines } from "../../merge/output/index.js";
import { type PushResult, push } from "../../verbs/index.js";
import { type CommonOptions, info, interruptSignal, print, runWithProgress } from "./output.js";
import { adding } from "./typed.js";

/** As JSON has it; notes are printed. */
type Pushed = Omit<PushResult, "notes" | "warnings">;

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
export async function pushResult(out: string, flags: PushFlags): Promise<{ readonly push?: Pushed }> {
  if (flags.push === undefined) return {};
  try {
    const { notes: _notes, warnings: _warnings, ...pushed } = await runPush(out, flags);
    return { push: pushed };
  } catch (error) {
    if (!(error instanceof LayergraftError)) throw error;
    const again = commandLine`push ${out} ${flags.push} ${flags.private ? ["--private"] : []}`;
    const message = `${error.message}\n${out} is complete. Push it with: ${again}`;
    if (error instanceof CancelledError) throw new CancelledError(message, error.where);
    throw new LayergraftError(error.code, message, error.where, error);
  }
}

async function runPush(
  folder: string,
  { push: name = "", private: isPrivate, ...common }: PushFlags,
): Promise<PushResult> {
  const result = await runWithProgress(common, ({ signal, onProgress }) =>
    push({ source: folder, name, private: isPrivate }, { signal, onProgress }),
  );
  for (const note of result.notes) info(common, `note: ${note}`);
  return result;
}

export function printPush(result: Pushed): void {
  print(pushLines(result));
}
