import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { availableParallelism, cpus, totalmem } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { installRuntime, loadRuntime } from "../../engine/runtime/index.js";
import { installLlama, loadLibrary } from "../../export/llama/index.js";
import { hubSettings } from "../../formats/hub/index.js";
import { usageError, VERSION } from "../../kit/index.js";
import { describeFree, freeMemory } from "../../kit/memory/index.js";
import { commandLine, formatBytes, publishedAt, shorten } from "../../kit/printing/index.js";
import { cloneFile } from "../../merge/output/index.js";
import { memoryTable, SOURCE } from "../../verbs/shared/index.js";
import { asTyped } from "../shared/command-name.js";
import { hubAccess } from "../shared/hub-access.js";
import { memoryLines } from "../shared/memory-lines.js";
import { interruptSignal, paletteFor, parsePositive, print, printJson, withCommonOptions } from "../shared/output.js";
import type { Command } from "../shared/typed.js";

interface Finding {
  readonly name: string;
  /** What was found; undefined if it is missing. */
  readonly found: string | undefined;
  /** What it is for. */
  readonly enables: string;
  /** The command that adds it. */
  readonly add?: string;
}

/** How long a program or the hub may take to answer, in milliseconds. */
const TIMEOUT = 10_000;
/** Instructions that matter for ONNX Runtime's and llama.cpp's kernels, as Linux names them. */
const CPU_FLAGS = /\b(?:avx2|avx512f|avx512_vnni|avx_vnni|amx_tile|asimd|asimddp|i8mm|sve)\b/g;
/** Prints the versions of the packages that can be imported, one a line. */
const PACKAGES = `import importlib.metadata as m, platform
print("Python", platform.python_version())
for name in ("torch", "trl", "vllm"):
    try: print(name, m.version(name))
    except m.PackageNotFoundError: pass`;

export function add(program: Command): void {
  const command = program
    .command("doctor")
    .description(
      "Print what is installed here, what each part enables, and the command that adds a missing one. With a model, print " +
        "the memory that running and training it need, and whether that is free. Reads headers, and downloads no weights.",
    )
    .argument("[model]", SOURCE)
    .option("--tokens <n>", "tokens of a text, prompt and answer together (default: 1024)", parsePositive)
    .option("--batch <n>", "texts at once (default: 1 to run, 8 to train)", parsePositive);
  withCommonOptions(command).action(async (model, options) => {
    if (model !== undefined) {
      const { tokens, batch: texts } = options;
      const signal = interruptSignal();
      const table = await memoryTable(model, {
        tokens,
        texts,
        hub: hubAccess("plan", { signal, onProgress: () => undefined }),
      });
      return options.json ? printJson(table) : print(memoryLines(table, paletteFor(process.stdout)));
    }
    if (options.tokens !== undefined || options.batch !== undefined)
      throw usageError("--tokens and --batch need a model.");
    const findings = await examine();
    if (options.json) return printJson(findings);
    const { dim, green, yellow } = paletteFor(process.stdout);
    const width = Math.max(...findings.map(({ name }) => name.length));
    print(
      findings.flatMap(({ name, found, enables, add }) => [
        `${found === undefined ? yellow("-") : green("✓")} ${name.padEnd(width)}  ${found ?? "not found"}`,
        dim(`  ${"".padEnd(width)}  ${asTyped(enables)}${found === undefined && add ? `; add it with: ${add}` : ""}`),
      ]),
    );
  });
}

