// The files of a configuration and split: as README.md lists them, or by their names, as in the `datasets` library.
import { parseDocument } from "yaml";
import { groupBy } from "../../../kit/index.js";
import { formatSome } from "../../../kit/printing/index.js";
import { frontMatterText } from "../../../kit/settings/index.js";
import { formatOfName, isDataName, matcherOf } from "../read/files.js";
import { DataError } from "../read/row.js";

export interface Choice {
  readonly config?: string | undefined;
  readonly split?: string | undefined;
  /** Patterns of files, instead of a configuration and a split. */
  readonly files?: readonly string[] | undefined;
  readonly exclude?: readonly string[] | undefined;
}

interface CardConfig {
  readonly name: string;
  readonly isDefault: boolean;
  readonly splits: readonly ReturnType<typeof splitNamed>[];
}

const splitNamed = (name: string, patterns: readonly string[] = []) => ({
  name,
  isDefault: name === "train",
  patterns,
});

/**
 * @param paths all files of the data set
 * @param card text of its README.md, if it has one
 * @returns paths sorted by name, at least one
 * @throws DataError if there is no such configuration, split or file; it lists those there are
 */
export function chooseFiles(
  name: string,
  paths: readonly string[],
  card: string | undefined,
  choice: Choice,
): string[] {
  const excluded = (choice.exclude ?? []).map(matcherOf);
  const present = paths.filter((path) => !excluded.some((matches) => matches(path))).sort();
  const configs = card === undefined ? [] : cardConfigs(card);
  const chosen = choice.files
    ? present.filter(anyOf(choice.files))
    : configs.length > 0
      ? byCard(name, present, configs, choice)
      : byNames(name, present, choice);
  if (chosen.length > 0) return chosen;
  const data = present.filter(isDataName);
  throw new DataError(
    choice.files
      ? `${name} has no file like ${choice.files.join(", ")}; it has ${formatSome(data.length > 0 ? data : present, 8)}`
      : `${name} has no data files in a supported format; it has ${formatSome(present, 8)}. If a script makes its data, try revision: refs/convert/parquet, or download the data and name the files.`,
  );
}

function anyOf(patterns: readonly string[]): (path: string) => boolean {
  const matchers = patterns.map(matcherOf);
  return (path) => matchers.some((matches) => matches(path));
}

