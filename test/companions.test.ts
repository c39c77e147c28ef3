// What goes beside the weights of a merge, from folders of strangers: links, broken tokenizers, names with markup.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeEach, expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, FAILED, layergraft } from "./support/command.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const swap = (task: string) =>
  layergraft(["swap", "--task", task, "--language", "language", "--out", "out"], { cwd: root });

beforeEach(async () => {
  rmSync(root, { recursive: true, force: true });
  mkdirSync(root);
  await writeTiny(at("task"), { seed: 1 });
  await writeTiny(at("language"), { seed: 2 });
});

it("does not copy a tokenizer that links out of its folder, and says so before anything is written", async () => {
  writeFileSync(at("secret"), "top secret");
  symlinkSync(at("secret"), at("task/tokenizer_config.json"));
  const outcome = await swap("task");
  expect(outcome.status).toBe(DONE);
  expect(`${outcome.stdout}${outcome.stderr}`).toMatch(
    /tokenizer_config\.json of task is a symbolic link out of its folder/,
  );
  expect(existsSync(at("out/tokenizer_config.json"))).toBe(false);
  expect(readFileSync(at("out/layergraft.json"), "utf8")).not.toContain("secret");
});

it("does not copy a tokenizer that is a device or a pipe, and says so", async () => {
  rmSync(at("task/tokenizer.json"), { force: true });
  execFileSync("mkfifo", [at("task/tokenizer.json")]);
  const outcome = await swap("task");
  expect(outcome.status).toBe(DONE);
  expect(`${outcome.stdout}${outcome.stderr}`).toMatch(/tokenizer\.json of task is not a regular file/);
  expect(existsSync(at("out/tokenizer.json"))).toBe(false);
});

it("copies what a snapshot of a hub cache links to", async () => {
  mkdirSync(at("models--org--task/blobs"), { recursive: true });
  mkdirSync(at("models--org--task/snapshots"));
  renameSync(at("task"), at("models--org--task/snapshots/abc"));
  const snapshot = at("models--org--task/snapshots/abc");
  rmSync(join(snapshot, "tokenizer.json"), { force: true });
  writeFileSync(at("models--org--task/blobs/0123"), '{"model":{}}');
  symlinkSync("../../blobs/0123", join(snapshot, "tokenizer.json"));
  expect((await swap("models--org--task/snapshots/abc")).status).toBe(DONE);
  expect(readFileSync(at("out/tokenizer.json"), "utf8")).toBe('{"model":{}}');
});

it("copies files of a snapshot without links, as a cache has them where links are not allowed", async () => {
  mkdirSync(at("models--org--plain/snapshots"), { recursive: true });
  renameSync(at("task"), at("models--org--plain/snapshots/abc"));
  writeFileSync(at("models--org--plain/snapshots/abc/tokenizer.json"), '{"model":{}}');
  const outcome = await swap("models--org--plain/snapshots/abc");
  expect(outcome).toMatchObject({ status: DONE });
  expect(readFileSync(at("out/tokenizer.json"), "utf8")).toBe('{"model":{}}');
});

it.each([
  ["tokenizer.model", "", /tokenizer\.model of task is empty; download it again/],
  ["tokenizer_config.json", "<html>", /tokenizer_config\.json of task is not valid JSON; download it again/],
])("warns of %s with the content %j", async (name, content, message) => {
  writeFileSync(at("task", name), content);
  const outcome = await swap("task");
  expect(outcome.status).toBe(DONE);
  expect(`${outcome.stdout}${outcome.stderr}`).toMatch(message);
});

/** Writes files into a folder of the root, with its name in each. */
function addFiles(folder: string, ...paths: string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(at(folder, path)), { recursive: true });
    writeFileSync(at(folder, path), path.endsWith(".json") ? `{"of":"${folder}"}` : folder);
  }
}