async function examine(): Promise<readonly Finding[]> {
  const [flags, clones, disk, backends, gpus, python, slurm, llamaServer, llama, hub] = await Promise.all([
    readFile("/proc/cpuinfo", "utf8")
      .then((text) => [...new Set(text.match(CPU_FLAGS))].join(", "))
      .catch(() => ""),
    canClone(),
    statfs("."),
    loadRuntime()
      .then((ort) => ort.listSupportedBackends())
      .catch(() => undefined),
    answer("nvidia-smi", ["--query-gpu=name,memory.total", "--format=csv,noheader"]),
    answer("python3", ["-c", PACKAGES]),
    answer("sbatch", ["--version"]),
    answer("llama-server", ["--version"]),
    loadLibrary()
      .then(() => "installed")
      .catch(() => undefined),
    account(),
  ]);
  const version = (name: string) => python?.find((line) => line.startsWith(`${name} `));
  const cores = `${cpus()[0]?.model.trim() || process.arch}, ${availableParallelism()} cores${flags && `, ${flags}`}`;
  return [
    {
      name: "layergraft",
      found: VERSION,
      enables: `merging, analysis and the studio, without anything below; ${published()}`,
    },
    { name: "Node.js", found: process.version, enables: "20.19 or newer; 22.1 and newer start faster" },
    { name: "CPU", found: cores, enables: "merges and the embedded engine use all cores" },
    {
      name: "memory",
      found: `${describeFree(freeMemory())}, of ${formatBytes(totalmem())}`,
      enables: `a merge needs 0.1 to 0.3 GB; what a model needs: ${commandLine`doctor MODEL`}`,
    },
    {
      name: "disk here",
      found: `${formatBytes(disk.bavail * disk.bsize)} free; ${clones ? "clones files" : "copies files in full"}`,
      enables: "a merge takes the size of one model",
    },
    {
      name: "ONNX Runtime",
      found: backends?.map(({ name, bundled }) => (bundled ? name : `${name} (needs its GPU libraries)`)).join(", "),
      enables: "generate, chat, serve, score, eval and train with the embedded engine",
      add: installRuntime(),
    },
    {
      name: "node-llama-cpp",
      found: llama,
      enables: "--backend llama: quantized models, GPUs",
      add: installLlama(),
    },
    {
      name: "llama.cpp",
      found: llamaServer?.[0],
      enables: "run what export --format gguf writes",
      add: "see github.com/ggml-org/llama.cpp",
    },
    { name: "NVIDIA GPU", found: gpus?.join("; "), enables: "training handed to TRL, vLLM, --provider cuda" },
    { name: "hub", ...hub, enables: "models and data of the Hugging Face hub", add: "hf auth login, or set HF_TOKEN" },
    {
      name: "Python",
      found: python?.[0]?.replace("Python ", ""),
      enables: "tasks that execute programs, such as mbpp",
    },
    { name: "TRL", found: version("trl"), enables: "train --engine trl, on GPUs", add: "pip install trl" },
    { name: "vLLM", found: version("vllm"), enables: "eval --backend openai:URL on GPUs", add: "pip install vllm" },
    { name: "Slurm", found: slurm?.[0], enables: "experiments on a cluster: executor: { kind: slurm }" },
  ];
}

/** Where others find the package. */
function published(): string {
  const address = publishedAt();
  return address === undefined ? "not on npm or PyPI yet, so install it from a clone" : `published at ${address}`;
}

/** Lines that a program prints; undefined if it is not there or fails. */
async function answer(program: string, args: readonly string[]): Promise<string[] | undefined> {
  try {
    const { stdout, stderr } = await promisify(execFile)(program, args, { timeout: TIMEOUT, windowsHide: true });
    return (stdout.trim() || stderr.trim()).split("\n").map(shorten);
  } catch {
    return undefined;
  }
}

/** Whether the file system of the working folder copies a file by sharing its blocks. */
async function canClone(): Promise<boolean> {
  const folder = await mkdtemp(".layergraft-doctor-").catch(() => undefined);
  if (folder === undefined) return false;
  try {
    await writeFile(join(folder, "a"), "a");
    return await cloneFile(join(folder, "a"), join(folder, "b"));
  } catch {
    return false;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Whose token there is, as the hub says. */
async function account(): Promise<Pick<Finding, "found">> {
  try {
    const { endpoint, token, offline } = await hubSettings();
    if (token === undefined) return { found: undefined };
    if (offline) return { found: "token; offline by HF_HUB_OFFLINE" };
    const headers = { authorization: `Bearer ${token}` };
    const reply = await fetch(`${endpoint}/api/whoami-v2`, { headers, signal: AbortSignal.timeout(TIMEOUT) });
    if (!reply.ok) return { found: `token, refused by ${endpoint} (${reply.status})` };
    const { name } = (await reply.json()) as { name?: unknown };
    return { found: `logged in as ${shorten(String(name))}` };
  } catch (error) {
    return { found: `token not checked: ${error instanceof Error ? error.message : error}` };
  }
}
