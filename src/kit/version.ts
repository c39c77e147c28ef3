// The version of this package, from its package.json: one place to change.
import { createRequire } from "node:module";

/** Version of layergraft. */
export const VERSION: string = (createRequire(import.meta.url)("#package.json") as { version: string }).version;
