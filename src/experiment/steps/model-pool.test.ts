// @module-tag slow
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { writeInitialModel } from "../../../examples/miniature/world/untrained-model.js";
import { BYTE_TOKENS, writeByteModel } from "../../../test/support/byte-model.js";
import { FAKE_LLAMA, logitsAfter } from "../../../test/support/fake-llama.js";
import { loadTokenizer } from "../../text/index.js";
import { ModelPool } from "./model-pool.js";
import { isStepBackend } from "./step.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-answer-"));
afterAll(() => rmSync(root, { recursive: true }));
const folder = join(root, "step");
const [one, two] = [join(root, "one"), join(root, "two")];
const swap = (bottom: number) => ({
  ...{ method: "swap", task: one, language: two, bottom, top: 0, bottom_transition: 0, top_transition: 0 },
});

beforeAll(async () => {
  const size = { layers: 3, width: 16, heads: 2, feedForward: 32 };
  await writeInitialModel(one, 1, size);
  await writeInitialModel(two, 2, size);
  mkdirSync(folder, { recursive: true });
});

const ask = { prompt: "Asha had 4 bananas.", maxNewTokens: 3, stop: [] };

describe("models in the engine", () => {
  it("stay open and are merged once", async () => {
    const models = new ModelPool();
    const options = { backend: "engine", folder, threads: 1 };
    const first = await models.get(swap(1), options);
    expect(first.openSeconds).toBeGreaterThan(0);
    expect(first.mergeSeconds).toBeGreaterThan(0);
    expect(first.mergeSeconds).toBeLessThanOrEqual(first.openSeconds);
    const answers = await first.backend.generate([ask]);
    await models.get(one, options);
    const again = await models.get(swap(1), options);
    expect(again).toMatchObject({ openSeconds: 0, mergeSeconds: 0 });
    expect(again.backend).toBe(first.backend);
    expect(await again.backend.generate([ask])).toEqual(answers);
    await models.close();
    expect(readdirSync(folder)).toEqual([]); // nothing was written
  });
});

it("models get the variables of their chat templates", async () => {
  const talking = join(root, "talking");
  cpSync(one, talking, { recursive: true });
  writeFileSync(
    join(talking, "chat_template.jinja"),
    "{{ messages[0].content }}{{ '' if enable_thinking is false else '<think>' }}",
  );
  const models = new ModelPool();
  const chat = async (templateVariables?: Record<string, unknown>) => {
    const { backend } = await models.get(talking, { backend: "engine", folder, threads: 1, templateVariables });
    return backend.renderChat?.([{ role: "user", content: "a" }]);
  };
  expect(await chat()).toBe("a<think>");
  expect(await chat({ enable_thinking: false })).toBe("a");
  await models.close();
});

describe("models in llama.cpp", () => {
  beforeEach(() => {
    vi.stubEnv("NODE_LLAMA_CPP", FAKE_LLAMA);
    vi.stubEnv("LAYERGRAFT_CACHE", join(root, "cache"));
  });
  afterEach(() => void vi.unstubAllEnvs());

  it("are exported once for each model and type", async () => {
    const soup = {
      method: "soup",
      models: await Promise.all([3, 4].map((seed) => writeByteModel(join(root, `${seed}`), seed))),
    };
    const exports = () => readdirSync(join(root, "cache/gguf")).length;
    const told: string[] = [];
    const options = {
      backend: "llama",
      type: "f16",
      folder,
      threads: 1,
      onProgress: (what: string) => told.push(what),
    } as const;
    const models = new ModelPool();
    const first = await models.get(soup, options);
    expect(first.backend).toMatchObject({ identity: { backend: "llama" } });
    expect(first.mergeSeconds).toBeGreaterThan(0);
    expect(told.at(-1)).toBe("exporting f16, 100%");
    const [answer] = await first.backend.generate([{ ...ask, maxNewTokens: 1 }]);
    const tokenizer = await loadTokenizer(join(root, "3"));
    const logits = logitsAfter(tokenizer.encode(ask.prompt, { specialTokens: true }), BYTE_TOKENS);
    const greedy = logits.indexOf(Math.max(...logits));
    expect(answer).toMatchObject({ text: tokenizer.decode([greedy]) });
    expect(await models.get(soup, options)).toMatchObject({ openSeconds: 0 });
    expect(exports()).toBe(1);
    expect((await models.get(soup, { ...options, type: "f32" })).backend).not.toBe(first.backend);
    expect(exports()).toBe(2);
    await models.close();

    const others = new ModelPool();
    told.length = 0;
    expect((await others.get(soup, options)).openSeconds).toBeGreaterThan(0);
    await others.close();
    expect([told, exports()]).toEqual([[], 2]);
  });
});

describe("models behind a server", () => {
  // Answers with the folder that it serves, so that we see which; notes its end.
  const server = `
import { createServer } from "node:http";
import { appendFileSync } from "node:fs";
const [model, port] = process.argv.slice(2);
const json = (response, value) => response.end(JSON.stringify(value));
createServer((request, response) => {
  response.setHeader("content-type", "application/json");
  if (request.url === "/health") return response.end();
  if (request.url === "/v1/models") return json(response, { data: [{ id: model }] });
  if (request.url !== "/v1/completions") { response.statusCode = 404; return json(response, {}); }
  request.resume().on("end", () => json(response, { choices: [{ index: 0, text: model, finish_reason: "stop" }] }));
}).listen(Number(port), "127.0.0.1");
process.on("SIGTERM", () => { appendFileSync(${JSON.stringify(join(root, "ended"))}, "ended\\n"); process.exit(0); });
`;

  it("are written to a folder, and one server runs at a time", async () => {
    const program = join(root, "server.mjs");
    writeFileSync(program, server);
    const backend = `serve:${process.execPath} ${program} {model} {port}`;
    expect(isStepBackend(backend)).toBe(true);
    const models = new ModelPool();
    const options = { backend, folder };
    const merged = await models.get(swap(2), options);
    const [answer] = await merged.backend.generate([{ ...ask, stop: ["\n"] }]);
    expect(answer).toMatchObject({ text: join(folder, "model") });
    expect(readdirSync(join(folder, "model"))).toEqual(
      expect.arrayContaining(["config.json", "tokenizer.json", "model.safetensors"]),
    );

    const plain = await models.get(one, options);
    expect(readFileSync(join(root, "ended"), "utf8")).toBe("ended\n"); // the first server has made room
    expect(existsSync(join(folder, "model"))).toBe(false);
    expect((await plain.backend.generate([{ ...ask, stop: ["\n"] }]))[0]).toMatchObject({ text: one });
    await models.close();
    expect(readFileSync(join(root, "ended"), "utf8")).toBe("ended\nended\n");
  }, 30_000);
});
