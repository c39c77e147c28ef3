// Models and adapters that are given as their weight file.
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { locateSource } from "./locate.js";

const home = temporaryFolder();

/** A folder with empty files. */
function folder(name: string, ...files: string[]): string {
  const path = join(home, name);
  mkdirSync(path);
  for (const file of files) writeFileSync(join(path, file), "");
  return path;
}

it("takes a model's only weight file, or an adapter's, for its folder", async () => {
  const model = folder("model", "config.json", "model.safetensors");
  const renamed = folder("renamed", "config.json", "v1-pruned.safetensors");
  const adapter = folder("adapter", "adapter_config.json", "adapter_model.safetensors");
  expect(await locateSource(join(model, "model.safetensors"))).toEqual({ folder: model });
  expect(await locateSource(join(renamed, "v1-pruned.safetensors"))).toEqual({ folder: renamed });
  expect(
    await locateSource(`${join(model, "model.safetensors")}+${join(adapter, "adapter_model.safetensors")}`),
  ).toEqual({
    folder: model,
    adapter,
  });
});

it("says what to do with any other weight file", async () => {
  const two = folder("two", "config.json", "model.safetensors", "other.safetensors");
  const shards = folder("shards", "config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors");
  const lone = folder("lone", "x.safetensors");
  const adapter = folder("lora", "adapter_config.json", "adapter_model.safetensors");
  const message = (path: string) => locateSource(path).catch((error: Error) => error.message);
  expect(await message(join(two, "other.safetensors"))).toContain(`Give the folder, ${two}, or copy this file as`);
  expect(await message(join(shards, "model-00001-of-00002.safetensors"))).toContain(`Give the folder, ${shards}, or`);
  expect(await message(join(lone, "x.safetensors"))).toContain("has no config.json beside it. Copy it as model.safet");
  expect(await message(join(adapter, "adapter_model.safetensors"))).toContain(`Write BASE+${adapter}, with`);
  copyFileSync(join(two, "config.json"), join(adapter, "config.json"));
  expect(await message(`${adapter}+${join(lone, "x.safetensors")}`)).toContain("has no adapter_config.json beside it");
});
