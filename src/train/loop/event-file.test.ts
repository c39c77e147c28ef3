import { copyFileSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { EventFile } from "./event-file.js";
import { readEvents } from "./event-file.test-util.js";

const FIXTURE = join(import.meta.dirname, "../../../test/fixtures/train/tensorboard.events");
const folder = temporaryFolder();
const path = join(folder, "events");
beforeEach(() => vi.useFakeTimers({ now: 1_700_000_000_250 }));
afterEach(() => {
  vi.useRealTimers();
  rmSync(path, { force: true });
});

const first = { "train/loss": 2.5, "train/learning_rate": 1e-3 };
const second = { "train/loss": 1.25, "train/learning_rate": 5e-4 };

it("writes the bytes that TensorBoard writes", () => {
  const file = new EventFile(path, 0);
  file.scalars(1, first);
  file.scalars(300, second);
  file.close();
  expect(readFileSync(path)).toEqual(readFileSync(FIXTURE));
  expect(readEvents(path)).toEqual([
    { time: 1_700_000_000.25, step: 0, version: "brain.Event:2", values: {} },
    { time: 1_700_000_000.25, step: 1, values: { "train/loss": 2.5, "train/learning_rate": Math.fround(1e-3) } },
    { time: 1_700_000_000.25, step: 300, values: { "train/loss": 1.25, "train/learning_rate": Math.fround(5e-4) } },
  ]);
});

it("continues after the bytes that it is given, and cuts off what follows", () => {
  const file = new EventFile(path, 0);
  file.scalars(1, first);
  const bytes = file.flush();
  file.scalars(2, first);
  file.close();
  writeFileSync(path, "torn", { flag: "a" });
  expect(() => readEvents(path)).toThrow();
  const resumed = new EventFile(path, bytes);
  resumed.scalars(300, second);
  resumed.close();
  expect(readFileSync(path)).toEqual(readFileSync(FIXTURE));
});

it("is read with its checksums", () => {
  copyFileSync(FIXTURE, path);
  const bytes = readFileSync(path);
  for (const at of [0, 20, bytes.length - 1]) {
    writeFileSync(
      path,
      bytes.map((byte, i) => (i === at ? byte ^ 1 : byte)),
    );
    expect(() => readEvents(path)).toThrow(/damaged|truncated/);
  }
});
