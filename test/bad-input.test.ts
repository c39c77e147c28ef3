// Checkpoints and options that cannot be used are refused: with the right exit status, in words that help, and with
// nothing left behind. Recipes and outputs are in bad-recipe.test.ts.
import {
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it, vi } from "vitest";
import {
  readAll,
  readJson,
  seededTensor,
  type TinyOptions,
  temporaryFolder,
  writeTiny,
} from "./support/checkpoints.js";
import { DONE, expectRefused, FAILED, layergraft, WRONG_USAGE } from "./support/command.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);

const refused = (args: readonly string[], status: number, ...messages: RegExp[]) =>
  expectRefused(args, root, status, ...messages);

const swap = (task: string, language: string, ...more: string[]) => [
  ...["swap", "--task", task, "--language", language, "--out", "out"],
  ...more,
];

/** A checkpoint of its own name that differs from the good ones as given. */
async function variant(name: string, options: TinyOptions): Promise<string> {
  await writeTiny(at(name), { seed: 9, ...options });
  return name;
}

type Header = Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>;

/** Changes the header of a weight file, not its data. */
function editHeader(file: string, edit: (header: Header) => void): void {
  const bytes = readFileSync(file);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, 8 + length)) as Header;
  edit(header);
  const json = Buffer.from(JSON.stringify(header));
  const start = Buffer.alloc(8);
  start.writeBigUInt64LE(BigInt(json.byteLength));
  writeFileSync(file, Buffer.concat([start, json, bytes.subarray(8 + length)]));
}

function editBytes(file: string, edit: (bytes: Buffer) => Buffer): void {
  writeFileSync(file, edit(readFileSync(file)));
}

beforeAll(async () => {
  await writeTiny(at("task"), { seed: 1 });
  await writeTiny(at("language"), { seed: 2 });
});

describe("checkpoints that do not fit together", () => {
  it("of another family", async () => {
    await variant("mistral", { modelType: "mistral" });
    const outcome = await layergraft(swap("task", "mistral", "--dry-run"), { cwd: root });
    expect(outcome.stdout + outcome.stderr).toMatch(/task \(task\) is of the family "llama".*"mistral"/);
    await variant("mistral-deep", { modelType: "mistral", layers: 5 });
    await refused(swap("task", "mistral-deep"), FAILED, /task \(task\) is of the family "llama".*"mistral"/);
  });

  it("of another depth", async () => {
    await variant("deep", { layers: 6 });
    await refused(swap("task", "deep"), FAILED, /task \(task\) has 4 layers, language \(deep\) has 6/);
  });

  it("of another vocabulary: says which, by how much, and what to do", async () => {
    await variant("wordy", { vocabulary: 27 });
    const sizes =
      /task \(task\) has 24 rows in model\.embed_tokens\.weight, lm_head\.weight, language \(wordy\) has 27/;
    const cure = /language has 3 more.*Set vocabulary to language, task or union/;
    await refused(swap("task", "wordy"), FAILED, sizes, cure);
    await refused(swap("wordy", "task"), FAILED, /task has 3 more.*Set vocabulary to task, language or union/);
  });

  it("with several problems: all are named at once", async () => {
    const name = "model.layers.1.mlp.up_proj.weight";
    await variant("several", {
      vocabulary: 25,
      edit: (tensors) =>
        tensors
          .filter((tensor) => tensor.name !== "model.layers.0.mlp.down_proj.weight")
          .map((tensor) => (tensor.name === name ? seededTensor(name, [10, 8], 3) : tensor)),
    });
    const message = await refused(
      swap("task", "several"),
      FAILED,
      /language \(several\) lacks 1 tensor of task \(task\): model\.layers\.0\.mlp\.down_proj\.weight/,
      /1 tensor of .* differ in shape: model\.layers\.1\.mlp\.up_proj\.weight \[12, 8\] against \[10, 8\]/,
      /vocabularies differ/,
    );
    expect(message.match(/^ {2}- /gm)).toHaveLength(3);
  });

  it("of mixed dtypes, until the result's is given", async () => {
    await variant("wide", { dtype: "F32" });
    await refused(
      swap("task", "wide"),
      FAILED,
      /task and language differ in dtype.*BF16 and F32.*choose the dtype of the output: bfloat16.*Pass --dtype bfloat16/s,
    );
    const outcome = await layergraft(swap("task", "wide", "--dtype", "bfloat16"), { cwd: root });
    expect(outcome.status).toBe(DONE);
    const tensors = await readAll(at("out"), ["model.safetensors"]);
    expect(new Set([...tensors.values()].map((tensor) => tensor.dtype))).toEqual(new Set(["BF16"]));
    expect(readJson(at("out"), "config.json").torch_dtype).toBe("bfloat16");
    rmSync(at("out"), { recursive: true });
  });

  it("of integers that would have to be averaged in a packed dtype", async () => {
    const pack = (tensors: ReturnType<typeof seededTensor>[]) =>
      tensors.map((tensor) => ({
        ...tensor,
        dtype: "F8_E4M3" as const,
        data: tensor.data.subarray(0, tensor.data.length / 2),
      }));
    await variant("packed", { edit: pack });
    await refused(swap("packed", "packed"), FAILED, /dtype F8_E4M3 would need arithmetic.*use checkpoints in bfloat16/);
  });
});

