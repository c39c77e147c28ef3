// Writes a planned ONNX folder: streams weights into data files, then graph, configuration and tokenizer.
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { jobsOf, loadSourceTemplate, loadSourceTokenizerParts, RopeTables } from "../../engine/index.js";
import { readSpec } from "../../engine/model/index.js";
import type { ExternalData, TensorValue } from "../../engine/runtime/index.js";
import { companionOf, foldersOf, requireUnchanged } from "../../formats/checkpoint/index.js";
import {
  bytesOf,
  checkFolderOutput,
  exists,
  readBounded,
  readJsonObject,
  rewriteJson,
  withFile,
  writeFolder,
  writeFully,
} from "../../kit/files/index.js";
import { CheckpointError, isObject, type JsonObject } from "../../kit/index.js";
import { copyTextFiles, requireEncodable } from "../../merge/output/index.js";
import { Resolver } from "../../tensor/expressions/index.js";
import { measureAll } from "../../tensor/measurements/index.js";
import { type Program, runProgram, type StreamOptions } from "../../tensor/streaming/index.js";
import { tokensBeyond } from "../../text/index.js";
import type { OnnxPlan } from "./plan-onnx.js";

/** Options of `writeOnnx`. */
export interface WriteOnnxOptions extends StreamOptions {
  /** Folder to write; it appears when it is complete. */
  readonly out: string;
  /** Replace an earlier export. Default false. */
  readonly force?: boolean | undefined;
}

export interface WrittenOnnx {
  /** Absolute path of the folder. */
  readonly out: string;
  /** Bytes of graph and weights. */
  readonly bytes: number;
  /** Such as values that exceed float16, or a missing tokenizer. */
  readonly warnings: readonly string[];
}

const CONFIG = "config.json";
const GRAPHS = "onnx";
const GRAPH_FILE = new RegExp(`^${GRAPHS}/model\\w*\\.onnx(_data\\w*)?$`);

const isOwn = (path: string) =>
  path === CONFIG || GRAPH_FILE.test(path) || ["tokenizer", "prompting"].includes(companionOf(path) ?? "");

/**
 * Writes a planned folder. The bytes do not depend on threads or memory. A run that is stopped leaves nothing.
 * @throws OutputError if it cannot be written there, or the disk has no space for it
 * @throws CancelledError if the signal fires
 * @throws LayergraftError code `broken-model` if a tensor has values that are not finite in its type; code `changed` if a
 *   source changes during the run
 */
export async function writeOnnx(plan: OnnxPlan, options: WriteOnnxOptions): Promise<WrittenOnnx> {
  const { out, force = false } = options;
  const { source } = plan;
  const inputs = [...source.sources.values()].flatMap(foldersOf);
  await checkFolderOutput({ out, force }, inputs, isOwn);
  const beyond = await checkTokens(source);
  const warnings = await writeFolder(
    out,
    "the export",
    async (partial) => {
      await mkdir(join(partial, GRAPHS));
      await writeWeights(plan, join(partial, GRAPHS), options);
      await writeFile(join(partial, GRAPHS, plan.file), plan.model);
      await writeFile(join(partial, CONFIG), `${JSON.stringify(plan.config, null, 2)}\n`);
      return [...beyond.notes, ...(await writeTexts(plan, partial, beyond.ids))];
    },
    { replace: force, bytes: plan.bytes },
  );
  return { out: resolve(out), bytes: plan.bytes, warnings };
}

/** Writes the data files. */
async function writeWeights(plan: OnnxPlan, folder: string, options: WriteOnnxOptions): Promise<void> {
  const { source, data, tensors } = plan;
  const { threads, memory, signal, onProgress } = options;
  const bounds = { threads, memory, signal, onProgress };
  const outputs = data.map(({ name }) => join(folder, name));
  for (const [i, path] of outputs.entries()) {
    await withFile(path, "wx", (handle) => handle.truncate(data[i]?.bytes ?? 0));
  }
  await writeTables(plan, folder);
  const measured = await measureAll(source.measurements, source.sources, bounds);
  const resolver = new Resolver(source.sources, measured);
  const place = ({ location, offset }: ExternalData) => ({
    file: data.findIndex(({ name }) => name === location),
    offset,
  });
  const jobs = jobsOf(tensors, resolver, place);
  const program: Program = { inputs: resolver.inputs, outputs, jobs };
  const outcome = await runProgram(program, { ...bounds, phase: "reading and writing" });
  requireEncodable(outcome, jobs, source.name, "Use the type fp32 if they are beyond float16. ");
  await requireUnchanged(source.sources.values(), "the export would mix old and new. Run it again.");
}

