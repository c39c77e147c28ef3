// What a person drops onto the window, or writes in it: recipes, mergekit configurations, tasks and results.
import { parse } from "yaml";
import type { Input } from "../../protocol/index.js";
import { call } from "../client.js";
import { nameFor } from "../names.js";
import { create, recipeOfMergekit } from "./recipe-store.js";

const MAX_BYTES = 60_000_000;
const MAX_FILES = 100;
const KINDS = "a recipe, a mergekit configuration, a task with its data, or a folder that layergraft eval wrote";

/** Takes files and folders, and opens the view that has them. @throws Error that says what can be taken */
export async function take(entries: readonly FileSystemEntry[]): Promise<void> {
  const files = await Promise.all(entries.filter(isFile).map(fileOf));
  for (const folder of entries.filter(isFolder)) await takeResults(folder);
  const texts = await readAll(files);
  const declarations = texts.filter(({ name }) => /\.ya?ml$/i.test(name));
  const others = texts.filter((one) => !declarations.includes(one));
  if (declarations.length === 0 && (others.length > 0 || entries.length === 0)) throw new Error(`Drop ${KINDS}.`);
  for (const file of declarations) {
    const name = nameFor(file.name.replace(/\.ya?ml$/i, ""), []);
    const value = Object(parse(file.text, { maxAliasCount: 0 })) as Record<string, unknown>;
    if ("merge_method" in value) await create(name, await recipeOfMergekit(file.text));
    else if ("method" in value) await create(name, file.text);
    else if ("task" in value) {
      await call("take", { kind: "task", name, files: [file, ...others] });
      location.hash = "#/try";
    } else throw new Error(`${file.name} is something else. Drop ${KINDS}.`);
  }
}

async function takeResults(folder: FileSystemDirectoryEntry, depth = 0): Promise<void> {
  const inside = await entriesOf(folder);
  if (inside.some(({ name }) => name === "results.json")) {
    const shown = inside.filter(isFile).filter(({ name }) => !name.startsWith("."));
    const files = await readAll(await Promise.all(shown.map(fileOf)));
    await call("take", { kind: "evaluation", name: folder.name, files });
    location.hash = "#/try";
    return;
  }
  const deeper = inside.filter(isFolder);
  if (deeper.length === 0 || depth > 0) throw new Error(`${folder.name} has no results.json. Drop ${KINDS}.`);
  for (const one of deeper) await takeResults(one, depth + 1);
}

const isFile = (entry: FileSystemEntry): entry is FileSystemFileEntry => entry.isFile;
const isFolder = (entry: FileSystemEntry): entry is FileSystemDirectoryEntry => entry.isDirectory;
const fileOf = (entry: FileSystemFileEntry) => new Promise<File>((resolve, reject) => entry.file(resolve, reject));

async function entriesOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0 || all.length > MAX_FILES) return all;
    all.push(...some);
  }
}

function readAll(files: readonly File[]): Promise<Input<"take">["files"]> {
  if (files.length > MAX_FILES || files.reduce((sum, { size }) => sum + size, 0) > MAX_BYTES) {
    throw new Error("These are more than 100 files or 60 MB. Copy them into the project's folder.");
  }
  return Promise.all(files.map(async (file) => ({ name: file.name, text: await file.text() })));
}
