import { isAbsolute, relative, resolve } from "node:path";
import { exists } from "../../core/index.js";
import { locateSource } from "../../weights/index.js";

/** A source as a file in another folder names it: a path relative to that folder, or the unchanged name on the hub. */
export async function sourceFrom(source: string, folder: string): Promise<string> {
  if (
    isAbsolute(source) ||
    (!(await exists(resolve(source.split("+")[0] ?? ""))) && !(await exists(resolve(source))))
  ) {
    return source;
  }
  const { folder: found, adapter } = await locateSource(source);
  const path = (absolute: string) => relative(resolve(folder), absolute);
  return adapter === undefined ? path(found) : `${path(found)}+${path(adapter)}`;
}
