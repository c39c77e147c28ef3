// Prompts of chats need a chat template, which is known before a model is loaded.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { writeByteModel } from "../../../test/support/byte-model.js";
import { temporaryFolder } from "../../../test/support/checkpoints.js";
import { requireTemplates } from "./kinds.js";

it("names the models without a chat template, and what to choose", async () => {
  const project = temporaryFolder();
  for (const name of ["plain", "chat"]) await writeByteModel(join(project, name), 1);
  writeFileSync(join(project, "chat", "chat_template.jinja"), "{{ messages[0].content }}");
  const models = ["plain", "chat"].map((source) => ({ name: `the ${source} one`, source }));
  const { signal } = new AbortController();
  await expect(requireTemplates(models, project, signal)).rejects.toThrow(
    /^the plain one has no chat template\. Choose Text as the form of the prompt\.$/,
  );
  await requireTemplates(models.slice(1), project, signal);
});
