// Commands in messages, as they must be typed where layergraft was started.
import { existsSync, realpathSync } from "node:fs";
import { basename, delimiter, dirname, join, sep } from "node:path";
import { pythonOf, shellQuote } from "../../kit/printing/index.js";

/** Where and how a process was started. */
interface Started {
  readonly argv: readonly string[];
  /** The program's path without links. */
  readonly real: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly platform: string;
}

/** What starts layergraft again: its name, by npx or uvx, or by the path of the file. */
export function commandName({ argv, real, env, cwd, platform }: Started): string {
  const path = argv[1] ?? "";
  const python = pythonOf(env);
  if (python) {
    if (python.isTemporary) return "uvx layergraft";
    const isOnPath = (env.PATH ?? "").split(delimiter).includes(python.folder);
    return isOnPath ? "layergraft" : `${shellQuote(python.path)} -m layergraft`;
  }
  if (basename(path) === "main.js" && platform !== "win32") return `node ${shellQuote(path)}`;
  // Of another program, or a shim of Windows, the name says what is meant.
  if (basename(path) !== "layergraft") return "layergraft";
  const folder = dirname(path);
  if (!folder.endsWith(join("node_modules", ".bin")))
    return (env.PATH ?? "").split(delimiter).includes(folder) ? "layergraft" : shellQuote(path);
  const project = dirname(dirname(folder));
  const isWithin = (file: string) => `${file}${sep}`.startsWith(`${project}${sep}`);
  // In its cache, npx has packages of the registry, or a link to the clone that it was called in.
  if (basename(dirname(project)) === "_npx") return isWithin(real) ? "npx layergraft" : `node ${shellQuote(real)}`;
  return isWithin(cwd) ? "npx layergraft" : shellQuote(path);
}

/** A command follows a colon, "with" or "see", or begins a line; what layergraft does or has is prose. */
const PRINTED = /(?<=: |\b(?:with|use|see) |^ *)layergraft (?!(?:does|has|cannot|reads) )(?=[a-z]|--[a-z])/gm;

/** A message whose commands can be typed as printed. */
export function asTyped(text: string): string {
  return text.replace(PRINTED, () => {
    const { argv, env, platform } = process;
    const path = argv[1] ?? "";
    const real = existsSync(path) ? realpathSync(path) : path;
    return `${commandName({ argv, real, env, cwd: process.cwd(), platform })} `;
  });
}
