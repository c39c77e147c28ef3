// Invalid arguments of `layergraft experiment`, and plans with problems.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { add as addExperimentCommand } from "./experiment-command.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-experiment-cli-"));
afterAll(() => rmSync(root, { recursive: true }));
afterEach(() => void vi.restoreAllMocks());
const plan = join(root, "plan.yaml");
writeFileSync(
  plan,
  "name: small\nbase: nowhere\nassume: { parameters: 1e6, layers: 4, bytes: 2MB }\nevaluate: { tasks: [own.yaml] }\n",
);

/** Runs a command line in this process. @returns what it printed */
async function run(...args: string[]): Promise<{ text: string; error: Error | undefined }> {
  const program = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  addExperimentCommand(program);
  let text = "";
  vi.spyOn(process.stdout, "write").mockImplementation((chunk) => {
    text += String(chunk);
    return true;
  });
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const error = await program.parseAsync(["experiment", ...args], { from: "user" }).then(
    () => undefined,
    (thrown: Error) => thrown,
  );
  return { text, error };
}

describe("actions", () => {
  it.each([
    [[plan, "stat"], "unknown action stat; did you mean status?"],
    [[plan, "rum"], "unknown action rum; did you mean run?"],
    [[plan, "frobnicate"], "unknown action frobnicate; use one of run, resume, status, report, export"],
    [["status", "plan.yaml"], "the plan comes first: layergraft experiment plan.yaml status"],
    [[plan, "export"], "Missing the row to export, such as one of report/recipes."],
    [
      [plan, "export", "soup", "--out", "x"],
      "there is no row soup: no merge or trained expert is known yet. Run the plan first.",
    ],
    [[plan, "export", "soup", "--type", "f16"], "--type needs --format."],
    [
      [plan, "export", "soup", "--format", "gguf", "--push", "a/b"],
      "--push sends a checkpoint. Leave out --format, or upload the file yourself: hf upload a/b FILE",
    ],
    [[plan, "run", "soup"], "run takes no row, but there is soup. Use it with export."],
    [[plan, "--push", "a/b"], "--push is an option of export, not of run. Leave it out, or use export."],
    [[plan, "run", "--resume"], "--resume is an option of export, not of run. A run resumes by itself; leave it out."],
    [[plan, "report"], "plan.yaml has no finished steps; run it before the report"],
  ])("%j", async (args, message) => {
    expect((await run(...args)).error?.message).toBe(message);
  });
});

describe("a plan that names programs", () => {
  it("is listed by a dry run", async () => {
    const file = join(root, "programs.yaml");
    const backend = "serve:my-server {model} {port}";
    writeFileSync(file, `name: p\nbase: nowhere\nevaluate: { tasks: [own.yaml], backend: "${backend}" }\n`);
    const programs = [{ when: "For each model", what: "my-server {model} {port}" }];
    expect((await run(file, "--dry-run")).text).toContain(
      "programs that the plan starts:\n  for each model: my-server {model} {port}\n",
    );
    expect(JSON.parse((await run(file, "--dry-run", "--json")).text)).toMatchObject({ programs });
  });
});

describe("a plan whose models and data are missing", () => {
  it("is outlined, then rejected with every problem and its line", async () => {
    const { text, error } = await run(plan, "--dry-run");
    expect(text).toMatch(/^models known now: base\n/);
    expect(text).toMatch(/evaluation +0 +1\n/);
    expect(text).toMatch(/time left: unknown/);
    expect(error?.message).toMatch(
      /^plan\.yaml cannot run here:\n {2}- line 2: base: nowhere does not exist in .*, where relative paths start/,
    );
    expect(error?.message).toMatch(/\n {2}- line 4: evaluate\.tasks\[0\]: task own\.yaml: .* does not exist$/);
  });

  it("has a status with seconds for programs", async () => {
    const status = JSON.parse((await run(plan, "status", "--json")).text) as Record<string, unknown>;
    expect(status).toMatchObject({ counts: { done: 0, left: 1 }, secondsDone: 0, secondsLeft: null });
  });
});
