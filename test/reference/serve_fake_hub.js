// Serves the fake hub of the tests for check_fake_hub.py: prints its endpoint and tokens, then answers each line with the
// requests since the last. Not part of `npm test`.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "rolldown";

const folder = mkdtempSync(join(tmpdir(), "fake-hub-"));
const file = join(folder, "fake-hub.mjs");
await build({
  input: fileURLToPath(new URL("../support/fake-hub.ts", import.meta.url)),
  output: { file },
  platform: "node",
  logLevel: "silent",
});
const { FakeHub } = await import(pathToFileURL(file).href);
rmSync(folder, { recursive: true });

const hub = await FakeHub.start();
hub.partBytes = 100_000;
console.log(JSON.stringify({ endpoint: hub.endpoint, token: hub.token, readToken: hub.readToken }));
// Standard input keeps the process alive; it ends with the check.
for await (const line of createInterface({ input: process.stdin })) {
  const [name, path, gated] = line.split("\t");
  if (path) hub.push(name, path, { gated: gated === "gated" });
  /** @type {{ method: string, path: string }[]} */
  const requests = hub.requests;
  console.log(JSON.stringify(requests.map((request) => `${request.method} ${request.path}`)));
  hub.requests = [];
}
