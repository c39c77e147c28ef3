// What goes beside the weights of a merge, from folders of strangers: links, broken tokenizers, names with markup.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
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

it.each([
  ["tokenizer.model", "", /tokenizer\.model of task is empty; download it again/],
  ["tokenizer_config.json", "<html>", /tokenizer_config\.json of task is not valid JSON; download it again/],
])("warns of %s with the content %j", async (name, content, message) => {
  writeFileSync(at("task", name), content);
  const outcome = await swap("task");
  expect(outcome.status).toBe(DONE);
  expect(`${outcome.stdout}${outcome.stderr}`).toMatch(message);
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