/** The configurations in the YAML head of a card, with their files. */
function cardConfigs(card: string): CardConfig[] {
  const head = frontMatterText(card);
  if (head === undefined) return [];
  const document = parseDocument(head, { prettyErrors: false, logLevel: "silent" });
  // Cards with broken YAML, or with aliases that multiply, have no configurations.
  if (document.errors.length > 0) return [];
  let content: unknown;
  try {
    content = document.toJS({ maxAliasCount: 100 });
  } catch {
    return [];
  }
  const configs = asRecord(content).configs;
  return (Array.isArray(configs) ? configs : []).flatMap((entry) => {
    const { config_name, data_files, data_dir } = asRecord(entry);
    const folder = typeof data_dir === "string" ? `${data_dir.replace(/^\.\/|\/$/g, "")}/` : "";
    const splits = splitsOf(data_files, (pattern) => folder + pattern.replace(/^\.\//, ""));
    if (splits.length === 0 && folder !== "") splits.push(splitNamed("train", [`${folder}**`]));
    if (splits.length === 0) return [];
    const name = typeof config_name === "string" ? config_name : "default";
    return [{ name, isDefault: name === "default" || asRecord(entry).default === true, splits }];
  });
}

function splitsOf(dataFiles: unknown, inFolder: (pattern: string) => string) {
  const files: unknown[] = [dataFiles ?? []].flat();
  if (files.length > 0 && files.every((item) => typeof item === "string"))
    return [splitNamed("train", files.map(inFolder))];
  return files.flatMap((item) => {
    const { split, path } = asRecord(item);
    const patterns = [path].flat().filter((one) => typeof one === "string");
    return patterns.length > 0 ? [splitNamed(typeof split === "string" ? split : "train", patterns.map(inFolder))] : [];
  });
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function byCard(name: string, paths: readonly string[], configs: readonly CardConfig[], choice: Choice): string[] {
  const config = pick(name, "config", choice.config, configs);
  const where = configs.length > 1 ? `${name}, ${config.name},` : name;
  const split = pick(where, "split", choice.split, config.splits);
  return paths.filter(anyOf(split.patterns)).filter((path) => formatOfName(path) !== undefined);
}

/** The named one, otherwise the default or the only one. */
function pick<T extends { readonly name: string; readonly isDefault: boolean }>(
  where: string,
  field: "config" | "split",
  wanted: string | undefined,
  all: readonly T[],
): T {
  const chosen =
    wanted === undefined
      ? (all.find(({ isDefault }) => isDefault) ?? (all.length === 1 ? all[0] : undefined))
      : all.find(({ name }) => name === wanted);
  if (chosen !== undefined) return chosen;
  const what = field === "config" ? "configuration" : "split";
  const known = all.map(({ name }) => name);
  const names = formatSome(known, 12);
  throw new DataError(
    wanted === undefined
      ? `${where} has several ${what}s. Choose one (${field}: ${names}).`
      : `${where} has no ${what} ${JSON.stringify(wanted)}; it has ${names}`,
    { field },
  );
}

const SPLIT_WORDS: readonly (readonly [split: string, words: RegExp])[] = [
  ["train", /(^|[^a-z])train(ing)?([^a-z]|$)/],
  ["validation", /(^|[^a-z])(validation|valid|val|dev)([^a-z]|$)/],
  ["test", /(^|[^a-z])(test|testing|eval|evaluation)([^a-z]|$)/],
];

/** `train-00000-of-00005.parquet`: a shard of train. */
const SHARD = /(?:^|\/)([\w.]+)-\d{4,}-of-\d{4,}(?:-[0-9a-f]+)?\.[a-z.]+$/i;

function splitOfName(path: string): string | undefined {
  const shard = SHARD.exec(path)?.[1];
  if (shard !== undefined) return shard;
  const name = path.toLowerCase();
  return SPLIT_WORDS.find(([, words]) => words.test(name))?.[0];
}

function byNames(name: string, paths: readonly string[], choice: Choice): string[] {
  let data = mostCommonFormat(paths.filter(isDataName));
  const { config } = choice;
  if (config !== undefined && config !== "default") {
    const folders = [...new Set(data.flatMap((path) => path.split("/").slice(0, -1)))];
    if (!folders.includes(config)) {
      const known = folders.length > 0 ? `; its folders are ${formatSome(folders, 12)}` : "";
      throw new DataError(`${name} has no configuration ${JSON.stringify(config)}${known}`, { field: "config" });
    }
    data = data.filter((path) => path.split("/").slice(0, -1).includes(config));
  }
  if (data.length === 0) return [];
  const splits = [...new Set(data.map(splitOfName))];
  // Without a split in any name, all files are for training.
  if (splits.every((split) => split === undefined) && (choice.split ?? "train") === "train") return data;
  const named = splits.filter((split) => split !== undefined).map((split) => splitNamed(split));
  const split = pick(name, "split", choice.split, named);
  return data.filter((path) => splitOfName(path) === split.name);
}

/** A data set has one format; files of others are not part of it. */
function mostCommonFormat(paths: readonly string[]): string[] {
  const byFormat = [...groupBy(paths, (path) => formatOfName(path)).values()];
  return byFormat.sort((a, b) => b.length - a.length)[0] ?? [];
}

/** Missing parts of numbered files (`x-00000-of-00002`), one line for each set of parts. */
export function missingShards(paths: readonly string[]): string[] {
  const shards = paths.flatMap((path) => {
    const [, stem, count] = /^(.+)-\d{4,}-of-(\d{4,})/.exec(path) ?? [];
    return stem !== undefined && count !== undefined ? [{ stem, count }] : [];
  });
  return [...groupBy(shards, ({ stem, count }) => `${stem}-of-${count}`).values()].flatMap((group) => {
    const [first] = group;
    const wanted = Number(first?.count);
    return group.length < wanted ? [`${group.length} of ${wanted} parts of ${first?.stem}`] : [];
  });
}
