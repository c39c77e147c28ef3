// The folder of a project: studio.json, recipes/NAME.yaml, and what jobs made. The files are the state; nothing else is.
import { randomBytes } from "node:crypto";
import { type FSWatcher, watch } from "node:fs";
import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import {
  digestOf,
  exists,
  isFile,
  LockedFolder,
  readBounded,
  staysIn,
  writeFileAtomically,
} from "../../kit/files/index.js";
import { isSystemError, LayergraftError, usageError } from "../../kit/index.js";
import { name, type Project, type Settings, settings } from "../protocol/index.js";

const SETTINGS_FILE = "studio.json";
/** Files of the server: its lock, token and jobs. */
export const PRIVATE_FOLDER = ".layergraft-studio";
const MAX_BYTES = 5_000_000;
/** Milliseconds without changes after which they are announced. */
const QUIET = 50;
const MAX_RECIPES = 1000;

const saved = z.object({ revision: z.int().min(0), settings });
type Saved = z.infer<typeof saved>;

/** Fields of the settings with new values. */
export type SettingsChange = { readonly [K in keyof Settings]?: Settings[K] | undefined };

const EMPTY: Saved = { revision: 0, settings: { base: null, experts: [], recipe: null, prompts: [] } };

/** A file of a project, which need not exist. @throws LayergraftError code `usage` if a link leads out of the project */
export async function fileOf(project: string, ...names: readonly string[]): Promise<string> {
  const file = join(project, ...names);
  if ((await exists(file)) && !(await staysIn(file, project))) {
    throw usageError(`${file} leads out of the project. Replace the link with what it links to.`, { file });
  }
  return file;
}

export async function digestOfFile(file: string): Promise<string> {
  return digestOf(await readBounded(file, MAX_BYTES, () => usageError(`${file} is too large for the studio.`)));
}

/** Something that another tab or program changed in the meantime. */
function conflict(what: string): LayergraftError {
  return new LayergraftError("conflict", `${what} was changed elsewhere in the meantime. Load it again.`);
}

/** A project of the studio, which one process at a time has open. */
export class ProjectFolder {
  /** Absolute path. */
  readonly folder: string;
  /** Where the server keeps its own files. */
  readonly private: string;
  readonly #lock: LockedFolder;
  readonly #watchers: FSWatcher[] = [];
  /** Changes wait for each other. */
  #turn: Promise<unknown> = Promise.resolve();

  private constructor(folder: string, own: string, lock: LockedFolder) {
    this.folder = folder;
    this.private = own;
    this.#lock = lock;
  }

  /**
   * Opens a project, and makes its folder if there is none.
   * @throws LayergraftError code `usage` if studio.json cannot be read, `locked` if another studio has it open
   */
  static async open(folder: string): Promise<ProjectFolder> {
    const path = resolve(folder);
    const own = join(path, PRIVATE_FOLDER);
    for (const inner of ["recipes", "models"]) await mkdir(join(path, inner), { recursive: true });
    await mkdir(own, { recursive: true, mode: 0o700 });
    // Links of models lead to larger disks.
    for (const inner of ["recipes", PRIVATE_FOLDER]) await fileOf(path, inner);
    const lock = new LockedFolder(own);
    await lock.lock();
    try {
      await readSaved(join(path, SETTINGS_FILE));
      return new ProjectFolder(path, own, lock);
    } catch (error) {
      await lock.close();
      throw error;
    }
  }

