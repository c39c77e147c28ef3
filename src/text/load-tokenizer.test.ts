// Tokenizers and templates of folders: which file has what, and errors where one is missing or wrong.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { tokenizerJson } from "../../test/support/tokenizer-fixtures.js";
import { CheckpointError } from "../kit/errors.js";
import { loadChatTemplate } from "./load-template.js";
import { loadTokenizer } from "./load-tokenizer.js";

const root = mkdtempSync(join(tmpdir(), "layergraft-text-"));
afterAll(() => rmSync(root, { recursive: true }));

let folders = 0;

/** A folder with files: text as it is, other values as JSON. */
function folder(files: Record<string, unknown>): string {
  const path = join(root, `model-${folders++}`);
  mkdirSync(path);
  for (const [name, value] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), typeof value === "string" ? value : JSON.stringify(value));
  }
  return path;
}

const llama3 = tokenizerJson("llama3");
const [BOS, END, EOT] = [360, 361, 362];

describe("the tokenizer of a folder", () => {
  it("takes special tokens from its settings, as text or as objects", async () => {
    const tokenizer_config = {
      bos_token: "<|begin_of_text|>",
      eos_token: { __type: "AddedToken", content: "<|eot_id|>", special: true },
    };
    const path = folder({ "tokenizer.json": llama3, "tokenizer_config.json": tokenizer_config });
    const tokenizer = await loadTokenizer(path);
    expect([tokenizer.bos, tokenizer.eos, tokenizer.pad]).toEqual([BOS, EOT, undefined]);
    expect(tokenizer.encode("a", { specialTokens: true })).toEqual([BOS, ...tokenizer.encode("a")]);
  });

  it("takes them from special_tokens_map.json, unless its settings list their added tokens", async () => {
    const files = {
      "tokenizer.json": llama3,
      "special_tokens_map.json": { eos_token: { content: "<|eot_id|>" }, pad_token: "<|end_of_text|>" },
    };
    const settings = { eos_token: "<|end_of_text|>" };
    const legacy = await loadTokenizer(folder({ ...files, "tokenizer_config.json": settings }));
    expect([legacy.eos, legacy.pad]).toEqual([EOT, END]);
    const listed = { ...settings, added_tokens_decoder: { "362": { content: "<|eot_id|>", special: true } } };
    const current = await loadTokenizer(folder({ ...files, "tokenizer_config.json": listed }));
    expect([current.eos, current.pad]).toEqual([END, undefined]);
  });

  it("takes ids from generation_config.json where no file names the tokens", async () => {
    const generation = { bos_token_id: BOS, eos_token_id: [EOT, END, 9999], pad_token_id: 9999 };
    const path = folder({ "tokenizer.json": llama3, "generation_config.json": generation });
    const tokenizer = await loadTokenizer(path);
    expect([tokenizer.bos, tokenizer.eos, tokenizer.pad]).toEqual([BOS, EOT, undefined]);
    const named = folder({
      "tokenizer.json": llama3,
      "generation_config.json": generation,
      "tokenizer_config.json": { eos_token: "<|end_of_text|>", bos_token: null },
    });
    expect((await loadTokenizer(named)).eos).toBe(END);
  });

  it("says what is missing and what to do", async () => {
    const refused = async (path: string, message: RegExp) => {
      const loading = loadTokenizer(path);
      await expect(loading).rejects.toThrow(CheckpointError);
      await expect(loading).rejects.toThrow(message);
    };
    await refused(join(root, "nothing"), /nothing does not exist$/);
    await refused(folder({ "config.json": {} }), /has no tokenizer\.json; copy tokenizer\.json and tokenizer_config/);
    await refused(
      folder({ "vocab.json": {}, "tokenizer.model": "" }),
      /convert its tokenizer\.model, vocab\.json with transformers: AutoTokenizer/,
    );
    await refused(folder({ "tokenizer.json": "{" }), /tokenizer\.json is not valid JSON/);
    await refused(folder({ "tokenizer.json": [] }), /does not contain a JSON object/);
    await refused(folder({ "tokenizer.json": {} }), /tokenizer\.json: the tokenizer cannot be used: .* has no model/);
    await refused(folder({ "tokenizer.json": llama3, "tokenizer_config.json": "x" }), /tokenizer_config\.json is not/);
  });
});

describe("the chat template of a folder", () => {
  const hi = [{ role: "user", content: "hi" }];
  const first = "{{ bos_token }}{{ image_token }}{{ messages[0].content }}";
  const settings = { bos_token: { content: "<s>" }, image_token: "<i>", chat_template: first };

  it("is that of its settings, with special tokens", async () => {
    const template = await loadChatTemplate(folder({ "tokenizer_config.json": settings }));
    expect(template?.render(hi)).toBe("<s><i>hi");
    expect(await loadChatTemplate(folder({ "tokenizer_config.json": { bos_token: "<s>" } }))).toBeUndefined();
    expect(await loadChatTemplate(folder({}))).toBeUndefined();
  });

  it("is the one named default of several", async () => {
    const chat_template = [
      { name: "default", template: "D" },
      { name: "tool_use", template: "T" },
    ];
    const path = folder({ "tokenizer_config.json": { chat_template } });
    expect((await loadChatTemplate(path))?.render(hi)).toBe("D");
    const nameless = folder({ "tokenizer_config.json": { chat_template: chat_template.slice(1) } });
    await expect(loadChatTemplate(nameless)).rejects.toThrow(/no default chat template, only tool_use/);
  });

  it("is that of files of its own before that of its settings", async () => {
    const path = folder({
      "tokenizer_config.json": settings,
      "chat_template.jinja": "file {{ bos_token }}\n",
    });
    expect((await loadChatTemplate(path))?.render(hi)).toBe("file <s>");
  });

  it("is named in its errors", async () => {
    const broken = folder({ "chat_template.jinja": "{{" });
    await expect(loadChatTemplate(broken)).rejects.toThrow(/the chat template of model-\d+ is not valid: /);
    const odd = folder({ "tokenizer_config.json": { chat_template: [{ name: "default" }] } });
    await expect(loadChatTemplate(odd)).rejects.toThrow(/neither a template nor a list of \{ name, template \}/);
    const raising = folder({
      "tokenizer_config.json": { chat_template: "{{ raise_exception('No system.') }}" },
    });
    const strict = await loadChatTemplate(raising);
    expect(() => strict?.render(hi)).toThrow(/model-\d+ refuses these messages: No system\.$/);
  });
});
