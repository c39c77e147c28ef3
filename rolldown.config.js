// Bundles src/ into dist/: one file for each module that package.json names, and the chunks that they share. A command
// then reads a few files instead of hundreds, without the parts that it does not use.
import { readFileSync } from "node:fs";
import { defineConfig } from "rolldown";

const read = (file) => readFileSync(new URL(file, import.meta.url), "utf8");
const { bin, dependencies, exports, imports, optionalDependencies, version } = JSON.parse(read("package.json"));

// Every command reads these; as packages they take longer to load than a plan takes to make. Zod stays a dependency for
// its types, which those of layergraft name.
const BUNDLED = ["commander", "picocolors", "yaml", "zod"];

// What Vite bundles into the pages of dist/studio.
const IN_PAGES = ["preact", "@preact/signals", "@preact/signals-core"];

const targets = [...Object.values(exports), ...Object.values(imports), ...Object.values(bin)];
const modules = targets.flatMap((target) => /^\.\/dist\/(.*)\.js$/.exec(target.default ?? target)?.[1] ?? []);
// A thread has a bundle of its own: of a method's file it needs the arithmetic, and not the schemas, which load zod.
const THREAD = "merge/worker";
const external = Object.keys({ ...dependencies, ...optionalDependencies }).filter((name) => !BUNDLED.includes(name));

const inputOf = (names) => Object.fromEntries(names.map((name) => [name, `src/${name}.ts`]));

/** A verb and what it shows are one chunk. @param {string} file */
const verbChunk = (file) => `verb-${/([\w-]+?)(-show|-run)?\.ts$/.exec(file)?.[1]}`;

const common = {
  platform: "node",
  // Methods of users get all of zod, as a package.
  external: [/^#/, "zod/v4", ...external.map((name) => new RegExp(`^${name}(/|$)`))],
  // Only entries do anything when they are imported.
  treeshake: { moduleSideEffects: false },
  resolve: { extensionAlias: { ".js": [".ts", ".js"] } },
};

const thread = {
  ...common,
  treeshake: {
    ...common.treeshake,
    propertyReadSideEffects: false,
    manualPureFunctions: ["defineCombination", "defineMethod", "sparsifyingMethod", "taskVectors"],
  },
  input: inputOf([THREAD]),
  output: { dir: "dist", chunkFileNames: "chunks/thread-[name].js" },
};

const main = {
  ...common,
  input: inputOf(modules.filter((name) => name !== THREAD)),
  // As groups without their dependencies need it.
  preserveEntrySignatures: "allow-extension",
  output: {
    dir: "dist",
    chunkFileNames: "chunks/[name].js",
    // Opening a file takes longer than compiling what of it is not used.
    codeSplitting: {
      groups: [
        { name: "zod", test: /node_modules\/zod\// },
        // What every command loads, --help too.
        { name: "common", test: /^\0rolldown|src\/kit\/(errors|json|version|progress|printing\/[\w-]+)\.ts$/ },
        {
          name: "commands",
          test: /node_modules\/(commander|picocolors)\/|src\/(verbs|experiment\/verbs)\/all\.ts|src\/cli\/(command-table|shared\/(output|command-name|typed|advice))\.ts$/,
        },
        { name: "merge-commands", test: /src\/cli\/shared\/(recipe-flags|push|hub-access)\.ts$/ },
        { name: "verbs", test: /src\/verbs\/(plan-merge|options|verb)\.ts$/ },
        // A command loads its own verb, and not those that other rooms load with it.
        {
          name: verbChunk,
          debugName: "a verb",
          test: /src\/verbs\/(analyze|analyze-show|compare|diff|evaluate|evaluate-run|export|extract|generate|inspect|measure|merge|merge-show|model|model-fields|neurons|push|rate|revert|score|serve-takes|chat|server-backend|soup|sources|suggest|swap|train|train-show|train-preview|transplant|hand-over|verify|tune)\.ts$/,
          includeDependenciesRecursively: false,
        },
        {
          name: "card",
          test: /src\/merge\/card\/(card-report|sentences|open-check)\.ts$/,
          includeDependenciesRecursively: false,
        },
        { name: "analysis", test: /src\/merge\/analysis\//, includeDependenciesRecursively: false },
        // What every merge reads, in two files in place of one for each set of entries that shares it.
        { name: "weights", test: /src\/(kernels|formats|families|tensor)\// },
        { name: "merge", test: /src\/(merge\/(recipe|plan|methods|output)|figures\/strip)/ },
      ],
    },
  },
  plugins: [
    {
      // Commander loads it for commands in files of their own, which layergraft has none of; that takes 5 ms.
      name: "no-child-process",
      transform: {
        filter: { id: /commander\/lib\/command\.js$/ },
        handler: (code) => code.replace("require('node:child_process')", "{}"),
      },
    },
    {
      // Finding package.json takes 3 ms.
      name: "version",
      transform: {
        filter: { id: /src\/kit\/version\.ts$/ },
        handler: () => `export const VERSION = ${JSON.stringify(version)};`,
      },
    },
    {
      // Zod's messages in 60 languages, of which layergraft prints English.
      name: "english",
      transform: {
        filter: { id: /zod\/v4\/locales\/index\.js$/ },
        handler: () => 'export { default as en } from "./en.js";',
      },
    },
    {
      name: "licenses",
      generateBundle() {
        const texts = [...BUNDLED, ...IN_PAGES].map((name) => `${name}\n\n${read(`node_modules/${name}/LICENSE`)}`);
        const source = texts.join("\n---\n\n");
        this.emitFile({ type: "asset", fileName: "LICENSES.txt", source });
      },
    },
  ],
};

export default defineConfig([main, thread]);
