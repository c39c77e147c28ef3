// The command line from end to end: what inspect, diff, verify and merge say and answer, and manners in a pipe.
import { spawnSync } from "node:child_process";
import {
  closeSync,
  cpSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openSafetensors, type TensorData, writeSafetensors } from "../src/formats/safetensors/index.js";
import {
  decodeValues,
  encodeValues,
  readAll,
  readJson,
  seededTensor,
  temporaryFolder,
  writeTiny,
} from "./support/checkpoints.js";
import { DONE, expectReadable, FAILED, layergraft, MAIN, snapshot, WRONG_USAGE } from "./support/command.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const run = (...args: string[]) => layergraft(args, { cwd: root });
const WEIGHTS = "model.safetensors";
const UP = "model.layers.2.mlp.up_proj.weight";

/** Runs what must end with this status, readably, and returns its standard output. */
async function output(status: number, ...args: string[]): Promise<string> {
  const outcome = await run(...args);
  expectReadable(outcome.stderr);
  expect(outcome, args.join(" ")).toMatchObject({ status });
  return outcome.stdout;
}

async function json<T = Record<string, unknown>>(status: number, ...args: string[]): Promise<T> {
  return JSON.parse(await output(status, ...args, "--json")) as T;
}

beforeAll(async () => {
  await writeTiny(at("task"), { seed: 1 });
  await writeTiny(at("language"), { seed: 2, shardBytes: 2000 });
  // The task expert, but for two elements of one matrix.
  await writeTiny(at("touched"), {
    seed: 1,
    edit: (tensors) =>
      tensors.map((tensor) => {
        if (tensor.name !== UP) return tensor;
        const values = decodeValues(tensor.data, "BF16");
        values[3] = 2;
        values[77] = -4;
        return { ...tensor, data: encodeValues(values, "BF16") };
      }),
  });
  mkdirSync(at("adapter"));
  await writeSafetensors(at("adapter/adapter_model.safetensors"), [
    seededTensor("base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight", [2, 8], 5, "F32"),
    seededTensor("base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight", [8, 2], 6, "F32"),
  ]);
  writeFileSync(at("adapter/adapter_config.json"), JSON.stringify({ peft_type: "LORA", r: 2, lora_alpha: 4 }));
});

describe("inspect", () => {
  it("says what a checkpoint is", async () => {
    const text = await output(DONE, "inspect", "task");
    expect(text).toMatch(/^task\n/);
    expect(text).toMatch(/architecture +Llama \(llama\)/);
    expect(text).toMatch(/layers +4\n/);
    // 4 layers of 2 norms of 8, q and o of 64, k and v of 32, three of 96; embedding and head of 192; a norm.
    const parameters = 4 * (2 * 8 + 2 * 64 + 2 * 32 + 3 * 96) + 2 * 192 + 8;
    expect(text).toMatch(/parameters +2\.38k in 39 tensors/);
    expect(text).toMatch(/output head +separate/);
    expect(text).toMatch(/q_proj +0-3 +4 +256 +\[8, 8\] +BF16/);
    expect(text).toMatch(/embed_tokens +outside +1 +192 +\[24, 8\] +BF16/);
    expect(text).not.toContain(UP);
    expect(await output(DONE, "inspect", "task", "--tensors")).toMatch(
      /model\.layers\.2\.mlp\.up_proj\.weight +2 +up_proj +BF16/,
    );
    const document = await json(DONE, "inspect", "language", "--tensors");
    expect(document).toMatchObject({
      name: "language",
      modelType: "llama",
      layers: 4,
      parameters,
      dtypes: { BF16: parameters },
    });
    expect(document).toMatchObject({ tied: false, vocabularySize: 24, hiddenSize: 8, notes: [] });
    expect((document.files as { tensors: number }[]).map(({ tensors }) => tensors).reduce((a, b) => a + b)).toBe(39);
    expect(document.tensors).toHaveLength(39);
  });

  it("shows what an adapter changes", async () => {
    expect(await output(DONE, "inspect", "task+adapter")).toMatch(/adapter +adapter: 1 tensor adapted, 0 replaced/);
    const { tensors } = await json<{ tensors: { name: string; adapted: boolean }[] }>(
      DONE,
      "inspect",
      "task+adapter",
      "--tensors",
    );
    expect(tensors.filter(({ adapted }) => adapted).map(({ name }) => name)).toEqual([
      "model.layers.1.self_attn.q_proj.weight",
    ]);
  });
});

