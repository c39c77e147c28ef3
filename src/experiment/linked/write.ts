// A merged model as a folder of links: one weight file per layer, each kept once in a pool under what it is made of, so
// that forty configurations of two experts hold each expert's layers once, and beside them only what they blend. For
// servers, which want folders; the engine needs none.
import { createHash } from "node:crypto";
import { constants, copyFile, link, mkdir, open, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { isSystemError } from "../../core/errors.js";
import { exists, syncFolder } from "../../core/files.js";
import { groupBy } from "../../core/group.js";
import { measureAll } from "../../delta/measure.js";
import { writeCompanions } from "../../merge/companions.js";
import { compileWrite } from "../../merge/compile.js";
import type { OpenedPlan, Plan, Step } from "../../merge/index.js";
import { layoutFolder } from "../../safetensors/layout.js";
import { INDEX_FILE, SINGLE_FILE, shardName } from "../../safetensors/sharded.js";
import type { Measured } from "../../source/expression.js";
import { type RunOptions, runProgram } from "../../streaming/run.js";
import { canonicalJson } from "../steps/step.js";

export interface LinkOptions {
  /** Folder to write; what is there is replaced. */
  readonly out: string;
  /** Folder of the layers that models share, on the same file system if links are to be. */
  readonly pool: string;
  readonly threads?: number | undefined;
  readonly memory?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: RunOptions["onProgress"];
}

export interface LinkResult {
  /** Weight bytes that were written into the pool. */
  readonly written: number;
  /** Weight bytes that were there already and are linked to. */
  readonly shared: number;
  /** How the folder refers to the pool. */
  readonly by: "hard links" | "symbolic links" | "copies";
}

/** What one weight file of the model holds. */
interface Group {
  readonly steps: readonly Step[];
  readonly key: string;
}

/**
 * Writes a plan's model as links into the pool.
 *
 * The folder appears whole. Its weights are those that `executePlan` would write, in other files.
 */
export async function writeLinked(opened: OpenedPlan, options: LinkOptions): Promise<LinkResult> {
  const { plan, sources } = opened;
  const out = resolve(options.out);
  const pool = resolve(options.pool);
  await mkdir(pool, { recursive: true });
  const groups = [...groupBy(plan.steps, ({ layer }) => layer).values()].map((steps): Group => {
    return { steps, key: keyOf(steps, opened) };
  });
  const missing: Group[] = [];
  for (const group of groups) if (!(await exists(poolFile(pool, group)))) missing.push(group);
  const bounds = pick(options);
  const isMeasured = missing.some(({ steps }) => JSON.stringify(steps).includes('"measured"'));
  const measured: Measured = isMeasured ? await measureAll(plan.measurements, sources, bounds) : new Map();
  for (const group of missing) await writeGroup(opened, group, measured, pool, options);

  const partial = `${out}.partial`;
  await rm(partial, { recursive: true, force: true });
  await mkdir(partial, { recursive: true });
  const names = groups.map((_, i) => (groups.length === 1 ? SINGLE_FILE : shardName(i + 1, groups.length)));
  let by: LinkResult["by"] = "hard links";
  for (const [i, group] of groups.entries()) by = await refer(poolFile(pool, group), join(partial, names[i] ?? ""), by);
  if (groups.length > 1) await writeFile(join(partial, INDEX_FILE), indexOf(groups, names));
  await writeCompanions(plan, sources, partial);
  await rm(out, { recursive: true, force: true });
  await syncFolder(partial);
  await rename(partial, out);
  const isWritten = new Set(missing);
  const bytes = (some: readonly Group[]) =>
    some.reduce((sum, { steps }) => sum + layoutFolder(steps.map(declare)).totalSize, 0);
  return { written: bytes(missing), shared: bytes(groups.filter((group) => !isWritten.has(group))), by };
}

function pick({ threads, memory, signal, onProgress }: LinkOptions): Omit<RunOptions, "phase"> {
  return { threads, memory, signal, onProgress };
}

const declare = ({ tensor, dtype, shape }: Step) => ({ name: tensor, dtype, shape });

function poolFile(pool: string, { key }: Group): string {
  return join(pool, `${key}.safetensors`);
}

/** The same for the same tensors made of the same files, whatever the plan calls them. */
function keyOf(steps: readonly Step[], { plan, sources }: OpenedPlan): string {
  const identities = new Map(
    plan.sources.map(({ id, folder, adapter, digest }) => {
      const times = sources.get(id)?.files.map(({ bytes, modified }) => [bytes, modified]);
      return [id, [folder, adapter, digest, times]];
    }),
  );
  const named = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(named);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([field, inner]) => {
        if (field === "source" && typeof inner === "string") return [field, identities.get(inner)];
        // A measured number is what its measurement is of.
        if (field === "measured" && typeof inner === "string") return [field, named(measurementOf(plan, inner))];
        return [field, named(inner)];
      }),
    );
  };
  const made = steps.map(({ tensor, dtype, shape, value }) => [tensor, dtype, shape, named(value)]);
  return createHash("sha256").update(canonicalJson(made)).digest("hex").slice(0, 40);
}

function measurementOf(plan: Plan, id: string): unknown {
  const found = plan.measurements.find((measurement) => measurement.id === id);
  if (!found) return id;
  const { label: _, ...rest } = found as unknown as Record<string, unknown>;
  return rest;
}

async function writeGroup(
  { plan, sources }: OpenedPlan,
  group: Group,
  measured: Measured,
  pool: string,
  options: LinkOptions,
): Promise<void> {
  const { steps } = group;
  const layout = layoutFolder(steps.map(declare), { shardBytes: Number.POSITIVE_INFINITY });
  const [shard] = layout.shards;
  if (!shard) return;
  // Of this process alone: another may be writing the same layer, and the last rename of equal files wins.
  const temporary = `${poolFile(pool, group)}.${process.pid}.tmp`;
  try {
    const handle = await open(temporary, "w");
    try {
      await handle.truncate(shard.bytes);
      await handle.write(shard.header, 0, shard.header.byteLength, 0);
    } finally {
      await handle.close();
    }
    const program = compileWrite({ ...plan, steps }, sources, measured, layout, [temporary]);
    await runProgram(program, { ...pick(options), phase: "writing layers" });
    const written = await open(temporary, "r+");
    try {
      await written.datasync();
    } finally {
      await written.close();
    }
    await rename(temporary, poolFile(pool, group));
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Puts a file of the pool into the folder, by the best means that the file system has. */
async function refer(from: string, to: string, by: LinkResult["by"]): Promise<LinkResult["by"]> {
  const cannot = (error: unknown) =>
    ["EXDEV", "EPERM", "EMLINK", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EACCES"].some((code) =>
      isSystemError(error, code),
    );
  if (by === "hard links") {
    try {
      await link(from, to);
      return by;
    } catch (error) {
      if (!cannot(error)) throw error;
    }
  }
  if (by !== "copies") {
    try {
      await symlink(from, to, "file");
      return "symbolic links";
    } catch (error) {
      if (!cannot(error)) throw error;
    }
  }
  await copyFile(from, to, constants.COPYFILE_FICLONE);
  return "copies";
}

function indexOf(groups: readonly Group[], names: readonly string[]): string {
  const weightMap = Object.fromEntries(groups.flatMap(({ steps }, i) => steps.map(({ tensor }) => [tensor, names[i]])));
  const total = groups.reduce((sum, { steps }) => sum + layoutFolder(steps.map(declare)).totalSize, 0);
  return `${JSON.stringify({ metadata: { total_size: total }, weight_map: weightMap }, null, 2)}\n`;
}
