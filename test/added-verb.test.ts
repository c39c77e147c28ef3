// A verb that is said in one place has a command, a function, a form and a job of the studio, a step of an experiment, and docs.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { afterEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";
import { commandPages, verbSection } from "../docs/generate.js";
import { verbCommand } from "../src/cli/shared/verb-command.js";
import { openExperiment, previewExperiment } from "../src/experiment/experiment.js";
import { outlookLines, type PlanReport, reportExperiment } from "../src/experiment/report/index.js";
import { runVerb as runStep, verbKey } from "../src/experiment/steps/run-verb.js";
import { openCheckpoint } from "../src/formats/checkpoint/index.js";
import { namedField } from "../src/kit/settings/index.js";
import { runVerb as runJob, verbReference } from "../src/studio/jobs/verbs.js";
import { callVerb, refuseCode, type Verb } from "../src/verbs/shared/index.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { runHere, writeSmallWorld } from "./support/small-world.js";

// The line of the verb in the list of all.
vi.mock(import("../src/verbs/all.js"), async (original) => {
  const all = await original();
  const added = all.listed("Look", { count: ["count the tensors of a model", async () => count] });
  return { ...all, VERBS: [...all.VERBS, ...added] };
});

const schema = z.strictObject({
  model: namedField("source", "model whose tensors are counted"),
  part: z.enum(["norm", "mlp"]).optional().meta({ description: "part to count", unset: "all" }),
  least: z.int().min(1).default(2).meta({ description: "fewest dimensions of a tensor" }),
  isShort: z.boolean().optional().meta({ description: "print the number alone" }),
  allowCode: z.boolean().optional().meta({ description: "run the model's own counter", runsCode: true }),
  out: namedField("folder", "folder to write").optional(),
});

/** All that there is of the verb. */
const count: Verb<typeof schema, { tensors: number; notes: string[]; warnings: string[] }> = {
  name: "count",
  description: "Count the tensors of a model.",
  schema,
  fetch: "stream",
  options: { threads: "physical cores", memory: "256MB" },
  async run({ model, part = "", least }, { folder, onProgress }) {
    const { tensors } = await openCheckpoint(model, { base: folder ?? "." });
    onProgress?.({ phase: "counting", done: 1, total: 2, unit: "steps" });
    const all = [...tensors.values()].filter(({ name, shape }) => name.includes(part) && shape.length >= least);
    return { tensors: all.length, notes: ["counted headers alone"], warnings: [] };
  },
  show: ({ tensors }, { model }) => [
    {
      kind: "table",
      what: "model",
      title: "tensors:",
      columns: ["model", "tensors"],
      rows: [[model, String(tensors)]],
    },
  ],
  terminal: {
    groups: { Models: ["model"], Counting: ["part", "least", "isShort", "allowCode"], Output: ["out"] },
    flags: { isShort: { flag: "short" } },
    closing: (_, { model }) => [`Counted ${model}`],
  },
};

const root = temporaryFolder();
await writeTiny(`${root}/tiny`, { layers: 2 });
const { tensors } = await openCheckpoint(`${root}/tiny`);
const matrices = [...tensors.values()].filter(({ shape }) => shape.length > 1).length;
const mlp = [...tensors.values()].filter(({ name, shape }) => shape.length > 1 && name.includes("mlp")).length;

afterEach(() => void vi.restoreAllMocks());

const program = () => {
  const command = new Command("layergraft").exitOverride().configureOutput({ writeErr: () => undefined });
  verbCommand(count)(command);
  return command;
};
const help = () => program().commands[0]?.helpInformation() ?? "";

/** What the command prints. */
async function printed(...args: string[]) {
  const texts = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const) {
    vi.spyOn(process[stream], "write").mockImplementation((text) => {
      texts[stream] += text;
      return true;
    });
  }
  await program().parseAsync(["count", ...args], { from: "user" });
  vi.restoreAllMocks();
  return texts;
}