describe("options that cannot be", () => {
  it.each<[string, string[], number, RegExp]>([
    [
      "more layers than there are",
      ["--bottom", "3", "--top", "2"],
      WRONG_USAGE,
      /bottom 3 \+ .* \+ top 2 is 5, more than the 4 layers/,
    ],
    ["transitions beyond", ["--bottom", "2", "--top-transition", "3"], WRONG_USAGE, /is 5, more than the 4 layers/],
    ["magnitude without base", ["--weights", "magnitude"], WRONG_USAGE, /need the base.*--base/],
    ["weights that cancel out", ["--weights", "1,-1"], WRONG_USAGE, /weights sum to zero/],
    [
      "weights that are no numbers",
      ["--weights", "1,x"],
      WRONG_USAGE,
      /'1,x' is invalid\. Value 2 \(x\) must be a number/,
    ],
    ["a negative count", ["--bottom", "-1"], WRONG_USAGE, /--bottom.*'-1' is invalid\. It must not be negative/],
    ["half a layer", ["--bottom", "1.5"], WRONG_USAGE, /'1.5' is invalid.*whole number/],
    ["a word for a count", ["--top", "x"], WRONG_USAGE, /'x' is invalid.*whole number/],
    ["an empty count", ["--top", ""], WRONG_USAGE, /'' is invalid.*whole number/],
    ["no threads", ["--threads", "0"], WRONG_USAGE, /'0' is invalid.*between 1 and 256/],
    ["a size that is none", ["--memory", "lots"], WRONG_USAGE, /'lots' is invalid.*500MB/],
    ["no memory", ["--memory", "1kB"], WRONG_USAGE, /budget of 1.00 kB is too small.*at least \d/],
    ["shards of nothing", ["--shard-size", "0"], WRONG_USAGE, /'0' is invalid/],
    ["an unknown dtype", ["--dtype", "int8"], WRONG_USAGE, /'int8' is invalid.*bfloat16/],
    ["an unknown option", ["--botom", "1"], WRONG_USAGE, /unknown option '--botom'[\s\S]*--bottom/],
    ["an argument too many", ["more"], WRONG_USAGE, /swap takes options only/],
    [
      "a tokenizer from nowhere",
      ["--tokenizer-from", "sky"],
      WRONG_USAGE,
      /"sky", which is not a source \(task, language\)/,
    ],
  ])("%s", async (_, options, status, message) => {
    await refused(swap("task", "language", ...options), status, message);
  });

  it("nothing to write to, nothing to read from, nothing to do", async () => {
    await refused(
      ["swap", "--task", "task", "--language", "language"],
      WRONG_USAGE,
      /Pass --out FOLDER to write the model, or --dry-run/,
    );
    await refused(
      ["swap", "--language", "language", "--out", "out"],
      WRONG_USAGE,
      /Missing --task <source>: expert that gives the middle layers\./,
    );
    await refused(["soup", "--out", "out"], WRONG_USAGE, /Missing --model <source\[=weight\]>: /);
    await refused(["sawp"], WRONG_USAGE, /unknown command 'sawp'[\s\S]*swap/);
    await refused([], WRONG_USAGE, /Usage: layergraft/);
  });

  it("sources that are not there", async () => {
    await refused(swap("nowhere", "language"), FAILED, /nowhere does not exist; give the folder/);
    await refused(swap("langauge", "language"), FAILED, /langauge does not exist; did you mean language\?/);
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    await refused(
      swap("some/model", "language"),
      FAILED,
      /some\/model is neither a folder nor complete in the cache .*, and HF_HUB_OFFLINE is set\. Unset it once/,
    );
    vi.unstubAllEnvs();
    await refused(
      swap("task+nowhere", "language"),
      FAILED,
      /nowhere does not exist; give the folder of a LoRA adapter/,
    );
    await refused(swap("task+language", "language"), FAILED, /has no adapter_config\.json/);
    for (const [name, file] of [
      ["adapter-run", "adapter_config.json"],
      ["full-run", "config.json"],
    ] as const) {
      mkdirSync(join(root, name, "checkpoint-8"), { recursive: true });
      writeFileSync(join(root, name, "checkpoint-8", file), "{}");
      symlinkSync("checkpoint-8", join(root, name, "last"));
    }
    await refused(
      swap("task+adapter-run", "language"),
      FAILED,
      /; write a checkpoint of it after the '\+', \S+adapter-run.last$/m,
    );
    await refused(
      swap("adapter-run", "language"),
      FAILED,
      /; write a checkpoint of it, BASE\+\S+adapter-run.last, with/,
    );
    await refused(
      swap("task+full-run", "language"),
      FAILED,
      /; write its checkpoint without a base, \S+full-run.last$/m,
    );
    await refused(swap("full-run", "language"), FAILED, /; write a checkpoint of it, \S+full-run.last$/m);
    mkdirSync(join(root, "adapter-run", "best"));
    writeFileSync(join(root, "adapter-run", "best", "adapter_config.json"), "{}");
    await refused(swap("task+adapter-run", "language"), FAILED, /after the '\+', \S+adapter-run.best$/m);
    await refused(swap("task/config.json", "language"), FAILED, /config\.json is a file; give the folder/);
    await refused(swap(`${"long".repeat(99)}`, "language"), FAILED, /error: .*(too long|ENAMETOOLONG)/);
  });
});

