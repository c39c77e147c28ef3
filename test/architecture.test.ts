// The rooms of src/ import one another as the table in ARCHITECTURE.md says, and no folders import in a circle.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..");
const SOURCES = join(ROOT, "src");

/** Rooms with those that they may import: the first and last column of the table of rooms. */
const ROOMS = new Map(
  [...readFileSync(join(ROOT, "ARCHITECTURE.md"), "utf8").matchAll(/^\| `(\w+)\/` *\|.*\| ([^|]+?) *\|$/gm)].map(
    ([, room = "", allowed = ""]) => [room, allowed.split(", ")] as const,
  ),
);

interface Import {
  readonly file: string;
  /** Folder below src/; "" for the package's own index. */
  readonly from: string;
  readonly to: string;
  /** File that is imported, below src/. */
  readonly target: string;
}

const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" })
  .filter((name) => /(?<!\.(?:test|d))\.tsx?$/.test(name) && !name.includes("assembly/"))
  .map((name) => join(SOURCES, name));

const imports = files.flatMap((path) =>
  [...readFileSync(path, "utf8").matchAll(/(?:^(?:import|export)\s[^;]*?from\s+|import\()"(\.[^"]+)"/gms)].map(
    ([, spec = ""]): Import => {
      const target = relative(SOURCES, resolve(dirname(path), spec));
      return {
        file: relative(SOURCES, path),
        from: relative(SOURCES, dirname(path)),
        to: dirname(target) === "." ? "" : dirname(target),
        target,
      };
    },
  ),
);

const roomOf = (folder: string) => folder.split("/")[0] ?? "";

test("every room is in the table, and nothing else", () => {
  const rooms = new Set(files.map((path) => roomOf(relative(SOURCES, dirname(path)))));
  rooms.delete("");
  expect([...ROOMS.keys()].sort()).toEqual([...rooms].sort());
});

test("rooms import only those that the table allows", () => {
  expect(imports.length).toBeGreaterThan(1000); // the pattern still finds them
  const wrong = imports.filter(({ from, to }) => {
    const [room, other] = [roomOf(from), roomOf(to)];
    return room !== "" && room !== other && !ROOMS.get(room)?.includes(other);
  });
  expect(wrong).toEqual([]);
});

/** Modules that import nothing, which the studio's page has without the rest of their room, as that needs Node.js. */
const IN_PAGES = [
  "kit/printing/format.ts",
  "merge/compared-changes.ts",
  "merge/layer-owner.ts",
  "merge/recipe/output-fields.ts",
  "figures/scores.ts",
];

test("rooms are entered through an index.ts alone", () => {
  const around = imports.filter(
    ({ from, to, target }) =>
      roomOf(from) !== "" &&
      roomOf(from) !== roomOf(to) &&
      !target.endsWith("/index.js") &&
      !(/^studio\/(page|recipe)/.test(from) && IN_PAGES.includes(target.replace(/\.js$/, ".ts"))),
  );
  expect(around).toEqual([]);
});

test("a door shows at most 60 names", () => {
  const doors = files.filter((path) => path.endsWith("/index.ts") && !/src\/(?:api|verbs)\/index\.ts$/.test(path));
  const wide = doors.flatMap((path) => {
    const lists = [...readFileSync(path, "utf8").matchAll(/^export (?:type )?\{([^}]*)\} from/gm)];
    const names = lists.flatMap(([, list = ""]) => list.split(",").filter((name) => name.trim() !== ""));
    return names.length > 60 ? [`${relative(SOURCES, path)}: ${names.length}`] : [];
  });
  expect(wide).toEqual([]);
});

/** Rooms that verbs orchestrate, with values of them that only read or format, which all may import. */
const OF_VERBS: Readonly<Record<string, readonly string[]>> = {
  train: ["checkRun", "dataOf", "keptNotes", "readTrainingLog", "RUN_FILES", "TRL_FILES"],
  "train/data": ["formatOfName", "planSet", "readRows"],
  "merge/analysis": [
    // Of an analysis that is there.
    ...["changedRowsOf", "mostChangedRows", "overlapOf", "pageData", "suggestRecipes", "trainingSentences"],
  ],
  "merge/extract": [],
  "merge/output": ["cloneFile", "pictureInCard", "pushLines"],
  evaluate: [
    ...["HUB_SCORES", "SCORE_FORMATS", "comparisonLines"],
    ...["ownPrompt", "readResults", "readSamples", "readTexts", "readVerdicts", "scoreLines"],
    ...["scoreTexts", "sharedPrompt", "sharedPrompts", "together"],
  ],
  // What is found in results that are there.
  "evaluate/findings": ["compareFinding", "findingAbout", "isDifferent", "kindOfMethod", "leadOf"],
  "evaluate/scoring": ["averageRepeats", "turned"],
  "evaluate/tasks": [
    ...["isTie", "judgingDigest", "promptsDigest", "protocolId", "protocolTitle", "readDeclaration", "SUITES"],
    "TASK_FAMILIES",
  ],
  export: ["EXPORT_FORMATS"],
  "export/llama": [],
};

