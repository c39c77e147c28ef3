// The errors that layergraft throws: typed, with fields, and a message with what to do.

/** Location of an error; unknown fields are missing. */
export interface ErrorWhere {
  /** Absolute or user-given path of the file or folder with the problem. */
  readonly file?: string;
  /** Name of the tensor with the problem. */
  readonly tensor?: string;
  /** Configuration or recipe field with the problem. */
  readonly field?: string;
  /** What was expected. */
  readonly expected?: string;
  /** What was found. */
  readonly actual?: string;
  /** Option that solves the problem, as the library names it, such as `force`; the command line names its flag. */
  readonly option?: string;
  /** Value for that option, where one of several solves it. */
  readonly value?: string;
}

/** Base of all errors of layergraft. `code` is stable across versions; the message is for people. */
export class LayergraftError extends Error {
  readonly code: string;
  readonly where: ErrorWhere;

  constructor(code: string, message: string, where: ErrorWhere = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    this.code = code;
    this.where = where;
  }

  /** All that is wrong, each in a sentence. */
  get reasons(): readonly string[] {
    return [this.message];
  }
}

/** An error of code `usage`: options or arguments that are not valid. */
export function usageError(message: string, where: ErrorWhere = {}, cause?: unknown): LayergraftError {
  return new LayergraftError("usage", message, where, cause);
}

/** A safetensors file or index that breaks the format. */
export class FormatError extends LayergraftError {
  constructor(message: string, where: ErrorWhere = {}, cause?: unknown) {
    super("format", message, where, cause);
  }
}

/** A checkpoint folder, adapter or configuration that cannot be used. */
export class CheckpointError extends LayergraftError {
  constructor(message: string, where: ErrorWhere = {}, cause?: unknown) {
    super("checkpoint", message, where, cause);
  }
}

/** A repository of the Hugging Face hub that cannot be read. */
export class HubError extends LayergraftError {
  constructor(message: string, where: ErrorWhere = {}, cause?: unknown) {
    super("hub", message, where, cause);
  }
}

/** A graph that cannot be written, loaded or run. `where.tensor` is the node or tensor with the problem, if that is known. */
export class RuntimeError extends LayergraftError {
  constructor(message: string, where: ErrorWhere = {}, cause?: unknown) {
    super("runtime", message, where, cause);
  }
}

/** ONNX Runtime is not installed, or has no binary that runs here. */
export class RuntimeMissingError extends RuntimeError {}

/** A message lists so many problems and counts the others. */
const MAX_PROBLEMS = 20;
const MAX_CHARACTERS = 500;

function listed(summary: string, problems: readonly string[]): string {
  const more = problems.length - MAX_PROBLEMS;
  const lines = problems
    .slice(0, MAX_PROBLEMS)
    .map((problem) => `  - ${problem.length > MAX_CHARACTERS ? `${problem.slice(0, MAX_CHARACTERS)}...` : problem}`);
  return [summary, ...lines, ...(more > 0 ? [`  and ${more.toLocaleString("en-US")} more`] : [])].join("\n");
}

/** A problem of a file. */
export interface LocatedProblem {
  readonly line?: number | undefined;
  readonly message: string;
}

/** `line 3: must be a number` */
export function formatLocated({ line, message }: LocatedProblem): string {
  return line === undefined ? message : `line ${line}: ${message}`;
}

/** An error with all of its problems; the message has the summary and the problems. */
export class ProblemsError extends LayergraftError {
  readonly summary: string;
  readonly problems: readonly string[];

  constructor(code: string, summary: string, problems: readonly string[], where: ErrorWhere) {
    super(code, listed(summary, problems), where);
    this.summary = summary;
    this.problems = problems;
  }

  override get reasons(): readonly string[] {
    return this.problems.length > 0 ? this.problems : [this.summary];
  }
}

/** Incompatible checkpoints; `problems` lists all reasons. */
export class MismatchError extends ProblemsError {
  constructor(summary: string, problems: readonly string[], where: ErrorWhere = {}) {
    super("mismatch", summary, problems, where);
  }
}

/** An invalid recipe, option or argument; `problems` lists all problems. */
export class RecipeError extends ProblemsError {
  /** The problems and their lines. */
  readonly located: readonly LocatedProblem[];

