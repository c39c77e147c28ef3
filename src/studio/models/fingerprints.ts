// Digests of models and recipes, by which what was made of them is known to be of an earlier version.
import { resolve } from "node:path";
import { openModelSource } from "../../engine/index.js";
import { digestOf, readBounded } from "../../kit/files/index.js";
import { isAnySystemError, LayergraftError, RecipeError } from "../../kit/index.js";
import type { Output } from "../protocol/index.js";

const MAX_BYTES = 1_000_000;

/**
 * Of models as they are now; null for those that this machine cannot open without the hub. A recipe that is not valid, or
 * that only a merge can run, has the digest of its text.
 */
export async function fingerprintsOf(sources: readonly string[], folder: string): Promise<Output<"fingerprints">> {
  const fingerprint = async (source: string) => {
    try {
      return (await openModelSource(source, { folder })).digest;
    } catch (error) {
      if (error instanceof RecipeError)
        return readBounded(resolve(folder, source), MAX_BYTES, () => error).then(digestOf, () => null);
      if (error instanceof LayergraftError || isAnySystemError(error)) return null;
      throw error;
    }
  };
  return Object.fromEntries(
    await Promise.all(sources.map(async (source) => [source, await fingerprint(source)] as const)),
  );
}
