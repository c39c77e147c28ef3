// Reading mergekit configurations from text and files: faults all at once, with their lines.
import { readFile, stat } from "node:fs/promises";
import { type DocumentOptions, isNode, LineCounter, parseDocument, type SchemaOptions } from "yaml";
import { readConfig } from "../checkpoint/config.js";
import { locateSource } from "../checkpoint/locate.js";
import { RecipeError } from "../core/errors.js";
import { refusalOf } from "./methods.js";
import { type Fault, formatPath, isMergekit, readConfiguration } from "./schema.js";
import { type MergekitRecipe, translate } from "./translate.js";

export interface MergekitOptions {
  /** What to call the text in messages; default "mergekit configuration". */
  readonly file?: string;
  /** How many layers the models have; slices that cover them all are then written as one merge. */
  readonly layers?: number | undefined;
}

/**
 * The recipe that does what a mergekit configuration says.
 * @returns undefined if the text is no mergekit configuration: a YAML mapping with a merge_method
 * @throws {RecipeError} with every fault and all that is not supported, by line
 */
export function parseMergekit(text: string, options: MergekitOptions = {}): MergekitRecipe | undefined {
  return parse(text, options)?.translated;
}

/**
 * The recipe that does what the mergekit configuration in a file says. Of the models only the depth of the first is
 * looked up; relative paths start from the working folder, as mergekit's do.
 * @returns undefined if the file cannot be read as a mergekit configuration
 * @throws {RecipeError} with every fault and all that is not supported, by line
 */
export async function readMergekit(file: string): Promise<MergekitRecipe | undefined> {
  const text = await readText(file);
  const parsed = text === undefined ? undefined : parse(text, { file });
  if (text === undefined || !parsed) return undefined;
  const layers = await depthOf(parsed.models[0] ?? "");
  return layers === undefined ? parsed.translated : parse(text, { file, layers })?.translated;
}

// A configuration of a page is 3 kB; this keeps a wrong argument, such as a weight file, from being read whole.
const LARGEST = 5_000_000;

/** A file's text; undefined if it cannot be read, of which readRecipe says more. A pipe is left to readRecipe, too. */
async function readText(file: string): Promise<string | undefined> {
  try {
    const found = await stat(file);
    return found.isFile() && found.size <= LARGEST ? await readFile(file, "utf8") : undefined;
  } catch {
    return undefined;
  }
}

/** As PyYAML reads, which mergekit uses: `yes` is true and `<<` merges mappings, but `y` and `n` are texts. */
const AS_PYYAML: DocumentOptions & SchemaOptions = {
  version: "1.1",
  customTags: (tags) =>
    tags.map((tag) => {
      if (typeof tag === "string" || tag.collection || tag.tag !== "tag:yaml.org,2002:bool" || !tag.test) return tag;
      return { ...tag, test: new RegExp(`(?=..)${tag.test.source}`) };
    }),
};

interface Parsed {
  readonly translated: MergekitRecipe;
  readonly models: readonly string[];
}

function parse(text: string, { file = "mergekit configuration", layers }: MergekitOptions): Parsed | undefined {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, ...AS_PYYAML });
  const value = document.errors.length > 0 ? undefined : contentOf(document);
  if (!isMergekit(value)) return undefined;
  const { config, faults, notes } = readConfiguration(value);
  const isKnown = config !== undefined && refusalOf(config.merge_method) === undefined;
  const nothing = { translated: undefined, models: [], faults: [] };
  const { translated, models, faults: more } = isKnown ? translate(config, layers) : nothing;
  if (!config || !translated || faults.length > 0) {
    const found = [...faults, ...more].map(located).sort((a, b) => a.line - b.line);
    throw new RecipeError(
      `${file} cannot be merged as it is:`,
      found.map(({ text }) => text),
      { file },
    );
  }
  return { models, translated: { ...translated, notes: [...notes, ...translated.notes] } };

  function located({ path, message }: Fault): { line: number; text: string } {
    const text = path.length > 0 ? `${formatPath(path)}: ${message}` : message;
    // The closest part of the file that exists; a missing field is reported at the mapping that lacks it.
    for (let depth = path.length; depth >= 0; depth--) {
      const node = depth === 0 ? document.contents : document.getIn(path.slice(0, depth), true);
      if (!isNode(node) || !node.range) continue;
      const { line } = lines.linePos(node.range[0]);
      return { line, text: `line ${line}: ${text}` };
    }
    return { line: 0, text };
  }
}

function contentOf(document: ReturnType<typeof parseDocument>): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    return undefined; // aliases of aliases, of which readRecipe says more
  }
}

/** How many layers a model has; undefined where its folder does not say. */
async function depthOf(model: string): Promise<number | undefined> {
  try {
    const { folder } = await locateSource(model);
    return (await readConfig(folder)).layers;
  } catch {
    return undefined; // the planner says what is wrong with it
  }
}