  constructor(summary: string, problems: readonly (string | LocatedProblem)[] = [], where: ErrorWhere = {}) {
    const located = problems.map((problem) => (typeof problem === "string" ? { message: problem } : problem));
    super("recipe", summary, located.map(formatLocated), where);
    this.located = located;
  }

  /** An error at one place, such as a field. */
  static at(where: ErrorWhere, message: string): RecipeError {
    return new RecipeError(message, [], where);
  }
}

/** An output that cannot be written. */
export class OutputError extends LayergraftError {
  constructor(message: string, where: ErrorWhere = {}, cause?: unknown) {
    super("output", message, where, cause);
  }

  /** The error of a run whose output was deleted before it was complete. */
  static deleted(file: string, cause?: unknown): OutputError {
    return new OutputError(`${file} was deleted during the run. Run again.`, { file }, cause);
  }
}

/** The disk or the user's quota is full. */
export class DiskFullError extends OutputError {
  constructor(message = "the disk is full; free some space and run again", where: ErrorWhere = {}, cause?: unknown) {
    super(message, where, cause);
  }

  /** Whether this is the file system's error for a full disk or quota. */
  static isMeantBy(error: unknown): boolean {
    return isSystemError(error, "ENOSPC") || isSystemError(error, "EDQUOT");
  }
}

/** The caller's signal, or Ctrl-C, stopped the work. */
export class CancelledError extends LayergraftError {
  constructor(message: string, where: ErrorWhere = {}) {
    super("cancelled", message, where);
  }
}

/**
 * Whether an allocation failed: of an array or a WebAssembly memory. V8 throws a RangeError for both, as for lengths that no memory
 * can have.
 */
export function isOutOfMemory(error: unknown): boolean {
  return error instanceof RangeError && /allocat|out of memory|grow memory|memory\.grow/i.test(error.message);
}

/** What to do where an allocation failed. */
export const OUT_OF_MEMORY =
  "not enough memory, or address space (ulimit -v). Close other programs, raise the limit, or use fewer threads and a smaller memory budget.";

/** Whether a caught value is an error of the operating system. */
export function isAnySystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && "syscall" in error && "code" in error;
}

/** The message for an error of the operating system, with what to do. */
export function systemMessage(error: NodeJS.ErrnoException): string {
  const path = error.path ?? "the file";
  const sentences: Readonly<Record<string, string>> = {
    ENOENT: `${path} does not exist`,
    ENOTDIR: `${path} cannot be opened: part of its path is a file, not a folder`,
    EISDIR: `${path} is a folder; a file is needed`,
    EEXIST: `${path} already exists; choose another name`,
    EACCES: `no permission for ${path}; check its owner and mode`,
    EPERM: `no permission for ${path}; check its owner and mode`,
    EROFS: `${path} is on a read-only file system; choose another folder`,
    ELOOP: `${path} is a symbolic link that leads back to itself; replace it with the file`,
    ENAMETOOLONG: `the name ${path.length > 80 ? `${path.slice(0, 80)}…` : path} is too long for this file system`,
    ENOSPC: `no room for ${path}: the disk is full. Free some space and run again.`,
    EDQUOT: `no room for ${path}: your disk quota is used up. Free some space and run again.`,
    EFBIG: `${path} is larger than a file may be here. Raise the limit (ulimit -f), choose another disk, or write smaller files.`,
    EMFILE: "too many open files; raise the limit with ulimit -n and run again",
    ENXIO: `${path} is a device that is not there, or a socket; give a regular file`,
    EIO: `the disk failed while reading or writing ${path}; check the disk, then run again`,
  };
  return (error.code !== undefined && Object.hasOwn(sentences, error.code) && sentences[error.code]) || error.message;
}

/** The message of any caught value: that of `systemMessage` for an error of the operating system. */
export function messageOf(error: unknown): string {
  if (isAnySystemError(error)) return systemMessage(error);
  return error instanceof Error ? error.message : String(error);
}

/** Whether a caught value is a Node.js system error with this code, such as "ENOENT". */
export function isSystemError(error: unknown, code: string): error is NodeJS.ErrnoException {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === code;
}
