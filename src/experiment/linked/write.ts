// A merged model as a folder of links: one weight file per layer, each kept once in a pool under what it is made of, so
// that forty configurations of two experts hold each expert's layers once, and beside them only what they blend. For
// servers, which want folders; the engine needs none.
import { randomBytes } from "node:crypto";
import { constants, copyFile, link, mkdir, open, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { isSystemError, LayergraftError } from "../../core/errors.js";
import { stampOf, syncFolder } from "../../core/files.js";
import { groupBy } from "../../core/group.js";
import { measureAll } from "../../delta/measure.js";
import { writeCompanions } from "../../merge/companions.js";
import { compileWrite } from "../../merge/compile.js";
import type { OpenedPlan, Plan, Step } from "../../merge/index.js";
import { layoutFolder, type ShardLayout } from "../../safetensors/layout.js";
import { INDEX_FILE, SINGLE_FILE, shardName } from "../../safetensors/sharded.js";
import type { Measured } from "../../source/expression.js";
import { type RunOptions, runProgram } from "../../streaming/run.js";
import { digestOf } from "../steps/step.js";
import { admit, isPooled, poolFile } from "./pool.js";

export interface LinkOptions {
  /** Folder to write; what is there is replaced. */
  readonly out: string;
  /** Folder of the layers that models share, on the same file system if links are to be. */
  readonly pool: string;
  readonly threads?: number | undefined;
  readonly memory?: number | undefined;
  /**
   * The identity of the model in a folder (or FOLDER+ADAPTER), where it is known: layers of the same bytes are then shared
   * wherever the models are. Without one, a layer belongs to the files as they are now.
   */
  readonly identityOf?: ((folder: string) => string | undefined) | undefined;
  /**
   * Called before a written layer becomes the pool's; throws where the models are not what they were when they were
   * identified. Default: where their files were written to since this function began.
   */
  readonly check?: (() => Promise<void>) | undefined;
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
  readonly layout: ShardLayout;
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
  const before = await stampsOf(opened);
  const identities = identitiesOf(opened, before, options.identityOf);
  const groups = [...groupBy(plan.steps, ({ layer }) => layer).values()].map((steps): Group => {
    return { steps, key: keyOf(steps, plan, identities), layout: layoutOf(steps) };
  });
  const missing: Group[] = [];
  for (const group of groups) if (!(await isPooled(pool, group.key, group.layout))) missing.push(group);
  const bounds = pick(options);
  const isMeasured = missing.some(({ steps }) => JSON.stringify(steps).includes('"measured"'));
  const measured: Measured = isMeasured ? await measureAll(plan.measurements, sources, bounds) : new Map();
  const check = options.check ?? (() => refuseChanged(opened, before));
  for (const group of missing) await writeGroup(opened, group, measured, pool, { ...options, check });

  const partial = `${out}.partial`;
  await rm(partial, { recursive: true, force: true });
  await mkdir(partial, { recursive: true });
  const names = groups.map((_, i) => (groups.length === 1 ? SINGLE_FILE : shardName(i + 1, groups.length)));
  let by: LinkResult["by"] = "hard links";
  for (const [i, group] of groups.entries())
    by = await refer(poolFile(pool, group.key), join(partial, names[i] ?? ""), by);
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

function layoutOf(steps: readonly Step[]): ShardLayout {
  return layoutFolder(steps.map(declare), { shardBytes: Number.POSITIVE_INFINITY }).shards[0] as ShardLayout;
}

/** By source: its weight files, each with size, times and number on the disk. */
async function stampsOf({ sources }: OpenedPlan): Promise<ReadonlyMap<string, readonly string[]>> {
  const stamps = new Map<string, readonly string[]>();
  for (const [id, { files }] of sources) {
    stamps.set(id, await Promise.all(files.map(async ({ path }) => `${path} ${await stampOf(path)}`)));
  }
  return stamps;
}

async function refuseChanged(opened: OpenedPlan, before: ReadonlyMap<string, readonly string[]>): Promise<void> {
  const now = await stampsOf(opened);
  const changed = opened.plan.sources.filter(({ id }) => now.get(id)?.join("\n") !== before.get(id)?.join("\n"));
  if (changed.length === 0) return;
  const names = changed.map(({ name }) => name).join(", ");
  throw new LayergraftError("changed", `${names} changed while the model was written; write it again`);
}

/** What each source is: its bytes where they are known, otherwise its files. */
function identitiesOf(
  { plan }: OpenedPlan,
  stamps: ReadonlyMap<string, readonly string[]>,
  identityOf: LinkOptions["identityOf"],
): ReadonlyMap<string, unknown> {
  return new Map(
    plan.sources.map(({ id, folder, adapter, digest }) => {
      const known = identityOf?.(adapter === undefined ? folder : `${folder}+${adapter}`);
      // What a step made is known by the step, whose second run need not give the same bytes.
      return [id, known?.startsWith("sha256:") ? known : [known, folder, adapter, digest, stamps.get(id)]];
    }),
  );
}

/** The same for the same tensors made of the same bytes, whatever the plan calls them. */
function keyOf(steps: readonly Step[], plan: Plan, identities: ReadonlyMap<string, unknown>): string {
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
  return digestOf(made).slice(0, 40);
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
  options: LinkOptions & { readonly check: () => Promise<void> },
): Promise<void> {
  const { steps, layout: shard, key } = group;
  const layout = layoutFolder(steps.map(declare), { shardBytes: Number.POSITIVE_INFINITY });
  // Of this process alone: another may be writing the same layer, and the last rename of equal files wins.
  const temporary = `${poolFile(pool, key)}.${randomBytes(6).toString("hex")}.tmp`;
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
    await options.check();
    await admit(pool, key, temporary);
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
