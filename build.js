// Builds dist/ unless it is current: in a folder beside it that takes its place, so that a linked layergraft always runs.
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  chmodSync,
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { delimiter, join, resolve } from "node:path";

/** @param {string} file */
const readJson = (file) => JSON.parse(readFileSync(file, "utf8"));
const isWindows = process.platform === "win32";

const FOLDERS = ["src", "assets"];
const FILES = /^(package(-lock)?|tsconfig.*)\.json$|^(build|types|rolldown\.config)\.js$/;
/** In dist/: what it was built from. */
const STAMP = ".inputs";
const DECLARATIONS = "node_modules/.cache/declarations";

/** A digest of the names, sizes and times of everything that the build reads. */
function digestInputs() {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: "utf8" }).map((name) => join(folder, name)),
  );
  const read = [...readdirSync(".").filter((name) => FILES.test(name)), ...files].filter(
    (name) => !/\.test\.tsx?$/.test(name) && statSync(name).isFile(),
  );
  const lines = read.sort().map((name) => `${name} ${statSync(name).size} ${statSync(name).mtimeMs}`);
  return createHash("sha256").update(lines.join("\n")).digest("hex");
}

/** Installs the compilers' binaries, which npm leaves out with --omit=optional as it does ONNX Runtime. */
function addCompilers() {
  if (!existsSync("node_modules/rolldown")) throw new Error("The build needs the development packages. Run: npm ci");
  const libc = JSON.stringify(process.report.getReport()).includes('"glibcVersionRuntime"') ? "glibc" : "musl";
  const missing = Object.entries(readJson("package-lock.json").packages)
    .filter(([, { dev, optional, os = [] }]) => dev && optional && os.includes(process.platform))
    .filter(
      ([, { cpu, libc: libcs }]) => (cpu ?? [process.arch]).includes(process.arch) && (libcs ?? [libc]).includes(libc),
    )
    .filter(([path]) => !existsSync(path))
    .map(([path, { version }]) => `${path.replace(/^.*node_modules\//, "")}@${version}`);
  if (missing.length === 0) return;
  const args = ["install", "--no-save", "--omit=optional", ...missing];
  execFileSync("npm", args, { stdio: "inherit", shell: isWindows });
}

/** @param {string} command a program of a package, with arguments */
async function run(command) {
  const PATH = `${resolve("node_modules/.bin")}${delimiter}${process.env.PATH}`;
  const child = spawn(command, { stdio: ["ignore", "ignore", "inherit"], shell: true, env: { ...process.env, PATH } });
  const status = await new Promise((done) => child.on("close", done));
  if (status !== 0) throw new Error(`${command} failed`);
}

/** Keeps the WebAssembly of the last build where it is newer than its sources, as compiling it takes seconds. @param {string} file */
async function buildKernels(file) {
  const [sources, last] = ["src/kernels/assembly", "dist/kernels/kernels.wasm"];
  const changed = readdirSync(sources).map((name) => statSync(join(sources, name)).mtimeMs);
  if (existsSync(last) && statSync(last).mtimeMs > Math.max(...changed))
    cpSync(last, file, { preserveTimestamps: true });
  else await run(`asc --config ${sources}/asconfig.json --outFile ${file}`);
}

/** Declarations are compiled incrementally in a folder of their own, where those of files that are gone stay. @param {string} folder */
async function buildDeclarations(folder) {
  await run(`tsc -p tsconfig.build.json --outDir ${DECLARATIONS}`);
  for (const name of readdirSync(DECLARATIONS, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".d.ts") || !existsSync(join("src", name.replace(/\.d\.ts$/, ".ts")))) continue;
    cpSync(join(DECLARATIONS, name), join(folder, name));
  }
}

/** @param {string} folder */
async function buildInto(folder) {
  const page = `${resolve(folder)}/studio`;
  const results = await Promise.allSettled([
    run(`rolldown --config --dir ${folder}`),
    buildKernels(`${folder}/kernels/kernels.wasm`),
    run(`vite build src/studio/page --logLevel warn --outDir "${page}/page"`),
    run(
      `vite build src/studio/page --config src/studio/page/vite.analysis.config.ts --logLevel warn --outDir "${page}"`,
    ),
    buildDeclarations(folder),
  ]);
  for (const result of results) if (result.status === "rejected") throw result.reason;
  await run(`node types.js ${folder}`);
  // npm makes a linked command executable when it is installed, and not after a later build.
  for (const file of Object.values(readJson("package.json").bin)) chmodSync(file.replace("dist", folder), 0o755);
}

process.chdir(import.meta.dirname);
const digest = digestInputs();
if (!existsSync(`dist/${STAMP}`) || readFileSync(`dist/${STAMP}`, "utf8") !== digest) {
  const next = `dist.${process.pid}`;
  try {
    addCompilers();
    await buildInto(next);
    writeFileSync(`${next}/${STAMP}`, digest);
    if (existsSync("dist")) renameSync("dist", `${next}.last`);
    renameSync(next, "dist");
    rmSync(`${next}.last`, { recursive: true, force: true });
  } catch (error) {
    process.exitCode = 1;
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`);
  } finally {
    rmSync(next, { recursive: true, force: true });
  }
}