describe("diff", () => {
  interface Comparison {
    identical: boolean;
    tensors: {
      tensor: string;
      layer: number | null;
      part: string;
      differing: number;
      meanAbsolute: number;
      largest: number;
      relative: number;
    }[];
    onlyInA: string[];
    onlyInB: string[];
    reshaped: string[];
  }

  it("identical checkpoints: status 0, whatever their files", async () => {
    await writeTiny(at("sharded"), { seed: 1, shardBytes: 1500 });
    expect(await output(DONE, "diff", "task", "sharded")).toMatch(/All 39 common tensors are identical/);
    expect(await json(DONE, "diff", "task", "sharded")).toMatchObject({ identical: true, onlyInA: [], onlyInB: [] });
  });

  it("one matrix touched: status 1, the right layer and part, the right numbers", async () => {
    const comparison = await json<Comparison>(FAILED, "diff", "task", "touched");
    const [a, b] = await Promise.all(
      ["task", "touched"].map(async (name) =>
        decodeValues((await readAll(at(name), [WEIGHTS])).get(UP)?.data ?? new Uint8Array(), "BF16"),
      ),
    );
    const changes = (a ?? []).map((value, i) => (b?.[i] ?? 0) - value);
    const norm = (values: number[]) => Math.sqrt(values.reduce((sum, value) => sum + value ** 2, 0));
    const [found, ...others] = comparison.tensors.filter(({ differing }) => differing > 0);
    expect(others).toEqual([]);
    expect(found).toMatchObject({ tensor: UP, layer: 2, part: "up_proj", differing: 2 });
    expect(found?.largest).toBeCloseTo(Math.max(...changes.map(Math.abs)), 6);
    expect(found?.meanAbsolute).toBeCloseTo(changes.reduce((sum, change) => sum + Math.abs(change), 0) / 96, 6);
    expect(found?.relative).toBeCloseTo(norm(changes) / norm(a ?? []), 6);

    const text = await output(FAILED, "diff", "task", "touched", "--tensors");
    expect(text).toMatch(/1 of 39 common tensors differ/);
    const relative = norm(changes) / norm(a ?? []);
    expect(relative).toBeGreaterThan(0.0095); // below, the table shows an exponent
    const size = relative.toFixed(2).replace(".", "\\.");
    expect(text).toMatch(new RegExp(`^ +3( +\\.)+\n +2 +.*${size}.*\n +0-1( +\\.)+$`, "m"));
    expect(text).toMatch(new RegExp(`${UP.replaceAll(".", "\\.")} +2\\.1%`));
  });

  it("tensors missing or of another shape are named, and not the same", async () => {
    await writeTiny(at("other"), {
      seed: 1,
      vocabulary: 25,
      edit: (tensors) => tensors.filter(({ name }) => name !== UP),
    });
    const comparison = await json<Comparison>(FAILED, "diff", "task", "other");
    expect(comparison).toMatchObject({ identical: false, onlyInA: [UP], onlyInB: [] });
    expect(comparison.reshaped).toEqual(["model.embed_tokens.weight", "lm_head.weight"]);
    expect(await output(FAILED, "diff", "other", "task")).toMatch(/Only in B: model\.layers\.2\.mlp\.up_proj\.weight/);
  });

  it("NaN equals itself, and another dtype with the same values is no change", async () => {
    const nan = (tensors: ReturnType<typeof seededTensor>[]) =>
      tensors.map((tensor) =>
        tensor.name === UP ? { ...tensor, data: tensor.data.map((byte, i) => (i < 2 ? 0xff : byte)) } : tensor,
      );
    await writeTiny(at("nan"), { seed: 1, edit: nan });
    cpSync(at("nan"), at("nan-too"), { recursive: true });
    await output(DONE, "diff", "nan", "nan-too");
    const widen = (tensors: TensorData[]) =>
      tensors.map((tensor) => ({
        ...tensor,
        dtype: "F32" as const,
        data: encodeValues(decodeValues(tensor.data, "BF16"), "F32"),
      }));
    await writeTiny(at("wide"), { seed: 1, edit: widen });
    await output(DONE, "diff", "task", "wide");
    expect(await output(FAILED, "diff", "task", "nan")).toMatch(
      /Infinite or NaN differences: model\.layers\.2\.mlp\.up_proj/,
    );
  });
});

