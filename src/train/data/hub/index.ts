// Data sets of the Hugging Face Hub by name: their files, downloaded into the cache.
import { createReadStream } from "node:fs";
import { text } from "node:stream/consumers";
import {
  type Environment,
  type HubSettings,
  hubSettings,
  isHubName,
  openRepository,
  RepositoryCache,
} from "../../../formats/hub/index.js";
import { exists } from "../../../kit/files/index.js";
import { DataError } from "../read/row.js";
import { type Choice, chooseFiles, missingShards } from "./choose.js";

export type { Choice } from "./choose.js";

export interface HubDatasetOptions extends Choice {
  /** `organisation/name`. */
  readonly name: string;
  /** Branch, tag or commit. Default `main`. */
  readonly revision?: string | undefined;
  /** Called with bytes while files are downloaded. */
  readonly onProgress?: ((state: { readonly done: number; readonly total: number }) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Default: that of the process. */
  readonly environment?: Environment | undefined;
  /** Milliseconds before the first retry of a broken connection, doubled each time. Default 500. */
  readonly retryDelay?: number | undefined;
}

export interface HubDataset {
  readonly commit: string;
  /** Files on this machine, sorted by their path in the data set. */
  readonly files: readonly string[];
}

/** The configurations are in the head of a card. */
const MAX_CARD_BYTES = 4_000_000;

/**
 * Finds a data set and downloads what is missing of it, into the cache that huggingface_hub uses. Obeys HF_ENDPOINT,
 * HF_TOKEN, HF_HUB_OFFLINE, HF_HUB_CACHE and HF_HOME.
 *
 * The configurations and splits of the card decide which files are read, else the names of the files. The default
 * configuration and the split `train` are read where none is named.
 * @throws DataError if there is no such configuration or split, or files are missing offline
 * @throws HubError if there is no such data set, it may not be read, or the Hub cannot be reached
 * @throws CancelledError when the signal fires; what was downloaded is kept
 */
export async function hubDataset(options: HubDatasetOptions): Promise<HubDataset> {
  const { name, revision = "main" } = options;
  if (!isHubName(name))
    throw new DataError(`${JSON.stringify(name)} is not the name of a data set (organisation/name)`);
  const settings = await hubSettings(options.environment);
  if (settings.offline) return findInCache(settings, revision, options);
  const { repository, wanted } = await choose(settings, options);
  const files = await repository.download(wanted, options.onProgress);
  await repository.remember();
  return { commit: repository.commit, files };
}

async function findInCache(settings: HubSettings, revision: string, options: HubDatasetOptions): Promise<HubDataset> {
  const { name } = options;
  const cache = new RepositoryCache(settings.cache, "dataset", name);
  const commit = await cache.commitOf(revision);
  const paths = commit === undefined ? [] : await cache.paths(commit);
  const offline = "and HF_HUB_OFFLINE is set. Unset it once to download";
  if (commit === undefined || paths.length === 0) {
    throw new DataError(`${name} (${revision}) is not in the cache ${cache.folder}, ${offline} it`, {
      file: cache.folder,
    });
  }
  const card = paths.includes("README.md") ? await readCard(cache.snapshot(commit, "README.md")) : undefined;
  const chosen = chooseFiles(name, paths, card, options);
  const [missing] = missingShards(chosen);
  if (missing !== undefined) {
    throw new DataError(`${name}: only ${missing} are in the cache, ${offline} the others`, { file: cache.folder });
  }
  return { commit, files: chosen.map((path) => cache.snapshot(commit, path)) };
}

function readCard(file: string): Promise<string> {
  return text(createReadStream(file, { end: MAX_CARD_BYTES - 1 }));
}

/**
 * Bytes that `hubDataset` would download now. Checks that the data set may be read; downloads only its card.
 * @throws as `hubDataset`
 */
export async function hubDatasetBytes(options: HubDatasetOptions): Promise<number> {
  const settings = await hubSettings(options.environment);
  if (settings.offline) {
    await hubDataset(options);
    return 0;
  }
  const { repository, wanted } = await choose(settings, options);
  // Anyone may list a gated data set.
  const [first] = wanted;
  if (first) await repository.read(first, 0, Math.min(1, first.size));
  const cache = new RepositoryCache(settings.cache, "dataset", options.name);
  let bytes = 0;
  for (const { hash, size } of wanted) if (!(await exists(cache.blob(hash)))) bytes += size;
  return bytes;
}

async function choose(settings: HubSettings, options: HubDatasetOptions) {
  const { name } = options;
  const repository = await openRepository(settings, { ...options, type: "dataset" });
  const { files } = repository;
  const cardFile = files.get("README.md");
  const card = cardFile ? await readCard((await repository.download([cardFile]))[0] ?? "") : undefined;
  const chosen = chooseFiles(name, [...files.keys()], card, options);
  return { repository, wanted: chosen.flatMap((path) => files.get(path) ?? []) };
}