/** What files call by themselves, each for a reason. */
const LEFT: Readonly<Record<string, readonly string[]>> = {
  // It looks at the installation, and completes it.
  "cli/commands/doctor-command.ts": ["installLlama", "loadLibrary"],
  // Another form of the result, which --format chooses.
  "cli/commands/eval-command.ts": ["writeHubScores"],
  // Into the card of what an experiment exports or pushes.
  "cli/commands/experiment-command.ts": ["writeCardFindings"],
  // Before the work of another verb, whose result is to be pushed.
  "cli/shared/push.ts": ["checkPush"],
  // Keeps a model open for the next step, where a verb closes it.
  "experiment/steps/model-pool.ts": ["modelBackend", "openLlama", "openServed"],
};

test("commands, the studio and steps of experiments call verbs in place of what these orchestrate", () => {
  const found = files.flatMap((path) => {
    const file = relative(SOURCES, path);
    if (!/^(?:cli|studio|experiment\/steps)\//.test(file)) return [];
    const lists = [...readFileSync(path, "utf8").matchAll(/^import \{([^}]*)\} from "(\.[^"]+)"/gms)];
    return lists.flatMap(([, list = "", spec = ""]) => {
      const room = dirname(relative(SOURCES, resolve(dirname(path), spec)));
      const names = list.split(",").flatMap((name) => /^(?!type )\w+/.exec(name.trim())?.[0] ?? []);
      return names.map((name) => ({ file, room, name }));
    });
  });
  const orchestrated = Object.keys(OF_VERBS);
  const isOf = (room: string) => orchestrated.some((one) => room === one || room.startsWith(`${one}/`));
  const calls = found.filter(({ room, name }) => isOf(room) && !OF_VERBS[room]?.includes(name));
  expect(calls.filter(({ file, name }) => !LEFT[file]?.includes(name))).toEqual([]);
  // The lists have nothing that is gone.
  const gone = Object.entries(LEFT).flatMap(([file, names]) =>
    names.filter((name) => !calls.some((call) => call.file === file && call.name === name)),
  );
  const unread = Object.entries(OF_VERBS).flatMap(([room, names]) =>
    names.filter((name) => !found.some((one) => one.room === room && one.name === name)),
  );
  expect([gone, unread]).toEqual([[], []]);
});

/** What opens, plans and compares in rooms that everyone may read from. */
const OPENERS = [
  ...["compareCheckpoints", "openCheckpoint", "openEngine", "openModelSource", "planRecipe", "planRecipeFile"],
  ...["serveModels", "writeReport"],
];

test("the command line opens models by verbs", () => {
  const wrong = files.flatMap((path) => {
    const file = relative(SOURCES, path);
    const lists = [...readFileSync(path, "utf8").matchAll(/^import \{([^}]*)\} from "[./]+\/(\w+)\//gm)];
    const taken = lists.filter(([, , room]) => room !== "verbs").flatMap(([, names = ""]) => names.split(/[\s,]+/));
    return roomOf(file) === "cli"
      ? taken.filter((name) => OPENERS.includes(name)).map((name) => `${file}: ${name}`)
      : [];
  });
  expect(wrong).toEqual([]);
});

test("what is significant is decided by evaluate/findings alone", () => {
  const wrong = files.flatMap((path) => {
    const file = relative(SOURCES, path);
    const isDecider = /^evaluate\/(findings|scoring)\//.test(file);
    return !isDecider && /\bisSignificant\b/.test(readFileSync(path, "utf8")) ? [file] : [];
  });
  expect(wrong).toEqual([]);
});

test("no folders import in a circle", () => {
  // An index.ts is the door of its folder: it stands for what is inside, and only outsiders go through it.
  // Nothing imports an entry, so no circle goes through it.
  const imported = new Set(imports.map(({ target }) => target.replace(/\.[jt]sx?$/, "")));
  const edges = new Map<string, Set<string>>();
  for (const { file, from, to } of imports) {
    const isEntry = !imported.has(file.replace(/\.tsx?$/, ""));
    if (from === to || from === "" || file.endsWith("index.ts") || isEntry) continue;
    edges.set(from, (edges.get(from) ?? new Set()).add(to));
  }
  const circles: string[] = [];
  const visit = (folder: string, path: readonly string[]) => {
    const at = path.indexOf(folder);
    if (at >= 0) circles.push([...path.slice(at), folder].join(" -> "));
    else if (!visited.has(folder)) {
      for (const next of edges.get(folder) ?? []) visit(next, [...path, folder]);
      visited.add(folder);
    }
  };
  const visited = new Set<string>();
  for (const folder of edges.keys()) visit(folder, []);
  expect(circles).toEqual([]);
});

test("everything that is printed passes write of kit/printing/terminal.ts, which shows control characters", () => {
  const wrong = files.filter((path) => {
    const file = relative(SOURCES, path);
    // Lines of JSON for another program have such characters escaped.
    const isExempt = file.startsWith("studio/page/") || file === "calls/main.ts";
    return !isExempt && /\bprocess\.std(out|err)\.write\(|\bconsole\./.test(readFileSync(path, "utf8"));
  });
  expect(wrong).toEqual([]);
});