describe("a verb that is added in one file", () => {
  it("is a command, with flags, help, output and JSON", async () => {
    expect(help()).toMatch(/--model <source> +model whose tensors are counted/);
    expect(help()).toMatch(/--short +print the number alone/);
    expect(help()).toMatch(/-o, --out <folder>/);
    expect(help()).toMatch(/Counting:\n +--part/);
    const { stdout, stderr } = await printed("--model", `${root}/tiny`, "--part", "mlp");
    expect(stdout).toBe(`tensors:\nmodel${" ".repeat(root.length)}  tensors\n${root}/tiny  ${mlp}\n`);
    expect(stderr).toContain(`note: counted headers alone\nCounted ${root}/tiny\n`);
    const { stdout: json } = await printed("--model", `${root}/tiny`, "--json", "--quiet");
    expect(JSON.parse(json)).toEqual({ tensors: matrices, notes: ["counted headers alone"], warnings: [] });
    await expect(printed("--model", "a", "--least", "0")).rejects.toThrow("It must be at least 1.");
    await expect(printed("--least", "1")).rejects.toThrow("required option '--model <source>' not specified");
  });

  it("is a function, whose options are last", async () => {
    const call = (input: z.input<typeof schema>, options = {}) => callVerb(count, input, options);
    expect(await call({ model: "tiny" }, { folder: root })).toMatchObject({ tensors: matrices });
    expect((await call({ model: "tiny", least: 1 }, { folder: root })).tensors).toBe(tensors.size);
    await expect(call({ model: "tiny", part: "head" as "mlp" })).rejects.toMatchObject({
      problems: ["part: must be one of norm, mlp"],
    });
  });

  it("is a form and a job of the studio", async () => {
    const { groups } = verbReference(count as unknown as Verb);
    expect(
      groups.map(({ title, fields }) => [title, fields.map(({ name, type, required }) => [name, type, required])]),
    ).toEqual([
      ["", [["model", "source", true]]],
      [
        "Counting",
        [
          ["part", "`norm`, `mlp`", false],
          ["least", "whole number", false],
          ["isShort", "true or false", false],
        ],
      ],
      ["Output", [["out", "folder", false]]],
    ]);
    const controls = { signal: new AbortController().signal, onProgress: () => undefined };
    const place = { project: root };
    expect(await runJob(count as unknown as Verb, { model: "tiny" }, {}, place, controls)).toEqual({
      notes: ["counted headers alone"],
      figures: [
        { kind: "table", title: "tensors:", columns: ["model", "tensors"], rows: [["tiny", String(matrices)]] },
      ],
    });
  });

  it("shows fields of a form as it says, and none that runs code", () => {
    const titles = (verb: object) =>
      verbReference({ ...count, ...verb } as unknown as Verb).groups.map(
        ({ title, fields }) => `${title}: ${fields.map(({ name }) => name).join(" ")}`,
      );
    const further = schema.extend({ more: z.string().optional().meta({ description: "more" }) });
    expect(titles({ shown: ["least"], schema: further })).toEqual([
      ": model least",
      "Counting: part isShort",
      "Output: out",
      "More: more",
    ]);
    expect(titles({ schema: further })[0]).toBe(": model more");
    expect(help()).toContain("--allow-code");
    expect(verbSection(count as unknown as Verb)).toContain("`allowCode`");
    expect(() => refuseCode(count as unknown as Verb, { model: "m", allowCode: true })).toThrow(
      "allowCode runs code, which a page cannot show. Run layergraft count in a terminal.",
    );
    refuseCode(count as unknown as Verb, { model: "m", allowCode: false });
  });

  it("runs with a key, progress and notes as a step of an experiment", async () => {
    const [notes, shares]: [string[], [number, string][]] = [[], []];
    const result = await runStep(
      count,
      { model: "sha256:1" },
      {
        ...{ folder: root, folders: { "sha256:1": `${root}/tiny` }, settings: { folder: root, allowCode: false } },
        note: (text) => void notes.push(text),
        onProgress: (share, what) => void shares.push([share, what]),
        checkInputs: async () => undefined,
      },
    );
    expect({ tensors: result.tensors, notes, shares }).toEqual({
      ...{ tensors: matrices, notes: ["counted headers alone"] },
      shares: [[0.5, "counting"]],
    });
    const key = verbKey(count, { model: "sha256:1", out: "a" });
    expect(key).toMatch(/^verb-[\da-f]{30}$/);
    // The default of `least`.
    expect(verbKey(count, { model: "sha256:1", least: 2 })).toBe(key);
    expect(verbKey(count, { model: "sha256:1", out: "b" })).toBe(key);
    expect(verbKey(count, { model: "sha256:2" })).not.toBe(key);
  });

  it("is a step that a plan names, for each expert of a family, which runs once and is reported", async () => {
    const world = temporaryFolder();
    await writeSmallWorld(world);
    const plan = join(world, "plan.yaml");
    const write = (least: number, model = "pair") =>
      writeFileSync(
        plan,
        `${[
          "name: counted",
          "base: base",
          "experts: { pair: { role: other, folders: { one: language, two: base } } }",
          "evaluate: { tasks: [problems_sw.yaml] }",
          `steps: { tensors: { verb: count, model: ${model}, part: mlp, least: ${least} } }`,
        ].join("\n")}\n`,
      );
    write(1);
    const labels = ["tensors: count one", "tensors: count two"];
    const first = await runHere(plan);
    expect(first.ran.filter((label) => label.includes("count"))).toEqual(labels);
    const { report, reportFolder } = await reportExperiment(first.experiment);
    const wanted = (await callVerb(count, { model: `${world}/language`, part: "mlp", least: 1 })).tensors;
    const steps = (report as PlanReport).steps ?? [];
    expect(steps.map(({ label, figures }) => [label, figures])).toEqual(
      labels.map((label) => [
        label,
        [
          {
            kind: "table",
            title: "tensors:",
            columns: ["model", "tensors"],
            rows: [[expect.any(String), `${wanted}`]],
          },
        ],
      ]),
    );
    const [{ value = "", out } = {}] = steps;
    expect(JSON.parse(readFileSync(join(reportFolder, value), "utf8"))).toMatchObject({ tensors: wanted });
    expect(out).toMatch(/steps.verb-[\da-f]{30}.out$/);
    expect(readFileSync(join(reportFolder, "report.md"), "utf8")).toContain("## Other commands");
    expect((await runHere(plan)).ran).toEqual([]);
    write(2);
    expect((await runHere(plan)).ran).toEqual(labels);
    write(3, "base");
    const again = await previewExperiment(await openExperiment(plan));
    expect(outlookLines(again)).toContain("  tensors: count base");
  });

  it.each([
    [
      { verb: "cuont", model: "base" },
      "steps.tensors.verb: cuont is not a command that a step can carry out; did you mean count?",
    ],
    [{ verb: "eval", source: "base" }, "steps.tensors.verb: eval is not a step of a plan"],
    [
      { verb: "count", model: "bass" },
      '"bass" is not an expert, family, role or merge of this plan; did you mean base?',
    ],
    [{ verb: "count", model: "all pair" }, "all pair means several models, and one is needed here"],
    [{ verb: "count", model: "base", least: 0 }, "steps.tensors: least: must be at least 1"],
    [{ verb: "count", model: "base", lest: 1 }, 'steps.tensors: unknown field "lest"; did you mean least?'],
    [{ verb: "verify", model: "base", report: "a" }, "steps.tensors.report: is a path; a step writes to out alone"],
    [{ verb: "merge", recipe: "base", allowCode: true }, "steps.tensors.allowCode: is not a field of steps"],
    [{ verb: "count", model: "base", out: "../a" }, "steps.tensors.out: must be the name of a file or folder"],
  ])("in a plan, %j is refused with its place", async (step, message) => {
    const world = temporaryFolder();
    await writeSmallWorld(world);
    const plan = {
      name: "wrong",
      base: join(world, "base"),
      experts: { pair: { role: "other", folders: [join(world, "language")] } },
      evaluate: { tasks: [join(world, "problems_sw.yaml")] },
      steps: { tensors: step },
    };
    const experiment = await openExperiment(plan as never);
    const { world: checked } = experiment;
    expect((await previewExperiment(experiment)).problems).toEqual(expect.arrayContaining([...checked.problems]));
    expect(checked.problems.join("\n")).toContain(message);
  });

  it("is on the pages of the docs", async () => {
    expect(verbSection(count as unknown as Verb)).toContain("| `part` | `norm`, `mlp` | all | part to count |");
    const pages = await commandPages((args) =>
      args[0] === "count" ? help() : "  count  count the tensors of a model\n",
    );
    expect(pages[0]?.text).toContain("## count\n\n```text\nUsage: layergraft count");
  });
});
