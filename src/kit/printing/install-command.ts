// The command that adds an optional package where layergraft finds it: in the folder of packages that it is in itself.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { shellQuote } from "./terminal.js";

/** Where layergraft is, and where a command would be typed. */
interface Installed {
  /** The folder of the package layergraft, without links. */
  readonly root: string;
  readonly cwd: string;
  readonly exists: (path: string) => boolean;
}

/** @param name of the package, with a version where one is needed */
export function installCommandAt(name: string, { root, cwd, exists }: Installed): string {
  const packages = dirname(root);
  const isClone = basename(packages) !== "node_modules";
  const project = isClone ? root : dirname(packages);
  // The folder of global packages belongs to no project.
  const isGlobal = !isClone && !exists(join(project, "package.json"));
  const where = isGlobal ? " --global" : project === cwd ? "" : ` --prefix ${shellQuote(project)}`;
  return `npm install${where} --ignore-scripts ${name}`;
}

/** @see installCommandAt */
export function installCommand(name: string): string {
  const root = dirname(createRequire(import.meta.url).resolve("#package.json"));
  return installCommandAt(name, { root, cwd: process.cwd(), exists: existsSync });
}
