// Outputs that begin as clones, on a file system where cloning works, fails, or is interrupted: always the same bytes.
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { planRecipe } from "../plan/planner.js";
import { executePlan } from "./execute-plan.js";
import { verifyOutput } from "./verify.js";

const disk = vi.hoisted(() => ({ clones: true }));
vi.mock("node:fs/promises", async (original) => {
  const real = await original<typeof import("node:fs/promises")>();
  const copyFile = async (from: string, to: string, mode?: number) => {
    if (mode === real.constants.COPYFILE_FICLONE_FORCE && !disk.clones) throw new Error("ENOTSUP");
    await real.copyFile(from, to);
  };
  return { ...real, copyFile };
});

const root = temporaryFolder();

/** Replaces the header by one with more spaces; the data follow as before. */
function lengthen(file: string, by: number): void {
  const bytes = readFileSync(file);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = Buffer.alloc(8 + length + by, 0x20);
  bytes.copy(header, 0, 0, 8 + length);
  header.writeBigUInt64LE(BigInt(length + by), 0);
  writeFileSync(file, Buffer.concat([header, bytes.subarray(8 + length)]));
}

async function swap(out: string, { clones, by = 0 }: { clones: boolean; by?: number }) {
  disk.clones = clones;
  const [task, language] = await Promise.all([
    writeTiny(join(root, `task-${by}`), { seed: 1, layers: 8 }),
    writeTiny(join(root, `language-${by}`), { seed: 2, layers: 8 }),
  ]);
  if (by > 0) lengthen(join(task, "model.safetensors"), by);
  const opened = await planRecipe({ method: "swap", task, language, bottom: 1, top: 1, outside: "task" });
  const result = await executePlan(opened, { out: join(root, out) });
  return { result, bytes: readFileSync(join(root, out, "model.safetensors")), task: join(task, "model.safetensors") };
}

it.each([0, 64])("writes only what differs, with a header that is %i bytes longer", async (by) => {
  const clone = await swap(`clone-${by}`, { clones: true, by });
  const plain = await swap(`plain-${by}`, { clones: false, by });
  expect(clone.bytes.equals(plain.bytes)).toBe(true);
  expect(clone.bytes.length).toBe(statSync(clone.task).size);
  expect(clone.bytes.readBigUInt64LE(0)).toBe(readFileSync(clone.task).readBigUInt64LE(0));
  // Two of eight layers are the other model's; the rest, and what is outside the layers, is in the clone.
  const layer = 2 * (8 + 8 * 8 * 2 + 4 * 8 * 2 + 8 + 3 * 12 * 8);
  expect(clone.result.bytesWritten).toBe(2 * layer);
  expect(plain.result.bytesWritten).toBe(plain.bytes.length - 8 - Number(plain.bytes.readBigUInt64LE(0)));
  expect(statSync(join(root, `clone-${by}`, "model.safetensors")).mode).toBe(
    statSync(join(root, `plain-${by}`, "model.safetensors")).mode,
  );
  expect((await verifyOutput(join(root, `clone-${by}`))).verified).toBe(true);
});

it("resumes a clone whose pieces are recorded, and copies them where they are not", async () => {
  const { bytes, task } = await swap("whole", { clones: true });
  for (const name of ["recorded", "unrecorded", "damaged", "mistyped"]) {
    const journal = name === "recorded";
    disk.clones = true;
    const out = join(root, name);
    const opened = await planRecipe({
      method: "swap",
      task: join(task, ".."),
      language: join(root, "language-0"),
      bottom: 1,
      top: 1,
      outside: "task",
    });
    const stop = new AbortController();
    const onProgress = () => stop.abort();
    await executePlan(opened, { out, signal: stop.signal, onProgress }).catch(() => undefined);
    expect([existsSync(out), existsSync(`${out}.partial`)]).toEqual([false, true]);
    const file = join(`${out}.partial`, ".layergraft-run.json");
    const state = JSON.parse(readFileSync(file, "utf8"));
    expect(Buffer.from(state.done, "base64").some((bits) => bits !== 0)).toBe(true);
    if (name === "unrecorded") writeFileSync(file, JSON.stringify({ ...state, done: "" }));
    if (name === "damaged") writeFileSync(file, JSON.stringify(state).slice(0, -9));
    if (name === "mistyped") writeFileSync(file, JSON.stringify({ ...state, inputs: { [task]: {} } }));
    disk.clones = false;
    const { resumed, bytesWritten, warnings } = await executePlan(opened, { out, resume: true });
    expect(resumed).toBe(name === "recorded" || name === "unrecorded");
    const notes = resumed ? [] : ["the journal of the interrupted run was damaged, so everything was computed again"];
    expect(warnings.filter((one) => one.includes("journal"))).toEqual(notes);
    expect(bytesWritten < bytes.length / 2).toBe(journal);
    expect(readFileSync(join(out, "model.safetensors")).equals(bytes)).toBe(true);
  }
});
