// The command that adds an optional package where layergraft finds it: in the folder of packages that it is in itself.
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { shellQuote } from "./terminal.js";

type Environment = Readonly<Record<string, string | undefined>>;

/** The Python that started layergraft, if one did (python/layergraft/__main__.py). */
export function pythonOf(
  env: Environment = process.env,
): { readonly path: string; readonly folder: string; readonly isTemporary: boolean } | undefined {
  const path = env.LAYERGRAFT_PYTHON;
  if (path === undefined || path === "") return undefined;
  // uvx runs from an environment in its cache.
  return { path, folder: dirname(path), isTemporary: env.UV !== undefined && path.includes("archive-v") };
}

/** Where layergraft is, and where a command would be typed. */
interface Installed {
  /** The folder of the package layergraft, without links. */
  readonly root: string;
  readonly cwd: string;
  readonly env: Environment;
  readonly exists: (path: string) => boolean;
  readonly isPublished: boolean;
}

/** Extras of the wheel, by the packages of npm that they bring. */
const EXTRAS = new Map([
  ["onnxruntime-node", "engine"],
  ["node-llama-cpp", "llama"],
]);

/** @param name of the package, with a version where one is needed */
export function installCommandAt(name: string, { root, cwd, env, exists, isPublished }: Installed): string {
  const python = pythonOf(env);
  const extra = EXTRAS.get(name.replace(/(?<=.)@.*$/, ""));
  if (python && extra !== undefined) {
    // Before that, the registry has nothing; a clone writes the wheels.
    if (!isPublished)
      return `npm run wheel -- --${extra} && ${shellQuote(python.path)} -m pip install python/dist/*.whl  # in a clone`;
    const wanted = shellQuote(`layergraft[${extra}]`);
    return python.isTemporary
      ? `uvx --from ${wanted} layergraft`
      : `${shellQuote(python.path)} -m pip install ${wanted}`;
  }
  const packages = dirname(root);
  const isClone = basename(packages) !== "node_modules";
  const project = isClone ? root : dirname(packages);
  // The folder of global packages belongs to no project.
  const isGlobal = !isClone && !exists(join(project, "package.json"));
  const where = isGlobal ? " --global" : project === cwd ? "" : ` --prefix ${shellQuote(project)}`;
  return `npm install${where} --ignore-scripts ${name}`;
}

/** Where others find the package; undefined until it is published: its address has a placeholder until then. */
export function publishedAt(): string | undefined {
  const { homepage } = createRequire(import.meta.url)("#package.json") as { readonly homepage: string };
  return homepage.includes("/OWNER/") ? undefined : homepage;
}

/** @see installCommandAt */
export function installCommand(name: string): string {
  const root = dirname(createRequire(import.meta.url).resolve("#package.json"));
  const isPublished = publishedAt() !== undefined;
  return installCommandAt(name, { root, cwd: process.cwd(), env: process.env, exists: existsSync, isPublished });
}
