import { cpSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { writeInitialModel } from "../../../examples/miniature/world/untrained-model.js";
import { checkRun } from "../../train/index.js";
import type { JsonValue } from "../steps/step.js";
import { ReadFacts } from "./facts-reader.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-facts-"));
afterAll(() => rmSync(root, { recursive: true }));
const at = (name: string) => join(root, name);

beforeAll(async () => {
  await writeInitialModel(at("model"), 1, { layers: 1, width: 8, heads: 1, feedForward: 8 });
  cpSync(at("model"), at("copy"), { recursive: true });
  cpSync(at("model"), at("other"), { recursive: true });
  const weights = at("other/model.safetensors");
  const bytes = readFileSync(weights);
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  writeFileSync(weights, bytes);
  writeFileSync(at("copy/README.md"), "a copy");
  utimesSync(at("copy/model.safetensors"), 1, 1);
  writeFileSync(at("data.jsonl"), '{"a":1}\n');
});

async function identityOf(source: string): Promise<string> {
  const facts = new ReadFacts({ folder: root });
  await facts.readModel(source, ["base"]);
  expect(facts.problems).toEqual([]);
  return facts.modelIdentity(source).identity;
}

describe("models", () => {
  it("are identified by their bytes", async () => {
    const identity = await identityOf("model");
    expect(await identityOf("copy")).toBe(identity);
    expect(await identityOf("other")).not.toBe(identity); // one bit of one weight
  });

  it("are another where a file changed", async () => {
    const before = await identityOf("copy");
    writeFileSync(at("copy/tokenizer_config.json"), "{}");
    expect(await identityOf("copy")).not.toBe(before);
  });
});

describe("data", () => {
  const read = async (data: unknown) => {
    const facts = new ReadFacts({ folder: root });
    const settings = checkRun({ base: "base", out: "out", data });
    await facts.readRun({ fields: { data: data as JsonValue }, settings }, ["experts", "math"]);
    return { identity: facts.dataIdentity({ data }), problems: facts.problems };
  };

  it("are identified by their declaration and files", async () => {
    const declared = { source: "data.jsonl", map: { prompt: "a", response: "b" } };
    const { identity } = await read(declared);
    expect((await read({ ...declared, limit: 3 })).identity).not.toBe(identity);
    writeFileSync(at("data.jsonl"), '{"a":2}\n');
    expect((await read(declared)).identity).not.toBe(identity);
    // A name of the hub is no file; one that looks like a file must be there.
    vi.stubEnv("HF_HUB_OFFLINE", "1");
    const { problems } = await read({ use: "aya", source: "CohereForAI/aya_dataset" });
    expect(problems.map(({ message }) => message)).toEqual([expect.stringContaining("HF_HUB_OFFLINE")]);
    vi.unstubAllEnvs();
    expect((await read({ source: "lost.jsonl" })).problems).toEqual([
      { path: ["experts", "math"], message: "lost.jsonl does not exist" },
    ]);
  });

  it.each<[string, (source: string) => unknown]>([
    ["a text", (source) => source],
    ["a list of texts", (source) => [source]],
    ["a text among sets", (source) => ({ sets: [source] })],
  ])("in short, as %s, are identified by its file, and missed where it is not", async (_, data) => {
    writeFileSync(at("short.jsonl"), '{"prompt":"a","response":"b"}\n');
    const { identity } = await read(data("short.jsonl"));
    writeFileSync(at("short.jsonl"), '{"prompt":"a","response":"c"}\n');
    expect((await read(data("short.jsonl"))).identity).not.toBe(identity);
    expect((await read(data("lost.jsonl"))).problems).toEqual([
      { path: ["experts", "math"], message: "lost.jsonl does not exist" },
    ]);
  });
});

describe("missing tasks", () => {
  it("have as many items as their limit, or enough for every round of a search", () => {
    const facts = new ReadFacts({ folder: root });
    expect(facts.task({ task: "mmlu", limit: 100 })).toMatchObject({ items: 100, isMean: true });
    expect(facts.task({ task: "unknown" })).toMatchObject({ items: 1000 });
  });
});
