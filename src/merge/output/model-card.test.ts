import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder, writeTiny } from "../../../test/support/checkpoints.js";
import { executePlan, planRecipe } from "../index.js";

const sha256 = (content: string | Uint8Array) => createHash("sha256").update(content).digest("hex");

it("names local experts of one base by the bytes of their weights, as sha256sum does", async () => {
  const root = temporaryFolder();
  const [math, swahili] = [join(root, "math"), join(root, "swahili")];
  await writeTiny(math, { seed: 1 });
  await writeTiny(swahili, { seed: 2 });
  const out = join(root, "out");
  const opened = await planRecipe({ method: "soup", models: [math, swahili] });
  expect(new Set(opened.plan.sources.map(({ digest }) => digest)).size).toBe(1);
  await executePlan(opened, { out });
  const digestOf = (folder: string) => {
    const names = readdirSync(folder).filter((name) => name.endsWith(".safetensors"));
    const digests = names.sort().map((name) => [sha256(readFileSync(join(folder, name))), name] as const);
    return digests.length === 1
      ? ` (SHA-256 of its weights \`${digests[0]?.[0]}\`)`
      : ` (SHA-256 of the \`sha256sum\` lines of its ${digests.length} weight files \`${sha256(digests.map(([digest, name]) => `${digest}  ${name}\n`).join(""))}\`)`;
  };
  const card = readFileSync(join(out, "README.md"), "utf8");
  expect(card).toContain(`\n- math, a local folder${digestOf(math)}\n- swahili, a local folder${digestOf(swahili)}\n`);
  expect(digestOf(math)).not.toBe(digestOf(swahili));
});
