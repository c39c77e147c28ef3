// Imports go downward only. The table is ARCHITECTURE.md's, as code.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const SOURCES = join(import.meta.dirname, "../src");

/** What a module may import besides itself. */
const BELOW_SOURCE = ["core", "kernels", "safetensors", "checkpoint", "streaming"];
const BELOW_ENGINE = [...BELOW_SOURCE, "source", "delta", "merge", "mergekit", "graph", "runtime", "model", "text"];
const MAY_IMPORT: Record<string, readonly string[]> = {
  core: [],
  kernels: ["core"],
  safetensors: ["core"],
  checkpoint: ["core", "safetensors"],
  streaming: ["core", "kernels"],
  source: BELOW_SOURCE,
  delta: [...BELOW_SOURCE, "source"],
  merge: [...BELOW_SOURCE, "source", "delta"],
  analysis: [...BELOW_SOURCE, "source", "delta", "merge", "report"],
  mergekit: [...BELOW_SOURCE, "source", "delta", "merge"],
  graph: ["core"],
  runtime: ["core", "graph"],
  text: ["core"],
  model: ["core", "safetensors", "checkpoint", "graph"],
  engine: [...BELOW_ENGINE],
  data: ["core", "text"],
  train: [...BELOW_ENGINE, "engine", "data"],
  evaluate: ["core", "text", "data", "engine", "report"],
  experiment: [...BELOW_ENGINE, "engine", "data", "train", "evaluate", "analysis", "report"],
  report: ["core"],
};

interface Import {
  file: string;
  from: string;
  to: string;
}

function importsOf(path: string): Import[] {
  const text = readFileSync(path, "utf8");
  return [...text.matchAll(/^(?:import|export)\s+[^;]*?from\s+"(\.[^"]+)"/gms)].map((match) => ({
    file: relative(SOURCES, path),
    from: moduleOf(path),
    to: moduleOf(resolve(dirname(path), match[1] ?? "")),
  }));
}

/** The folder under src/ that a file is in; "" for the package's own index. */
function moduleOf(path: string): string {
  const parts = relative(SOURCES, path).split("/");
  return parts.length > 1 ? (parts[0] ?? "") : "";
}

const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".ts") && !/\.(test|test-util|d)\.ts$/.test(name) && !name.includes("assembly/"))
  .map((name) => join(SOURCES, name));

test("every module is in the table", () => {
  const modules = new Set(files.map(moduleOf));
  modules.delete("");
  expect([...modules].sort()).toEqual([...Object.keys(MAY_IMPORT), "cli"].sort());
});

test("imports go downward only", () => {
  const imports = files.flatMap(importsOf);
  expect(imports.length).toBeGreaterThan(100); // the pattern still finds them
  const upward = imports.filter(({ from, to }) => {
    if (from === "" || from === "cli" || from === to) return from === "cli" && to === "";
    return !(MAY_IMPORT[from] ?? []).includes(to);
  });
  expect(upward).toEqual([]);
});

test("nothing imports the command line", () => {
  expect(files.flatMap(importsOf).filter(({ from, to }) => to === "cli" && from !== "cli")).toEqual([]);
});

test("each large package has one door", () => {
  const doors = {
    "onnxruntime-node": "runtime/load.ts",
    "@huggingface/jinja": "text/jinja.ts",
    "@huggingface/hub": "data/hub",
  };
  for (const [name, door] of Object.entries(doors)) {
    const importers = files.filter((file) =>
      new RegExp(`(from|import\\(|typeof import\\()\\s*"${name}"`).test(readFileSync(file, "utf8")),
    );
    expect(
      importers.map((file) => relative(SOURCES, file)).filter((file) => !file.startsWith(door)),
      name,
    ).toEqual([]);
  }
});

test("files stay readable: at most 450 lines", () => {
  const long = files.filter((file) => readFileSync(file, "utf8").split("\n").length > 450);
  expect(long.map((file) => relative(SOURCES, file))).toEqual([]);
});
