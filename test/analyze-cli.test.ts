// layergraft analyze as a person runs it: the files it writes, what it prints, and what it refuses in which words.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { TensorData } from "../src/formats/safetensors/index.js";
import { analyzeExperts, pageData, parseThreshold } from "../src/merge/analysis/index.js";
import { encodeValues, readAll, readJson, temporaryFolder, writeTiny } from "./support/checkpoints.js";
import {
  DONE,
  expectReadable,
  expectRefused,
  FAILED,
  layergraft,
  type Outcome,
  snapshot,
  WRONG_USAGE,
} from "./support/command.js";
import { toNumbers } from "./support/numbers.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const ESCAPE = "\u001b[";
const EVIL = "x</script><script>alert(1)</script><!--";
const FILES = ["analysis.json", "heatmap.svg", "report.html", "rows.safetensors"];

const two = ["--base", "base", "--expert", "math=math", "--expert", "swahili=swahili"];

async function analyze(args: readonly string[], env: NodeJS.ProcessEnv = {}, cwd = root): Promise<Outcome> {
  const outcome = await layergraft(["analyze", ...args], { cwd, env });
  return outcome;
}

const refused = (args: readonly string[], status: number, ...messages: RegExp[]) =>
  expectRefused(["analyze", ...args], root, status, ...messages);

const report = (folder: string) => readFileSync(at(folder, "report.html"), "utf8");
const dataOf = (html: string) =>
  JSON.parse(/<script type="application\/json" id="data">([\s\S]*?)<\/script>/.exec(html)?.[1] ?? "") as ReturnType<
    typeof pageData
  >;

beforeAll(async () => {
  await writeTiny(at("base"), { layers: 12, seed: 1 });
  await writeTiny(at("math"), { layers: 12, seed: 2 });
  await writeTiny(at("swahili"), { layers: 12, seed: 3 });
  await writeTiny(at("short"), { layers: 4, seed: 4 });
  const evil = (value: number) => (tensors: TensorData[]) => [
    ...tensors,
    { name: EVIL, dtype: "BF16" as const, shape: [2, 2], data: encodeValues([1, value, 1, 1], "BF16") },
  ];
  await writeTiny(at("evil-base"), { layers: 2, edit: evil(2) });
  await writeTiny(at("evil"), { layers: 2, seed: 2, edit: evil(Number.NaN) });
});

describe("what it writes", () => {
  const thresholds = ["auto", "0.5", "paper"];
  let outcome: Outcome;
  let result: Awaited<ReturnType<typeof analyzeExperts>>;

  beforeAll(async () => {
    const options = thresholds.flatMap((threshold) => ["--threshold", threshold]);
    outcome = await analyze([...two, "--rows", "output", ...options, "--out", "out", "--json"]);
    result = await analyzeExperts({
      base: at("base"),
      experts: { math: at("math"), swahili: at("swahili") },
      rows: "output",
      thresholds: thresholds.map(parseThreshold),
    });
  });

  it("the analysis as JSON, in the file and as the one document on stdout", () => {
    expect(outcome.status).toBe(DONE);
    const plain = JSON.parse(JSON.stringify(result.analysis));
    expect(readJson(at("out", "analysis.json"))).toEqual(plain);
    expect(JSON.parse(outcome.stdout)).toEqual(plain);
    expect(plain.thresholds.map(({ values }: { values: number[] }) => values)).toEqual([
      [expect.any(Number), expect.any(Number)],
      [0.5, 0.5],
      [1.9e-5, 1.9e-5],
    ]);
    expect(readdirSync(at("out")).sort()).toEqual(FILES);
    expect(outcome.stderr).toMatch(/^auto: 87.5th percentile of row change/m);
    expect(outcome.stderr).toMatch(/^Wrote the analysis in .*; open out\/report\.html$/m);
    expectReadable(outcome.stderr);
  });

  it("every row as a tensor EXPERT/NAME", async () => {
    const found = await readAll(at("out"), ["rows.safetensors"]);
    expect([...found.keys()].sort()).toEqual([...result.rows.keys()].sort());
    expect(found.size).toBe(2 * result.analysis.tensors.length);
    for (const [name, rows] of result.rows) {
      expect(found.get(name)).toMatchObject({ dtype: "F32", shape: [rows.length] });
      expect(toNumbers(found.get(name) as never), name).toEqual([...rows]);
    }
  });

  it("the figure", () => {
    const svg = readFileSync(at("out", "heatmap.svg"), "utf8");
    const texts = [...svg.matchAll(/<text[^>]*>([^<]*)<\/text>/g)].map((match) => match[1]);
    for (const text of ["math", "swahili", "q", "gate", "down"]) expect(texts).toContain(text);
    const numbers = texts.filter((text) => /^\d+$/.test(text ?? ""));
    expect(numbers).toEqual(expect.arrayContaining(Array.from({ length: 12 }, (_, layer) => String(layer))));
    expect(numbers).not.toContain("12");
    // One cell per layer and projection of each expert and threshold, with its share, and none darker than a larger one.
    const cells = [...svg.matchAll(/ fill="#(\w\w)\w+"[^>]*><title>layer (\d+), (\w+): (\d+)%</g)];
    const { thresholds } = result.analysis;
    const maps = [0, 1].flatMap((expert) => thresholds.map((_, threshold) => ({ threshold, expert })));
    const wanted = maps.flatMap(({ threshold, expert }) =>
      Array.from({ length: 12 }, (_, layer) =>
        ["q", "k", "v", "o", "gate", "up", "down"].map((part) => {
          const group = result.analysis.parts.find((one) => one.layer === layer && one.part === `${part}_proj`);
          const share = group?.experts[expert]?.shares[threshold] ?? Number.NaN;
          return `${part} ${layer} ${Math.round(100 * share)}`;
        }),
      ).flat(),
    );
    expect(cells.map(([, , layer, part, share]) => `${part} ${layer} ${share}`)).toEqual(wanted);
    const reds = cells
      .map(([, red = "", , , share]) => [Number(share), Number.parseInt(red, 16)] as const)
      .sort((a, b) => a[0] - b[0]);
    expect(new Set(wanted.map((cell) => cell.split(" ")[2])).size).toBeGreaterThan(3);
    expect(reds.map(([, red]) => red)).toEqual(reds.map(([, red]) => red).sort((a, b) => b - a));
  });

  it("the page, with its data inside and nothing to fetch", () => {
    const html = report("out");
    const next = "layergraft suggest --base base --task math --language swahili";
    expect(dataOf(html)).toEqual({ ...JSON.parse(JSON.stringify(pageData(result))), next });
    const fetched = html.replaceAll(/http:\/\/www\.w3\.org\/\w+\/\w+(?:\/\w+)?/g, ""); // names of SVG and MathML
    expect(fetched).not.toMatch(/https?:|\bsrc=|\bhref=|url\(|@import|\bfetch\(|XMLHttpRequest|import\(|WebSocket/);
    expect(html).not.toMatch(/__DATA__|__TOKENS__/);
  });

  it("a page that no tensor's name can break out of", async () => {
    const done = await analyze(["--base", "evil-base", "--expert", "evil=evil", "--out", "evil-out"]);
    expect(done.status).toBe(DONE);
    const warning = `${EVIL} of evil has 1 infinite or NaN change, the first at index 1`;
    expect(done.stderr).toContain(`warning: ${warning}`);
    const html = report("evil-out");
    expect(dataOf(html).warnings[0]).toContain(warning);
    expect(html).not.toContain("<script>alert");
    expect(html.match(/<script/g)).toHaveLength(2); // the data's and the page's own
    expect(html.match(/<\/script/g)).toHaveLength(2);
    expect(html).not.toContain("<!--");
  });
});

describe("what it prints", () => {
  it("tables for people, and with --quiet nothing else", async () => {
    const { status, stdout, stderr } = await analyze([...two, "--quiet", "--threshold", "0.01"]);
    expect({ status, stderr }).toEqual({ status: DONE, stderr: "" });
    expectReadable(stdout);
    expect(stdout).toMatch(/^math \(threshold 1\.00e-2\)$/m);
    expect(stdout).toMatch(/^swahili \(threshold 1\.00e-2\)$/m);
    expect(stdout).toMatch(/^ +q +k +v +o +gate +up +down$/m);
    expect(stdout.match(/^ *\d+( +100){7}$/gm)).toHaveLength(24); // all rows moved by more
    expect(stdout).toMatch(/^math and swahili +0\.\d{3} +\d+\.\d% +\d+\.\d%$/m);
    expect(stdout).toMatch(/^expert +mean row +largest row +relative +untouched +rows above \(0\.01\)$/m);
  });

  it("the published maps beside each expert's, and how like them it is", async () => {
    const args = [...two, "--quiet", "--beside", "paper", "--out", "beside"];
    const { status, stdout } = await analyze(args);
    expect(status).toBe(DONE);
    for (const name of ["math", "swahili"]) {
      const title = new RegExp(
        `^   ${name} \\(threshold [\\d.e-]+\\) +paper: math \\(mean of 2 maps\\) +paper: language \\(mean of 4 maps\\)$`,
        "m",
      );
      expect(stdout).toMatch(title);
    }
    expect(stdout.match(/^ *\d+( +([\d.]+|·)){21}$/gm)).toHaveLength(24);
    const svg = readFileSync(at("beside", "heatmap.svg"), "utf8");
    expect(svg.match(/>paper: (math|language)</g)).toHaveLength(4);
    const { paper } = readJson(at("beside", "analysis.json")) as unknown as Awaited<
      ReturnType<typeof analyzeExperts>
    >["analysis"];
    expect(paper.map(({ expert, kind }) => `${expert} ${kind}`)).toEqual([
      ...["math math", "math language", "swahili math", "swahili language"],
    ]);
    // All rows moved by more than the paper's thresholds.
    const { correlation = null, interval = null } = paper[0]?.at[2] ?? {};
    const ends = `${interval?.low.toFixed(2)} to ${interval?.high.toFixed(2)}`;
    const cells = `${correlation?.toFixed(2)} (${ends})`;
    const line = /^math +math \(2 maps\) +same everywhere +same everywhere +(.*)$/m.exec(stdout)?.[1];
    expect(line).toBe(cells);
  });

  it("warnings even with --quiet, and what was left out", async () => {
    const copy = await analyze(["--base", "base", "--expert", "copy=base", "--quiet", "--json"]);
    expect(copy).toMatchObject({ status: DONE, stderr: "warning: copy is identical to the base in every tensor\n" });
    expect(JSON.parse(copy.stdout)).toMatchObject({ experts: ["copy"], total: { experts: [{ norm: 0 }] } });
  });

  it("colours where they are wanted", async () => {
    const paint = async (env: NodeJS.ProcessEnv) => (await analyze([...two, "--quiet"], env)).stdout;
    const [plain, forced, neither] = [
      await paint({}),
      await paint({ FORCE_COLOR: "1" }),
      await paint({ FORCE_COLOR: "1", NO_COLOR: "1" }),
    ];
    expect(plain).not.toContain(ESCAPE);
    expect(neither).toBe(plain);
    // Every cell but those close to zero, which have the terminal's background.
    const painted = forced.split(`${ESCAPE}48;2;`).length - 1;
    expect(painted).toBeGreaterThan(12 * 7);
    expect(painted).toBeLessThanOrEqual(2 * 12 * 7);
    expect(forced.replaceAll(new RegExp(`\\${ESCAPE}[\\d;]*m`, "g"), "").replaceAll(/ +$/gm, "")).toBe(plain);
  });
});

it("a recipe file is an expert, its paths starting from its own folder", async () => {
  mkdirSync(at("recipes"));
  mkdirSync(at("elsewhere"));
  writeFileSync(
    at("recipes", "soup.yaml"),
    "method: soup\nmodels:\n  - ../math\n  - model: ../swahili\n    weight: 3\n",
  );
  const before = snapshot(root);
  const args = ["--base", "../base", "--expert", "soup=../recipes/soup.yaml", "--json", "--quiet"];
  const { status, stdout, stderr } = await analyze(args, {}, at("elsewhere"));
  expect({ status, stderr }).toEqual({ status: DONE, stderr: "" });
  expect(snapshot(root)).toEqual(before);
  const models = [at("math"), { model: at("swahili"), weight: 3 }];
  const soup = { method: "soup" as const, weights: "equal" as const, models };
  const { analysis } = await analyzeExperts({ base: at("base"), experts: { soup } });
  expect(JSON.parse(stdout)).toEqual(JSON.parse(JSON.stringify(analysis)));
});

describe("what it refuses", () => {
  const [base, math] = [two.slice(0, 2), two.slice(2, 4)];

  it.each<[string, string[], RegExp]>([
    ["no base", math, /error: Missing --base <source>/],
    ["no expert", base, /error: Missing --expert <name=source>/],
    ["two of one name", [...base, ...math, "--expert", "math=swahili"], /math is given twice/],
    ["no name", [...base, "--expert", "math"], /It must be NAME=SOURCE/],
    ["an empty name", [...base, "--expert", "=math"], /It must be NAME=SOURCE/],
    ["no source", [...base, "--expert", "math="], /It must be NAME=SOURCE/],
    ["a name that is none", [...base, "--expert", "a/b=math"], /a\/b is not a valid name/],
    ["the name of the base", [...base, "--expert", "base=math"], /base is not a valid name/],
    [
      "a threshold of words",
      [...base, ...math, "--threshold", "often"],
      /must be auto, common, or, also as EXPERT=VALUE, paper, paper-fine or a positive number/,
    ],
    [
      "a negative threshold",
      [...base, ...math, "--threshold=-1e-5"],
      /argument .-1e-5. is invalid. It must be auto, common, or, also as EXPERT=VALUE, paper, paper-fine or a positive number/,
    ],
    ["another axis", [...base, ...math, "--rows", "columns"], /Allowed choices are input, output/],
    ["a recipe that is not there", [...base, "--expert", "a=no.yaml"], /error: no\.yaml does not exist/],
  ])("%s", async (_, args, message) => void (await refused(args, WRONG_USAGE, message)));

  it("models that do not fit together", async () => {
    const args = ["--base", "base", "--expert", "short=short", "--out", "mismatch"];
    await refused(args, FAILED, /base \(base\) has 12 layers, short \(short\) has 4/);
  });

  it("an output that exists, that is an input, or that is no analysis", async () => {
    mkdirSync(at("mine"));
    writeFileSync(at("mine", "heatmap.svg"), "my own");
    writeFileSync(at("mine", "thesis.tex"), "years of work");
    writeFileSync(at("file"), "");
    mkdirSync(at("taken"));
    await refused([...two, "--out", "taken"], FAILED, /taken already exists\. Pass --force/);
    await refused([...two, "--out", "./math", "--force"], FAILED, /the output \.\/math is one of the inputs/);
    await refused(
      [...two, "--out", "short", "--force"],
      FAILED,
      /short contains other files .*not replaced\. Choose another --out\./,
    );
    await refused([...two, "--out", "mine", "--force"], FAILED, /mine contains other files \(thesis\.tex\)/);
    await refused([...two, "--out", "file", "--force"], FAILED, /file already exists and is not a folder/);
  });

  it("--force replaces an earlier analysis, and what a stopped merge left beside it stays", async () => {
    mkdirSync(at("again"));
    mkdirSync(at("again.partial"));
    writeFileSync(at("again", "heatmap.svg"), "old");
    writeFileSync(at("again.partial", "model.safetensors"), "half");
    const before = snapshot(root);
    const { status } = await analyze([...two, "--out", "again", "--force", "--quiet"]);
    expect(status).toBe(DONE);
    const after = snapshot(root);
    expect(readdirSync(at("again")).sort()).toEqual(FILES);
    expect(after["again/heatmap.svg"]).not.toBe(before["again/heatmap.svg"]);
    const others = (files: Record<string, string>) =>
      Object.entries(files).filter(([name]) => !name.startsWith("again/"));
    expect(others(after)).toEqual(others(before));
  });
});
