import { isAbsolute, relative, resolve } from "node:path";
import { locateSource } from "../formats/checkpoint/index.js";
import { exists } from "../kit/files/index.js";

/** A source as a file in another folder names it: a path relative to that folder, or the unchanged name on the hub. */
export async function sourceFrom(source: string, folder: string, base = "."): Promise<string> {
  if (
    isAbsolute(source) ||
    (!(await exists(resolve(base, source.split("+")[0] ?? ""))) && !(await exists(resolve(base, source))))
  ) {
    return source;
  }
  const { folder: found, adapter } = await locateSource(source, base);
  const path = (absolute: string) => relative(resolve(folder), absolute);
  return adapter === undefined ? path(found) : `${path(found)}+${path(adapter)}`;
}
