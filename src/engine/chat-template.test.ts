import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { temporaryFolder, writeTiny } from "../../test/support/checkpoints.js";
import { openEngine } from "./engine.js";

it("is missed before a weight is read, where conversations are to be encoded", async () => {
  const folder = temporaryFolder();
  const models = [1, 2].map((seed) => join(folder, `model-${seed}`));
  for (const [seed, model] of models.entries()) await writeTiny(model, { vocabulary: 24, seed });
  const onProgress = vi.fn();
  const open = (chat: boolean) => openEngine({ method: "soup", models }, { chat, onProgress, threads: 1 });
  await expect(open(true)).rejects.toMatchObject({
    code: "usage",
    message: expect.stringMatching(/has no chat template/),
  });
  expect(onProgress).not.toHaveBeenCalled();
  const engine = await open(false);
  expect(onProgress).toHaveBeenCalled();
  await engine.close();
});
