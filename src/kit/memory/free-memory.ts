// How many bytes this process may take before the kernel ends it or the machine swaps.

import { readFileSync } from "node:fs";
import { freemem, totalmem } from "node:os";
import { dirname, join } from "node:path";
import { usageError } from "../errors.js";
import { formatBytes, parseBytes } from "../printing/index.js";

export interface FreeMemory {
  readonly bytes: number;
  /** Where the number is from: LAYERGRAFT_MEMORY, the limit of a control group (a container), or the machine. */
  readonly limit: "setting" | "container" | "machine";
}

export interface FreeMemoryOptions {
  /** The root of the file system. For tests. */
  readonly root?: string | undefined;
  readonly environment?: Readonly<Record<string, string | undefined>> | undefined;
  readonly platform?: NodeJS.Platform | undefined;
}

/**
 * Memory that is free now. Pages of files that the kernel can drop are free. On Linux, the least of MemAvailable and of
 * what the control groups of this process leave (version 1 and 2, each with the groups around it).
 * @throws LayergraftError code `usage` if LAYERGRAFT_MEMORY is not a size
 */
export function freeMemory(options: FreeMemoryOptions = {}): FreeMemory {
  const { root = "/", environment = process.env, platform = process.platform } = options;
  const setting = environment.LAYERGRAFT_MEMORY?.trim();
  if (setting) {
    const bytes = parseBytes(setting);
    if (bytes === undefined) throw usageError(`LAYERGRAFT_MEMORY is ${setting}; it must be a size such as 16GB.`);
    return { bytes, limit: "setting" };
  }
  const machine = { bytes: availableOn(platform, root), limit: "machine" } as const;
  if (platform !== "linux") return machine;
  const container = Math.min(...groupsOf(root).map(leftInGroup));
  return container < machine.bytes ? { bytes: container, limit: "container" } : machine;
}

/** `21.9 GB are free`, with what says so. */
export function describeFree({ bytes, limit }: FreeMemory): string {
  if (limit === "setting") return `LAYERGRAFT_MEMORY is ${formatBytes(bytes)}`;
  return `${formatBytes(bytes)} ${limit === "container" ? "of this container " : ""}are free`;
}

/** The share of a Mac's memory that programs can have: macOS compresses and drops what is not in use, and counts it as used. */
const MAC_SHARE = 0.75;

function availableOn(platform: NodeJS.Platform, root: string): number {
  if (platform === "darwin") return Math.max(freemem(), MAC_SHARE * totalmem());
  const kilobytes = /^MemAvailable:\s+(\d+) kB/m.exec(textOf(join(root, "proc/meminfo")))?.[1];
  return platform === "linux" && kilobytes !== undefined ? Number(kilobytes) * 1024 : freemem();
}

/** A control group's folder, and its files in this version. */
interface Group {
  readonly folder: string;
  readonly limits: readonly string[];
  readonly usage: string;
  /** Lines of memory.stat with pages of files that the kernel can drop; usage includes them. */
  readonly droppable: RegExp;
}

// memory.high slows a process down before memory.max ends it.
const VERSION_2 = {
  limits: ["memory.max", "memory.high"],
  usage: "memory.current",
  droppable: /^(?:in)?active_file (\d+)$/gm,
};
const VERSION_1 = {
  limits: ["memory.limit_in_bytes"],
  usage: "memory.usage_in_bytes",
  droppable: /^total_(?:in)?active_file (\d+)$/gm,
};

/** The groups of this process that may limit its memory, with those around them. */
function groupsOf(root: string): Group[] {
  const base = join(root, "sys/fs/cgroup");
  return textOf(join(root, "proc/self/cgroup"))
    .split("\n")
    .flatMap((line): Group[] => {
      const [, controllers = "", path = "/"] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
      const around = outwards(path);
      // Version 2 is mounted there, or below where version 1 is in use, too.
      if (line.startsWith("0::")) {
        return ["", "unified"].flatMap((mount) =>
          around.map((group) => ({ folder: join(base, mount, group), ...VERSION_2 })),
        );
      }
      if (!controllers.split(",").includes("memory")) return [];
      return around.map((group) => ({ folder: join(base, "memory", group), ...VERSION_1 }));
    });
}

/** A path and those around it. A container may see its own group as the root, so all of them are looked at. */
function outwards(path: string): string[] {
  return path === "/" ? [path] : [path, ...outwards(dirname(path))];
}

/** Bytes that a group leaves; infinite where it has no limit. */
function leftInGroup({ folder, limits, usage, droppable }: Group): number {
  // "max" is no limit. Version 1 has the largest number of whole pages instead, which is more than any machine has.
  const sizes = limits.map((name) => Number.parseInt(textOf(join(folder, name)), 10));
  const limit = Math.min(...sizes.filter(Number.isFinite));
  const used = Number.parseInt(textOf(join(folder, usage)), 10);
  if (!Number.isFinite(limit) || Number.isNaN(used)) return Number.POSITIVE_INFINITY;
  const files = [...textOf(join(folder, "memory.stat")).matchAll(droppable)];
  const dropped = files.reduce((sum, [, bytes]) => sum + Number(bytes), 0);
  return Math.max(0, limit - Math.max(0, used - dropped));
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
