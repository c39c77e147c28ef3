import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { layOutGguf, text, u32 } from "../../export/gguf/gguf-file.js";
import { openGguf } from "./gguf-source.js";

it("knows a part of a model by what it says, whatever its name", async () => {
  const folder = temporaryFolder();
  const tensor = { name: "output_norm.weight", shape: [64], encoding: "F32" } as const;
  const split = [["split.count", u32(2)]] as const;
  for (const [name, metadata] of [
    ["first.gguf", new Map([["general.architecture", text("llama")], ...split])],
    ["model-00002-of-00002.gguf", new Map(split)],
  ] as const) {
    const layout = layOutGguf(metadata, [tensor]);
    const bytes = Buffer.alloc(layout.bytes);
    bytes.set(layout.header);
    writeFileSync(join(folder, name), bytes);
    await expect(openGguf(join(folder, name))).rejects.toThrow(/is one of several parts of a model; join them first/);
  }
});
