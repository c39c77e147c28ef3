// Commands in messages, as they must be typed where layergraft was started.
import { basename, delimiter, dirname, join, sep } from "node:path";
import { shellQuote } from "../../kit/printing/index.js";

/** Where and how a process was started. */
interface Started {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly platform: string;
}

/** What starts layergraft again: its name, by npx, or by the path of the file. */
export function commandName({ argv, env, cwd, platform }: Started): string {
  const path = argv[1] ?? "";
  const folder = dirname(path);
  const isInstalled = folder.endsWith(join("node_modules", ".bin"));
  const isHere = isInstalled && `${cwd}${sep}`.startsWith(`${dirname(dirname(folder))}${sep}`);
  if (env.npm_command === "exec" || isHere) return "npx layergraft";
  if (basename(path) === "main.js") return platform === "win32" ? "layergraft" : `node ${shellQuote(path)}`;
  const isOnPath = !isInstalled && (env.PATH ?? "").split(delimiter).includes(folder);
  // Of another program, the name says what is meant.
  return basename(path) === "layergraft" && !isOnPath ? shellQuote(path) : "layergraft";
}

/** A command stands after a colon or begins a line; what layergraft does or has is prose. */
const PRINTED = /(?<=: |^ *)layergraft (?!(?:does|has|cannot|reads) )(?=[a-z])/gm;

/** A message whose commands can be typed as printed. */
export function asTyped(text: string): string {
  const { argv, env, platform } = process;
  const name = commandName({ argv, env, cwd: process.cwd(), platform });
  return text.replace(PRINTED, () => `${name} `);
}
