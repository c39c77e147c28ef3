import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { writeByteModel } from "../../../test/support/byte-model.js";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { KINDS } from "./kinds.js";

it("merges unrelated models only where that is allowed; replacing an output does not allow it", async () => {
  const project = temporaryFolder();
  await writeTiny(join(project, "one"), { seed: 1 });
  await writeTiny(join(project, "other"), { seed: 3, root: 3 });
  for (const name of ["recipes", "models"]) mkdirSync(join(project, name));
  writeFileSync(join(project, "recipes", "mix.yaml"), "method: soup\nmodels: [../one, ../other]\n");
  const controls = { signal: new AbortController().signal, onProgress() {}, onText() {} };
  const merge = (how: { force: boolean; allowUnrelated: boolean }) =>
    KINDS.merge({ recipe: "mix", out: "models/mix", resume: false, ...how }, { project, folder: project }, controls);
  const unrelated = { where: { option: "allowUnrelated" } };
  await expect(merge({ force: true, allowUnrelated: false })).rejects.toMatchObject(unrelated);
  await merge({ force: false, allowUnrelated: true });
  const exists = { where: { option: "force" } };
  await expect(merge({ force: false, allowUnrelated: true })).rejects.toMatchObject(exists);
});

it("answers with all models that can, and says why the others cannot", { timeout: 60_000 }, async () => {
  const project = temporaryFolder();
  for (const name of ["plain", "chat"]) await writeByteModel(join(project, name), 1);
  writeFileSync(join(project, "chat", "chat_template.jinja"), "{{ messages[0].content }}");
  const models = ["plain", "missing", "chat"].map((source) => ({ name: `the ${source} one`, source }));
  const controls = { signal: new AbortController().signal, onProgress() {}, onText() {} };
  const options = { chat: true, maxNewTokens: 2, temperature: 0, seed: 0 };
  const answers = await KINDS.answer(
    { models, prompts: ["1+1"], ...options, backend: "engine" },
    { project, folder: project },
    controls,
  );
  expect(answers).toEqual({
    "the plain one": { problem: "the plain one has no chat template. Choose Text as the form of the prompt." },
    "the missing one": { problem: expect.stringContaining("missing") },
    "the chat one": { text: expect.any(String), finish: expect.any(String), tokens: 2 },
  });
});