it("takes processors, modules, code and terms from the model of the configuration, texts from that of the tokenizer", async () => {
  const ofConfig = [
    ...["preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"],
    ...["modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "1_Pooling/config.json"],
    ...["2_Dense/config.json", "modeling_own.py", "LICENSE-MODEL.txt", "NOTICE"],
  ];
  const ofTokenizer = [
    ...["tokenizer.json", "sentencepiece.bpe.model", "qwen.tiktoken", "generation_config.json"],
    ...["chat_template.jinja", "additional_chat_templates/tool_use.jinja"],
  ];
  const never = [
    ...["pytorch_model.bin", "model.Q4_K_M.gguf", "onnx/model.onnx", "original/params.json", "flax_model.msgpack"],
    ...["trainer_state.json", "eval_results.json", "checkpoint-5/config.json", ".cache/x.json", "plot.png"],
  ];
  for (const folder of ["task", "language"]) addFiles(folder, ...ofConfig, ...ofTokenizer, ...never);
  const config = JSON.parse(readFileSync(at("task/config.json"), "utf8")) as object;
  writeFileSync(at("task/config.json"), JSON.stringify({ ...config, auto_map: { AutoModel: "modeling_own.Own" } }));
  const args = ["swap", "--task", "task", "--language", "language", "--tokenizer-from", "language", "--out", "out"];
  const outcome = await layergraft(args, { cwd: root });
  expect(outcome.status).toBe(DONE);
  expect(outcome.stderr.match(/(note|warning): .*/g)).toBeNull();
  const ownerOf = (path: string) => /task|language/.exec(readFileSync(at("out", path), "utf8"))?.[0];
  expect(ofConfig.map(ownerOf)).toEqual(ofConfig.map(() => "task"));
  expect(ofTokenizer.map(ownerOf)).toEqual(ofTokenizer.map(() => "language"));
  expect(never.filter((path) => existsSync(at("out", path)))).toEqual([]);

  expect((await layergraft(["verify", "out"], { cwd: root })).status).toBe(DONE);
  writeFileSync(at("out/1_Pooling/config.json"), "{}");
  rmSync(at("out/2_Dense"), { recursive: true });
  const verified = await layergraft(["verify", "out"], { cwd: root });
  expect(verified.status).toBe(FAILED);
  expect(`${verified.stdout}${verified.stderr}`).toMatch(/1_Pooling\/config\.json(.|\n)*2_Dense\/config\.json/);
});

it("copies small files that it does not know, and names those and the ones that it does not copy", async () => {
  addFiles("task", "steering.json", "classes.txt", "labels/a.json", "code_without_auto_map.py");
  writeFileSync(at("task/table.json"), "0".repeat(1_000_001));
  writeFileSync(at("secret"), "top secret");
  symlinkSync(at("secret"), at("task/linked.json"));
  const outcome = await swap("task");
  expect(outcome.stderr).toContain(
    "note: task has small files of unknown purpose, which are copied: classes.txt, steering.json\n",
  );
  expect(outcome.stderr).toContain(
    "note: task has files that are not copied: labels, linked.json, table.json; copy what the model needs into the result\n",
  );
  expect(readFileSync(at("out/steering.json"), "utf8")).toBe('{"of":"task"}');
  const absent = ["labels", "linked.json", "table.json", "code_without_auto_map.py"];
  expect(absent.filter((path) => existsSync(at("out", path)))).toEqual([]);
});

it("writes names of folders into the model card as text", async () => {
  const name = "<img src=x> [a](b) `*_#|";
  renameSync(at("task"), at(name));
  expect((await swap(name)).status).toBe(DONE);
  const body = readFileSync(at("out/README.md"), "utf8").split("---\n").at(2)?.split("```yaml")[0] ?? "";
  expect(body).toContain("\\<img src=x\\> \\[a\\](b) \\`\\*\\_\\#\\|");
});

it("shows the escapes of a name, and what the system refused in words", async () => {
  const outcome = await swap("no\u001b[2Jsuch\u009b1A");
  expect(outcome.status).toBe(FAILED);
  expect(outcome.stderr).toContain("no␛[2Jsuch\\u009b1A");
  const asJson = await layergraft(["swap", "--task", "no\u009b1A", "--language", "b", "--out", "x", "--json"], {
    cwd: root,
  });
  expect(asJson.stdout).toMatch(/no\\u009b1A does not exist/);
  const flag = await layergraft(["swap", "--top", "\u001b[2J"], { cwd: root });
  expect(flag.stderr).toMatch(/'--top <n>' argument '␛\[2J' is invalid/);
  symlinkSync("loop", at("loop"));
  expect((await swap("loop")).stderr).toMatch(/loop is a symbolic link that leads back to itself; replace it/);
  expect((await swap("x".repeat(300))).stderr).toMatch(/x{20}… is too long for this file system/);
});
