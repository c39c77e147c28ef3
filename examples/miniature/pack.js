// Makes assets/miniature from a finished run of plan.yaml: node examples/miniature/pack.js FOLDER (README.md)
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Converter, openSafetensors, readTensor, writeSafetensors } from "#weights";

const OUT = join(import.meta.dirname, "../../assets/miniature");
const demo = process.argv[2] ?? "my-miniature";
const converter = new Converter();

/** The tensors of a model in bfloat16. @param {string} folder */
async function inBfloat16(folder) {
  const file = await openSafetensors(join(folder, "model.safetensors"));
  const tensors = new Map();
  for (const info of file.tensors.values()) {
    const { name, shape } = info;
    const bytes = await readTensor(file, info);
    const { bytes: data } = converter.encode("BF16", converter.decode("F32", bytes));
    tensors.set(name, { name, dtype: "BF16", shape, data: data.slice() });
  }
  return tensors;
}

/** The folder of a trained expert. @param {string} name of its run */
async function expertFolder(name) {
  const steps = join(demo, "experiment", "steps");
  const index = (await readFile(join(steps, "index.txt"), "utf8")).split("\n");
  const key = index.find((line) => line.endsWith(`  train ${name}`))?.split(" ")[0] ?? "";
  const runs = (await readdir(join(steps, key), { recursive: true })).filter((path) =>
    path.endsWith("last/model.safetensors"),
  );
  return join(steps, key, runs[0] ?? "", "..");
}

const base = join(demo, "base", "last");
const before = await inBfloat16(base);
await mkdir(join(OUT, "base"), { recursive: true });
await writeSafetensors(join(OUT, "base", "model.safetensors"), [...before.values()]);
const config = JSON.parse(await readFile(join(base, "config.json"), "utf8"));
await writeFile(
  join(OUT, "base", "config.json"),
  `${JSON.stringify({ ...config, torch_dtype: "bfloat16" }, null, 2)}\n`,
);
for (const name of ["tokenizer.json", "tokenizer_config.json"])
  await copyFile(join(base, name), join(OUT, "base", name));
for (const [run, file] of [
  ["math-1", "math-expert"],
  ["swahili-1", "swahili-expert"],
]) {
  const changed = [...(await inBfloat16(await expertFolder(run ?? ""))).values()].filter(
    ({ name, data }) => Buffer.compare(data, before.get(name).data) !== 0,
  );
  await writeSafetensors(join(OUT, `${file}.safetensors`), changed);
  process.stdout.write(`${file}: ${changed.length} of ${before.size} tensors changed\n`);
}