describe("damaged weight files", () => {
  const first = "lm_head.weight";
  it.each<[string, (file: string) => void, RegExp]>([
    [
      "cut off in the data",
      (file) => truncateSync(file, readFileSync(file).length - 5),
      /model\.safetensors.*(cut off|ends|bytes)/,
    ],
    [
      "cut off in the header",
      (file) => truncateSync(file, 100),
      /is cut off: its header needs \d+ bytes, the file has 100/,
    ],
    ["empty", (file) => truncateSync(file, 0), /has 0 bytes, too few/],
    [
      "longer than its header says",
      (file) => editBytes(file, (b) => Buffer.concat([b, Buffer.alloc(8)])),
      /model\.safetensors.*bytes/,
    ],
    [
      "a header of petabytes",
      (file) => editBytes(file, (b) => Buffer.concat([Buffer.from("0000000000002000", "hex"), b.subarray(8)])),
      /declares a header of 9007199254740992 bytes/,
    ],
    [
      "no JSON",
      (file) => editBytes(file, (b) => b.fill("}", 9, 10)),
      /header is not valid: it is not JSON; the file is damaged/,
    ],
    [
      "overlapping tensors",
      (file) =>
        editHeader(file, (h) =>
          Object.assign(h[first] ?? {}, { data_offsets: h["model.norm.weight"]?.data_offsets, shape: [8] }),
        ),
      /model\.safetensors: .*(overlap|begins)/,
    ],
    [
      "a shape beyond the data",
      (file) => editHeader(file, (h) => Object.assign(h[first] ?? {}, { shape: [25, 8] })),
      /"lm_head\.weight" has 384 bytes, but BF16 \[25, 8\] needs 400/,
    ],
    [
      "a shape beyond all numbers",
      (file) => editHeader(file, (h) => Object.assign(h[first] ?? {}, { shape: [2 ** 40, 2 ** 40] })),
      /impossible shape/,
    ],
    [
      "a negative extent",
      (file) => editHeader(file, (h) => Object.assign(h[first] ?? {}, { shape: [-24, -8] })),
      /shape that is not a list/,
    ],
    [
      "an unknown dtype",
      (file) => editHeader(file, (h) => Object.assign(h[first] ?? {}, { dtype: "BF17" })),
      /unknown dtype "BF17"/,
    ],
  ])("%s", async (name, damage, message) => {
    const folder = name.replaceAll(" ", "-");
    cpSync(at("language"), at(folder), { recursive: true });
    damage(at(folder, "model.safetensors"));
    await refused(swap("task", folder), FAILED, message);
  });

  it.each<[string, (map: Record<string, unknown>, folder: string) => void, RegExp]>([
    [
      "a file outside",
      (map) => Object.assign(map, { [first]: "../language/model.safetensors" }),
      /"\.\.\/language.*outside its folder\. Do not trust/,
    ],
    [
      "an absolute path",
      (map) => Object.assign(map, { [first]: at("language/model.safetensors") }),
      /outside its folder/,
    ],
    [
      "a tensor that is not there",
      (map) => Object.assign(map, { ghost: map[first] }),
      /holds "ghost", but it does not/,
    ],
    ["not all tensors", (map) => delete map[first], /holds "lm_head\.weight", which .* does not name/],
    [
      "a shard that is missing",
      (map, folder) => rmSync(join(folder, map[first] as string)),
      /names "model-0000\d-of-0000\d\.safetensors", which is not there; fetch the rest/,
    ],
    ["numbers for names", (map) => Object.assign(map, { [first]: 7 }), /gives no file for tensor "lm_head\.weight"/],
  ])("an index that names %s", async (name, damage, message) => {
    const folder = at(await variant(`index-${name.replaceAll(" ", "-")}`, { shardBytes: 2000 }));
    const index = readJson(folder, "model.safetensors.index.json");
    damage(index.weight_map as Record<string, unknown>, folder);
    writeFileSync(join(folder, "model.safetensors.index.json"), JSON.stringify(index));
    await refused(swap("task", folder), FAILED, message);
  });
});

