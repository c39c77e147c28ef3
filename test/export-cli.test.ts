// layergraft export as users run it, and exportModel of the library.
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { exportModel, planMerge } from "../src/verbs/index.js";
import { temporaryFolder, writeTiny } from "./support/checkpoints.js";
import { DONE, layergraft } from "./support/command.js";
import { writeTinyTokenizer } from "./support/export-fixtures.js";
import { readGguf } from "./support/gguf-reader.js";

const folder = temporaryFolder();
for (const [seed, name] of ["one", "two"].entries()) {
  await writeTiny(join(folder, name), { seed: seed + 1, layers: 2, vocabulary: 20 });
  writeTinyTokenizer(join(folder, name));
}
writeFileSync(join(folder, "recipe.yaml"), "method: soup\nmodels: [one, two]\n");

const run = (...args: string[]) => layergraft(["export", ...args], { cwd: folder });

test("writes a recipe, and says what is in the file", async () => {
  const planned = await run("recipe.yaml", "--type", "f16", "--dry-run");
  expect(planned).toMatchObject({ status: 0, stderr: "" });
  expect(planned.stdout).toMatch(
    /^Export soup of one, two as f16 for llama.cpp \(llama\): .*\n {2}f16 16 tensors .*, f32 5/,
  );
  const { stdout, status } = await run("recipe.yaml", "--type", "f16", "--out", "model.gguf", "--json", "--quiet");
  expect(status).toBe(0);
  const { metadata, tensors } = readGguf(join(folder, "model.gguf"));
  expect(JSON.parse(stdout)).toMatchObject({
    architecture: "llama",
    type: "f16",
    bytes: readFileSync(join(folder, "model.gguf")).byteLength,
    resumed: false,
    encodings: { F16: { tensors: 16 }, F32: { tensors: 5 } },
  });
  expect(tensors.size).toBe(21);
  expect(metadata.get("general.name")).toBe("soup of one, two");
});

test("writes a Modelfile for Ollama beside it", async () => {
  const { status, stderr } = await run("one", "--ollama", "--out", "for-ollama.gguf");
  expect(status).toBe(0);
  expect(readFileSync(join(folder, "for-ollama.gguf.Modelfile"), "utf8")).toBe("FROM ./for-ollama.gguf\n");
  expect(stderr).toMatch(/^Run it with: ollama create my-model -f for-ollama\.gguf\.Modelfile$/m);
});

test("the library writes the same bytes, with a digest that changes with the model and the type", async () => {
  const recipe = { method: "soup", models: ["one", "two"] } as const;
  const write = (source: string | typeof recipe, type: "f16" | "q8_0", out: string) =>
    exportModel({ source, type, out }, { folder });
  const made = await write(recipe, "f16", "library.gguf");
  expect(readFileSync(made.out).equals(readFileSync(join(folder, "model.gguf")))).toBe(true);
  const digests = [made.digest];
  digests.push(
    (await write("recipe.yaml", "q8_0", "other.gguf")).digest,
    (await write("one", "f16", "one.gguf")).digest,
  );
  expect(new Set(digests).size).toBe(3);
  await expect(write(recipe, "f16", "library.gguf")).rejects.toMatchObject({ where: { option: "force" } });
});

test("writes a folder for transformers.js, as the library does", async () => {
  const planned = await run("recipe.yaml", "--format", "onnx", "--dry-run");
  expect(planned).toMatchObject({ status: 0, stderr: "" });
  expect(planned.stdout).toMatch(
    /^Export soup of one, two as q8 for transformers.js \(Llama\): .*\n {2}f16 16 tensors/,
  );
  const { stdout, status } = await run("recipe.yaml", "--format", "onnx", "--out", "onnx", "--json", "--quiet");
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ family: "Llama", type: "q8", out: join(folder, "onnx"), warnings: [] });
  const made = await exportModel({ source: "recipe.yaml", format: "onnx", out: "library-onnx" }, { folder });
  expect(made.digest).toBe(JSON.parse(stdout).digest);
  for (const file of ["model_quantized.onnx", "model_quantized.onnx_data"]) {
    const [left, right] = ["onnx", "library-onnx"].map((out) => readFileSync(join(folder, out, "onnx", file)));
    expect(left?.equals(right as Buffer)).toBe(true);
  }
  const wrong = exportModel({ source: "one", format: "onnx", type: "q8_0", out: "x" }, { folder });
  await expect(wrong).rejects.toThrow(/type q8_0 is not a type of onnx. Choose one of fp32, fp16, q8, q4/);
});

test("writes a folder for transformers, the bytes of a merge", async () => {
  const { stdout, status } = await run(
    "recipe.yaml",
    "--format",
    "hf",
    "--type",
    "float16",
    "--out",
    "hf",
    "--json",
    "-q",
  );
  expect({ status, found: JSON.parse(stdout) }).toMatchObject({
    status: 0,
    found: { architecture: "Llama", type: "float16", resumed: false, encodings: { F16: { tensors: 21 } } },
  });
  const plan = await planMerge({ method: "soup", models: ["one", "two"], dtype: "float16" }, { folder });
  await plan.write({ out: join(folder, "merged") });
  const made = await exportModel({ source: plan, format: "hf", out: "of-plan" }, { folder });
  const [asked, merged, ofPlan] = ["hf", "merged", made.out].map((out) =>
    readFileSync(join(resolve(folder, out), "model.safetensors")),
  );
  expect([asked?.equals(merged as Buffer), ofPlan?.equals(merged as Buffer)]).toEqual([true, true]);
});

test.each([
  [["one"], /Missing --out. Pass --out PATH/],
  [["one", "--out", "x.gguf", "--tensor-type", "ffn_up"], /must be PATTERN=TYPE/],
  [["none", "--out", "x.gguf"], /none does not exist/],
  [["one", "--out", "x", "--type", "q4"], /type q4 is not a type of gguf. Choose one of f32, /],
  [["one", "--out", "x", "--format", "onnx", "--type", "q8_0"], /not a type of onnx. Choose one of fp32, fp16, q8, q4/],
  [["one", "--out", "x", "--format", "onnx", "--resume"], /onnx exports cannot be resumed. Repeat it without resume./],
  [["one", "--out", "x", "--format", "hf", "--tensor-type", "a=f16"], /hf has no encodings of single tensors/],
  [["one", "--out", "x", "--format", "onnx", "--ollama"], /ollama is for gguf, not for onnx/],
  [["one", "--out", "one", "--format", "onnx"], /one is one of the inputs/],
])("export %j is refused", async (args, reason) => {
  const { stderr, status } = await run(...args);
  expect(stderr).toMatch(reason);
  expect(status).not.toBe(0);
});

test("a GGUF file that is asked without llama.cpp runs in the engine, which is said", async () => {
  const options = { cwd: folder, env: { NODE_LLAMA_CPP: join(folder, "none.js") } };
  const ask = ["generate", "model.gguf", "--prompt", "a", "--max-new-tokens", "2"];
  const { status, stderr, stdout } = await layergraft(ask, options);
  expect(status).toBe(DONE);
  expect(stderr).toMatch(/embedded engine \(in float32, as llama\.cpp is not installed; to add it: npm install .*\)/);
  expect((await layergraft([...ask, "--backend", "engine"], options)).stdout).toBe(stdout);
});