describe("merge", () => {
  it("takes a recipe's paths from the recipe's folder, the output from the working folder", async () => {
    mkdirSync(at("recipes/elsewhere"), { recursive: true });
    const recipe =
      "method: swap\ntask: ../task\nlanguage: ../language/\nbottom: 1\ntokenizer_from: ../language\nshard_size: 3kB\n";
    writeFileSync(at("recipes/recipe.yaml"), recipe);
    const { status, stdout } = await layergraft(["merge", "../recipe.yaml", "--out", "out"], {
      cwd: at("recipes/elsewhere"),
    });
    expect(status).toBe(DONE);
    expect(stdout).toMatch(/^Wrote out: 39 tensors, 4\.75 kB in 2 files, /);
    expect(readJson(at("recipes/elsewhere/out"), "tokenizer.json")).toEqual({ made_for: 2 });
    // An option goes before the recipe's own field.
    await output(
      DONE,
      "merge",
      "recipes/recipe.yaml",
      "--out",
      "out",
      "--tokenizer-from",
      "task",
      "--shard-size",
      "1GB",
    );
    expect(readJson(at("out"), "tokenizer.json")).toEqual({ made_for: 1 });
    expect(Object.keys(snapshot(at("out")))).toContain(WEIGHTS);
    rmSync(at("out"), { recursive: true });
  });

  it("prints infinite and NaN values as JSON: the source's by its name, and those that the merge made", async () => {
    const write = (name: string, values: Readonly<Record<number, number>>) =>
      writeTiny(at(name), {
        seed: 1,
        edit: (tensors) =>
          tensors.map((tensor) => {
            if (tensor.name !== UP) return tensor;
            return { ...tensor, data: encodeValues(Object.assign(decodeValues(tensor.data, "BF16"), values), "BF16") };
          }),
      });
    // Finite in bfloat16, but not in float16.
    await write("broken", { 3: Number.POSITIVE_INFINITY, 5: Number.NaN, 7: 1e6 });
    await write("large", { 7: 1e6 });
    const soup = ["soup", "--model", "broken", "--model", "large", "--dtype", "float16", "--out", "nonfinite"];
    expect(await json(FAILED, ...soup)).toEqual({
      code: "not-finite",
      message: expect.stringContaining(`1 value in 1 tensor (${UP}: 1) would become infinite or NaN`),
      details: { tensor: UP, option: "allowNonFinite" },
    });
    const { nonFinite, warnings } = await json(DONE, ...soup, "--allow-nonfinite", "--resume");
    expect(nonFinite).toEqual([
      { tensor: UP, model: "broken", count: 2 },
      { tensor: UP, count: 1 },
    ]);
    expect(warnings).toEqual([
      `broken holds infinite or NaN values, and the output keeps them: 2 values in 1 tensor (${UP}: 2).`,
      `1 value in 1 tensor (${UP}: 1) became infinite or NaN, although the sources are finite there.`,
    ]);
    rmSync(at("nonfinite"), { recursive: true });
  });
});