describe("folders that are no checkpoint", () => {
  const copy = (name: string) => {
    cpSync(at("language"), at(name), { recursive: true });
    return at(name);
  };

  it("pickled, an adapter, empty, half fetched, without configuration", async () => {
    renameSync(join(copy("pickled"), "model.safetensors"), at("pickled/pytorch_model.bin"));
    await refused(
      swap("task", "pickled"),
      FAILED,
      /pickled weights \(pytorch_model\.bin\).*never read.*save_pretrained/,
    );
    mkdirSync(at("adapter"));
    writeFileSync(at("adapter/adapter_config.json"), "{}");
    cpSync(at("language/model.safetensors"), at("adapter/adapter_model.safetensors"));
    await refused(swap("task", "adapter"), FAILED, /is a LoRA adapter, not a whole checkpoint; write BASE\+/);
    mkdirSync(at("nothing"));
    await refused(swap("task", "nothing"), FAILED, /nothing has no \.safetensors file/);
    await variant("half", { shardBytes: 2000 });
    rmSync(at("half/model.safetensors.index.json"));
    rmSync(at("half", readdirSync(at("half")).find((name) => name.startsWith("model-00002")) ?? ""));
    await refused(
      swap("task", "half"),
      FAILED,
      /has \d of \d shards and no model\.safetensors\.index\.json; fetch the rest/,
    );
    rmSync(join(copy("bare"), "config.json"));
    await refused(swap("task", "bare"), FAILED, /bare has no config\.json/);
  });

  it.each<[string, unknown, RegExp]>([
    ["-1 layers", { num_hidden_layers: -1 }, /num_hidden_layers is -1, not a number of layers/],
    ["a billion layers", { num_hidden_layers: 1e9 }, /num_hidden_layers is 1000000000, not/],
    ["layers as text", { num_hidden_layers: "4" }, /num_hidden_layers is "4", not/],
    [
      "fewer layers than the weights, each of a kind",
      { model_type: "llama", num_hidden_layers: 3, layer_types: ["a", "b", "a"] },
      /says 3 layers, but .* layer 3;/,
    ],
    [
      "more layers than the weights, each of a kind",
      { model_type: "llama", num_hidden_layers: 9, layer_types: Array(9).fill("a") },
      /says 9 layers, but .* layer 4, 5, 6 and 2 more/,
    ],
    ["more layers, family unknown", { num_hidden_layers: 9 }, /says 9 layers, but no tensor names count 0 to 8/],
    ["a list", [], /config\.json does not contain a JSON object/],
    ["a text", "llama", /config\.json does not contain a JSON object/],
  ])("whose configuration has %s", async (name, config, message) => {
    const folder = copy(`config-${name.replaceAll(" ", "-")}`);
    writeFileSync(join(folder, "config.json"), JSON.stringify(config));
    await refused(swap("task", folder), FAILED, message);
  });

  it("whose configuration nests without end", async () => {
    await variant("deep", {});
    writeFileSync(at("deep/config.json"), `{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}`);
    await refused(swap("deep", "language"), FAILED, /deep\/config\.json nests deeper than 500 levels/);
  });

  it("whose configuration is no JSON, or a folder", async () => {
    writeFileSync(join(copy("broken"), "config.json"), '{"a": ');
    await refused(swap("task", "broken"), FAILED, /broken\/config\.json is not valid JSON/);
    rmSync(at("broken/config.json"));
    mkdirSync(at("broken/config.json"));
    await refused(swap("task", "broken"), FAILED, /broken\/config\.json (is not a file|is a folder)/);
  });

  it("without layers in its tensors' names, or linked in a circle", async () => {
    await variant("flat", { modelType: "odd", edit: (all) => all.filter(({ name }) => !name.includes("layers")) });
    await refused(swap("task", "flat"), FAILED, /says 4 layers, but no tensor names count 0 to 3/);
    symlinkSync("circle", at("circle"));
    await refused(swap("task", "circle"), FAILED, /error: .*(circle|ELOOP)/);
  });
});
