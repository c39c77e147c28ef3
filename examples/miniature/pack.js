// Makes assets/miniature from a finished run of plan.yaml: node examples/miniature/pack.js FOLDER (README.md). The format
// is that of `writeMiniature` in src/demo/miniature.ts.
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openSafetensors, readTensor, writeSafetensors } from "#formats/safetensors";
import { Converter } from "#kernels";

const OUT = join(import.meta.dirname, "../../assets/miniature");
const demo = process.argv[2] ?? "my-miniature";
const converter = new Converter();

/** @typedef {import("#formats/safetensors").TensorData} Tensor */

/** Powers of two of the base's matrices, by their names. @type {Map<string, number>} */
const exponents = new Map();

/** The integers of a matrix in bfloat16. @param {Tensor} tensor */
function integersOf({ name, data }) {
  const values = new Float32Array(converter.decode("BF16", data));
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const exponent = exponents.get(name) ?? Math.ceil(Math.log2(largest / 127.49));
  exponents.set(name, exponent);
  // Halves are rounded away from zero, as rounding all of them up would shift the mean.
  return Array.from(values, (value) => Math.sign(value) * Math.round(Math.abs(value) / 2 ** exponent));
}

/** A matrix in 8 bits, less the base's. @param {Tensor} tensor @param {Tensor} [base] */
function packed(tensor, base) {
  if (tensor.shape.length < 2) return tensor;
  const from = base ? integersOf(base) : [];
  const integers = integersOf(tensor).map((integer, i) => integer - (from[i] ?? 0));
  if (integers.some((integer) => integer < -128 || integer > 127)) throw new Error(`${tensor.name} needs more bits`);
  return { ...tensor, dtype: /** @type {const} */ ("I8"), data: new Uint8Array(Int8Array.from(integers).buffer) };
}

/** @param {string} path @param {Tensor[]} tensors */
function write(path, tensors) {
  const names = tensors.flatMap(({ name, dtype }) => (dtype === "I8" ? [name] : []));
  const metadata = names.map((name) => [name, String(exponents.get(name))]);
  return writeSafetensors(path, tensors, Object.fromEntries(metadata));
}

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
await write(
  join(OUT, "base", "model.safetensors"),
  [...before.values()].map((tensor) => packed(tensor)),
);
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
  const tensors = changed.map((tensor) => packed(tensor, before.get(tensor.name)));
  await write(join(OUT, `${file}.safetensors`), tensors);
  process.stdout.write(`${file}: ${changed.length} of ${before.size} tensors changed\n`);
}