  close(): Promise<void> {
    for (const watcher of this.#watchers) watcher.close();
    return this.#lock.close();
  }

  /** Calls after the settings or recipes changed on disk, once for changes in quick succession. */
  watch(onChange: () => void): void {
    let timer: NodeJS.Timeout | undefined;
    const files = { [this.folder]: /^studio\.json$/, [join(this.folder, "recipes")]: /\.yaml$/ };
    for (const [folder, pattern] of Object.entries(files)) {
      try {
        const watcher = watch(folder, { persistent: false }, (_, file) => {
          if (file !== null && !pattern.test(file)) return;
          clearTimeout(timer);
          timer = setTimeout(onChange, QUIET).unref();
        });
        this.#watchers.push(watcher.on("error", () => watcher.close()));
      } catch {
        // Some file systems cannot be watched: saving then finds what changed.
      }
    }
  }

  /** The token of the page's address, the same for every server of this project. */
  async token(): Promise<string> {
    const file = join(this.private, "token");
    const found = await readFile(file, "utf8").catch(() => "");
    if (/^[\w-]{43}$/.test(found)) return found;
    const token = randomBytes(32).toString("base64url");
    await writeFileAtomically(file, token, 0o600);
    return token;
  }

  async read(): Promise<Project> {
    const { revision, settings: now } = await this.#load();
    const files = await readdir(join(this.folder, "recipes"));
    const names = files.filter((file) => file.endsWith(".yaml")).map((file) => basename(file, ".yaml"));
    const recipes = names.filter((one) => name.safeParse(one).success).sort();
    return { folder: this.folder, revision, settings: now, recipes: recipes.slice(0, MAX_RECIPES) };
  }

  /**
   * Replaces fields of the settings.
   * @throws LayergraftError code `conflict` if the revision is not the latest
   */
  change(revision: number, change: SettingsChange): Promise<Project> {
    return this.#inTurn(async () => {
      const now = await this.#load();
      if (revision !== now.revision) throw conflict("The project");
      const next = settings.parse({ ...now.settings, ...change });
      await this.#save({ revision: revision + 1, settings: next });
      return this.read();
    });
  }

  readRecipe(name: string): Promise<{ text: string; version: string }> {
    return readRecipe(this.folder, name);
  }

  /**
   * Writes a recipe, valid or not.
   * @param version of the text that was edited; null for a new recipe
   * @throws LayergraftError code `conflict` if the file has another version
   */
  writeRecipe(name: string, text: string, version: string | null): Promise<{ version: string }> {
    return this.#inTurn(async () => {
      const file = await recipeFile(this.folder, name);
      const now = (await exists(file)) ? (await this.readRecipe(name)).version : null;
      if (now !== version) throw conflict(`The recipe ${name}`);
      await writeFileAtomically(file, text);
      return { version: versionOf(text) };
    });
  }

  /**
   * @param before called when nothing is in the way: gives the other name what else the recipe has
   * @throws LayergraftError code `not-found` if there is no such recipe, `conflict` if there is one of the other name
   */
  renameRecipe(name: string, to: string, before: () => Promise<void>): Promise<void> {
    return this.#inTurn(async () => {
      const [from, after] = [await recipeFile(this.folder, name), await recipeFile(this.folder, to)];
      if (await exists(after)) throw conflict(`The recipe ${to}`);
      await this.readRecipe(name);
      await before();
      await rename(from, after);
      const { settings: now, ...rest } = await this.#load();
      if (now.recipe !== name) return;
      await this.#save({ ...rest, revision: rest.revision + 1, settings: { ...now, recipe: to } });
    });
  }

  removeRecipe(name: string): Promise<void> {
    // A link is removed, not what it links to.
    return this.#inTurn(() => rm(join(this.folder, "recipes", `${name}.yaml`), { force: true }));
  }

  /** What the file says now, as people edit it, too. */
  #load(): Promise<Saved> {
    return readSaved(join(this.folder, SETTINGS_FILE));
  }

  async #save(next: Saved): Promise<void> {
    await writeFileAtomically(join(this.folder, SETTINGS_FILE), `${JSON.stringify(next, null, 2)}\n`);
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(work);
    this.#turn = result.catch(() => undefined);
    return result;
  }
}

const MAX_FOLDERS = 100;
const MAX_FILES = 500;
/** Folders of a project that have no plans and no tasks. */
const OTHER = /^\.|\.experiment$|^(recipes|models|evaluations|node_modules)$/;

/** YAML files of a folder, such as plans and tasks. @param isDeep whether also of the folders directly inside it */
export async function yamlFiles(folder: string, isDeep = true): Promise<string[]> {
  const inside = await readdir(folder, { withFileTypes: true });
  const folders = inside
    .filter((entry) => isDeep && entry.isDirectory() && !OTHER.test(entry.name))
    .slice(0, MAX_FOLDERS);
  const deeper = folders.map(async ({ name }) => {
    const names = await readdir(join(folder, name)).catch(() => []);
    return names.map((one) => join(folder, name, one));
  });
  const files = [...inside.map(({ name }) => join(folder, name)), ...(await Promise.all(deeper)).flat()];
  return files.filter((file) => /\.ya?ml$/i.test(file)).slice(0, MAX_FILES);
}

/** @param name checked by the protocol: without separators */
export function recipeFile(project: string, name: string): Promise<string> {
  return fileOf(project, "recipes", `${name}.yaml`);
}

/** @throws LayergraftError code `not-found` if there is none of that name */
export async function readRecipe(project: string, name: string): Promise<{ text: string; version: string }> {
  const file = await recipeFile(project, name);
  try {
    // A read of a pipe would wait for its other end.
    if ((await exists(file)) && !(await isFile(file)))
      throw usageError(`${file} is not a file. Choose another recipe.`);
    const tooLarge = () => usageError(`${file} is too large to be a recipe`);
    const text = (await readBounded(file, MAX_BYTES, tooLarge)).toString("utf8");
    return { text, version: versionOf(text) };
  } catch (error) {
    if (isSystemError(error, "ENOENT")) {
      throw new LayergraftError("not-found", `There is no recipe called ${name}. Choose another one.`);
    }
    throw error;
  }
}

/** Of a project that another process may have open. */
export const readSettings = async (project: string): Promise<Settings> =>
  (await readSaved(join(project, SETTINGS_FILE))).settings;

async function readSaved(file: string): Promise<Saved> {
  const wrong = () =>
    usageError(`${file} is not a project of the studio. Fix it, move it away, or open another folder.`, { file });
  try {
    return saved.parse(JSON.parse((await readBounded(file, MAX_BYTES, wrong)).toString("utf8")));
  } catch (error) {
    if (isSystemError(error, "ENOENT")) return EMPTY;
    if (error instanceof LayergraftError) throw error;
    throw wrong();
  }
}

const versionOf = (text: string) => digestOf(text).slice(0, 16);

/** A recipe whose relative paths are those of this machine. @param folder from which they start */
export const placedIn = (folder: string, recipe: unknown): unknown =>
  JSON.parse(JSON.stringify(recipe), (_, value) =>
    typeof value === "string" && /^\.\.?\//.test(value) ? resolve(folder, value) : value,
  );