describe("verify", () => {
  beforeEach(async () => {
    rmSync(at("out"), { recursive: true, force: true });
    await output(DONE, "swap", "--task", "task+adapter", "--language", "language", "--out", "out");
  });

  const edit = (change: (document: Record<string, unknown> & { steps: Record<string, unknown>[] }) => void) => {
    const document = readJson(at("out"), "layergraft.json") as Parameters<typeof change>[0];
    change(document);
    writeFileSync(at("out/layergraft.json"), JSON.stringify(document));
  };
  const refused = async (message: RegExp, ...more: string[]) => {
    const { status, stdout, stderr } = await run("verify", "out", ...more);
    expect(stderr).toMatch(message);
    expectReadable(stderr);
    expect(stdout).toBe("");
    expect(status).toBe(FAILED);
  };

  it("agrees with what was written, also when all was moved together", async () => {
    expect(await output(DONE, "verify", "out")).toMatch(/^Verified out: 39 tensors bit-identical/);
    cpSync(root, `${root}-moved`, { recursive: true });
    const moved = await layergraft(["verify", "out", "--json"], { cwd: `${root}-moved` });
    rmSync(`${root}-moved`, { recursive: true });
    expect(moved.status).toBe(DONE);
    expect(JSON.parse(moved.stdout)).toMatchObject({ verified: true, tensors: 39, deviations: [] });
  });

  it("names a tensor of which one bit was changed, and where", async () => {
    const file = await openSafetensors(at("out", WEIGHTS));
    const tensor = file.tensors.find(({ name }) => name === UP);
    const bytes = readFileSync(at("out", WEIGHTS));
    const position = (tensor?.offset ?? 0) + 2 * 17;
    const descriptor = openSync(at("out", WEIGHTS), "r+");
    writeSync(descriptor, Buffer.from([(bytes[position] ?? 0) ^ 1]), 0, 1, position);
    closeSync(descriptor);
    expect(await output(FAILED, "verify", "out")).toMatch(
      /1 of 39 tensors of out differ from the plan\n {2}model\.layers\.2\.mlp\.up_proj\.weight differs in 1 elements?, the first at index 17\nThe output or a source has changed since it was written\.\n$/,
    );
    const { deviations } = await json<{ deviations: unknown[] }>(FAILED, "verify", "out");
    expect(deviations).toEqual([expect.objectContaining({ tensor: UP, differing: 1, first: 17 })]);
  });

  it("names other files that were changed or removed, but lets the model card be edited", async () => {
    writeFileSync(at("out/README.md"), "# My model");
    expect(await output(DONE, "verify", "out")).toMatch(/^Verified out/);
    writeFileSync(at("out/config.json"), "{}");
    rmSync(at("out/tokenizer.json"));
    expect(await output(FAILED, "verify", "out")).toMatch(
      /the tensors of out are bit-identical, but other files differ.*\n {2}config\.json was changed\n {2}tokenizer\.json is missing\n/,
    );
  });

  it("finds sources where --source says, adapters too", async () => {
    for (const name of ["language", "task", "adapter"]) renameSync(at(name), at(`${name}-moved`));
    await refused(
      /task' does not exist|a source of out cannot be opened: .*task, language\. If it moved, pass --source ID=FOLDER\./,
    );
    const places = ["--source", "task=task-moved+adapter-moved", "--source", "language=./language-moved"];
    const found = await run("verify", "out", ...places);
    for (const name of ["language", "task", "adapter"]) renameSync(at(`${name}-moved`), at(name));
    expect(found.status).toBe(DONE);
    await refused(/out has no source base; it has task, language/, "--source", "base=task");
    await refused(/nowhere does not exist/, "--source", "task=nowhere");
    await refused(/changed since the plan was made/, "--source", "task=language+adapter");
    expect((await run("verify", "out", "--source", "task")).status).toBe(WRONG_USAGE);
  });

  it("refuses a folder that layergraft did not make", async () => {
    const { status, stderr } = await run("verify", "task");
    expect(stderr).toMatch(/task has no readable layergraft\.json.*cannot be verified\. Only layergraft outputs can/);
    expect(status).toBe(FAILED);
    expect((await run("verify", "nowhere")).stderr).toMatch(
      /There is no folder .*nowhere\. Pass the folder of a merge/,
    );
  });

  it.each<[string, (steps: Record<string, unknown>[]) => void]>([
    [
      "a tensor that no source has",
      ([step]) => Object.assign(step ?? {}, { value: { source: "task", tensor: "ghost" } }),
    ],
    ["a source that is none", ([step]) => Object.assign(step ?? {}, { value: { source: "toString", tensor: UP } })],
    ["an average of nothing", ([step]) => Object.assign(step ?? {}, { value: { blend: [] } })],
    [
      "weights that cancel out",
      ([step]) =>
        Object.assign(step ?? {}, { value: { blend: [1, -1].map((weight) => ({ weight, value: step?.value })) } }),
    ],
    [
      "a weight never measured",
      ([step]) => Object.assign(step ?? {}, { value: { blend: [{ weight: { measured: "x" }, value: step?.value }] } }),
    ],
    ["a tensor of another shape", ([step]) => Object.assign(step ?? {}, { value: { source: "task", tensor: UP } })],
  ])("refuses a layergraft.json that was edited to ask for %s", async (_, change) => {
    edit(({ steps }) => change(steps.filter(({ tensor }) => tensor === "model.norm.weight")));
    await refused(
      /layergraft\.json of out describes model\.norm\.weight in a way that cannot be computed from its sources\. The file was edited/,
    );
  });

  it("refuses a layergraft.json that is nonsense", async () => {
    edit((document) => Object.assign(document, { steps: "all of them" }));
    await refused(
      /layergraft\.json is not valid: steps: must be a list, not text\. It was edited, or written by .* \(\d/,
    );
    edit((document) => Object.assign(document, { format: 99 }));
    await refused(/is not valid: format: must be 2/);
    writeFileSync(at("out/layergraft.json"), "{}");
    await refused(/is not valid: layergraft: is missing; .* written by another version of layergraft\. Merge again\./);
    const depth = 20_000;
    const deep = `${'{"blend":[{"weight":1,"value":'.repeat(depth)}{}${"}]}".repeat(depth)}`;
    const sound = { ...readJson(at("out"), "layergraft.json"), format: 1, steps: [{ value: "DEEP" }] };
    writeFileSync(at("out/layergraft.json"), JSON.stringify(sound).replace('"DEEP"', deep));
    await refused(/nests too deep|no readable layergraft\.json/);
    for (const text of ["", "null", "[]", '"text"']) {
      writeFileSync(at("out/layergraft.json"), text);
      await refused(/no readable layergraft\.json/);
    }
    const again = await run("swap", "--task", "task", "--language", "language", "--out", "out", "--resume");
    expect(again.stderr).toMatch(/out already exists/);
  });

  it("tells what is missing and what is too much", async () => {
    edit((document) => {
      document.steps = document.steps.filter(({ tensor }) => tensor !== UP);
    });
    expect(await output(FAILED, "verify", "out")).toMatch(/up_proj\.weight is not in the plan/);
  });
});

describe("manners", () => {
  it("errors show the escape sequences of names", async () => {
    const { stderr } = await layergraft(["inspect", "no\u001b[31msuch"], { cwd: root, env: { HF_HUB_OFFLINE: "1" } });
    expect(stderr).toMatch(/^error: no␛\[31msuch does not exist/);
  });

  it.each(["", "swap", "soup", "merge", "inspect", "diff", "verify"])(
    "--help of %s explains and ends with 0",
    async (command) => {
      const text = await output(DONE, ...(command ? [command] : []), "--help");
      expect(text).toMatch(new RegExp(`^Usage: layergraft ${command}`));
      if (command) expect(text).toMatch(/--json[\s\S]*--quiet|--quiet[\s\S]*--json/);
      for (const line of text.split("\n")) expect(line.length, line).toBeLessThanOrEqual(120);
    },
  );

  it.each<[string[], number, object]>([
    [["swpa"], WRONG_USAGE, { code: "usage", message: expect.stringMatching(/^unknown command 'swpa'/) }],
    [["swap"], WRONG_USAGE, { code: "usage", message: expect.stringMatching(/^Missing --task <source>/) }],
    [["inspect"], WRONG_USAGE, { code: "usage", message: "Missing <source>." }],
    [["diff", "task", "task", "--nonsense"], WRONG_USAGE, { code: "usage", message: "unknown option '--nonsense'" }],
    [
      ["merge", "broken.yaml", "--out", "x"],
      WRONG_USAGE,
      {
        code: "recipe",
        message: expect.stringMatching(/^broken.yaml is not/),
        details: { problems: [expect.any(String)] },
      },
    ],
    [["inspect", "nowhere"], FAILED, { code: "checkpoint", path: expect.stringContaining("nowhere") }],
    [["verify", "task"], FAILED, { code: "provenance", message: expect.stringMatching(/^task has no readable/) }],
    [["score", "task", "-p", "a"], WRONG_USAGE, { code: "usage" }],
    [
      ["soup", "task", "my model"],
      WRONG_USAGE,
      {
        message: expect.stringMatching(
          / Write: layergraft soup --model task --model 'my model'( --json)? --out FOLDER$/,
        ),
      },
    ],
    [
      ["extract", "task", "--base", "base", "--out", "my out"],
      WRONG_USAGE,
      {
        message: expect.stringMatching(/ Write: layergraft extract --model task --base base --out 'my out'( --json)?$/),
      },
    ],
    [
      ["swap", "my model"],
      WRONG_USAGE,
      {
        message: expect.stringMatching(
          / Write: layergraft swap --task 'my model' --language SOURCE( --json)? --out FOLDER$/,
        ),
      },
    ],
    [
      ["generate", "task", "hello"],
      WRONG_USAGE,
      { message: expect.stringMatching(/ Pass a prompt with --prompt hello$/) },
    ],
    [
      ["swap", "--task", "task", "--language", "language", "--dtype", "fp15"],
      WRONG_USAGE,
      { message: expect.stringMatching(/Allowed choices are .*fp8; did you mean float16\?$/) },
    ],
  ])("an error of %j under --json is one JSON object on stdout", async (args, status, report) => {
    writeFileSync(at("broken.yaml"), "method: no-such\n");
    const plain = await run(...args);
    expect([plain.status, plain.stdout]).toEqual([status, ""]);
    const outcome = await run(...args, "--json");
    expect([outcome.status, outcome.stderr]).toEqual([status, ""]);
    expect(JSON.parse(outcome.stdout)).toMatchObject(report);
    expect(outcome.stdout.split("\n")).toHaveLength(2);
  });

  it("--version is that of the package", async () => {
    expect((await output(DONE, "--version")).trim()).toBe(
      readJson(fileURLToPath(new URL("../package.json", import.meta.url))).version,
    );
  });
});

describe("a pipe closed early is no error", { tags: ["slow"] }, () => {
  // A reader that has seen enough closes the pipe; so much text does not fit into it.
  beforeAll(() => writeTiny(at("deep"), { layers: 300 }));

  it.each(["| head -1", "2>&1 | head -1", "2>&1 >/dev/null | true"])("%s", async (rest) => {
    for (const args of [
      "inspect deep --tensors",
      "swap --task deep --language deep --out piped --force --dry-run --json",
      "swap --task deep --language deep --out piped --force",
    ]) {
      const script = `${process.execPath} ${MAIN} ${args} ${rest}; exit \${PIPESTATUS[0]}`;
      const { status, stderr } = spawnSync("bash", ["-c", script], { cwd: root, encoding: "utf8" });
      expect(stderr).not.toMatch(/EPIPE|error|^ +at /m);
      expect(status, args).toBe(DONE);
    }
    expect((await run("verify", "piped")).status).toBe(DONE);
  });
});