async function writeTables({ source, tables }: OnnxPlan, folder: string): Promise<void> {
  const { ropes } = readSpec(source.config);
  const height = Math.max(0, ...tables.map(({ rows, longRows }) => Math.max(rows, longRows)));
  const values = new RopeTables(ropes);
  for (const { rope, rows, longRows, above, cos, sin } of tables) {
    const parts = [
      { table: values.feeds(1, height), count: rows },
      ...(longRows > 0 ? [{ table: values.feeds(above + 1, height), count: longRows }] : []),
    ];
    const half = (ropes[rope]?.dimensions ?? 0) / 2;
    for (const [name, { location, offset }] of [
      [`rope.${rope}.cos`, cos],
      [`rope.${rope}.sin`, sin],
    ] as const) {
      await withFile(join(folder, location), "r+", async (handle) => {
        let at = offset;
        for (const { table, count } of parts) {
          const bytes = bytesOf((table[name] as TensorValue).data).subarray(0, count * half * 4);
          await writeFully(handle, bytes, at);
          at += bytes.byteLength;
        }
      });
    }
  }
}

/** Parts that transformers.js requires in tokenizer.json, if only as null. */
const TOKENIZER_PARTS = ["normalizer", "pre_tokenizer", "post_processor", "decoder"];
// Files of the largest vocabularies, a quarter of a million tokens, have 35 MB.
const MAX_TOKENIZER_BYTES = 300_000_000;
// Far above any real template.
const MAX_TEMPLATE_BYTES = 10_000_000;

/** Tokens that the model cannot read. Of a tokenizer that layergraft does not read, nothing is known. */
async function checkTokens(source: OnnxPlan["source"]): Promise<ReturnType<typeof tokensBeyond>> {
  const read = loadSourceTokenizerParts(source).catch((error: unknown) => {
    if (error instanceof CheckpointError) return undefined;
    throw error;
  });
  const [parts, template] = await Promise.all([read, loadSourceTemplate(source)]);
  if (!parts) return { ids: new Set(), notes: [] };
  const { vocabularySize } = readSpec(source.config);
  return tokensBeyond(parts, vocabularySize, {
    name: source.name,
    format: "ONNX",
    ...(template ? { template: template.source } : {}),
  });
}

/** The content of tokenizer.json without some tokens. */
function withoutTokens(json: JsonObject, ids: ReadonlySet<number>): JsonObject {
  if (ids.size === 0) return json;
  const added = Array.isArray(json.added_tokens) ? json.added_tokens.filter(({ id }) => !ids.has(id)) : [];
  const model = isObject(json.model) ? json.model : {};
  const kept = isObject(model.vocab) ? Object.entries(model.vocab).filter(([, id]) => !ids.has(id as number)) : [];
  return {
    ...json,
    added_tokens: added,
    ...(isObject(model.vocab) ? { model: { ...model, vocab: Object.fromEntries(kept) } } : {}),
  };
}

/** Copies tokenizer and generation defaults, without the tokens of `left`; the template goes where transformers.js reads it. */
async function writeTexts({ source }: OnnxPlan, folder: string, left: ReadonlySet<number>): Promise<string[]> {
  await copyTextFiles([...source.textFolders].reverse(), source.addedTokens, folder);
  const [tokenizer, settings, template] = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"].map(
    (name) => join(folder, name),
  ) as [string, string, string];
  if (!(await exists(tokenizer))) {
    return [
      `${source.name} has no tokenizer.json, which transformers.js needs for text; copy that of its model into the folder`,
    ];
  }
  const json = withoutTokens(await readJsonObject(tokenizer, MAX_TOKENIZER_BYTES), left);
  if (left.size > 0 || TOKENIZER_PARTS.some((part) => !(part in json))) {
    const parts = Object.fromEntries(TOKENIZER_PARTS.map((part) => [part, null]));
    await writeFile(tokenizer, JSON.stringify({ ...parts, ...json }));
  }
  if (!(await exists(settings))) await writeFile(settings, "{}\n");
  if (await exists(template)) {
    const tooLarge = () => new CheckpointError(`${template} is too large to be a chat template`, { file: template });
    const text = (await readBounded(template, MAX_TEMPLATE_BYTES, tooLarge)).toString("utf8");
    await rewriteJson(settings, settings, (json) => ({ ...json, chat_template: text }));
  }
  return [];
}
