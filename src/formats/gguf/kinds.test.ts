// GGUF files that are no language models, and ids that no token has.
import { describe, expect, it } from "vitest";
import type { GgufHeader, GgufTensor, GgufValue } from "./header.js";
import { requireModelFile, withKnownIds } from "./kinds.js";

const tensor = (name: string, rows = 4): GgufTensor => ({
  name,
  shape: [rows, 8],
  type: "F32",
  offset: 0,
  bytes: 32 * rows,
});

function header(
  keys: Readonly<Record<string, GgufValue>>,
  tensors: readonly GgufTensor[],
  tokens?: number,
): GgufHeader {
  return { metadata: new Map(Object.entries(keys)), tensors, tokens, lists: new Map(), bytes: 0, digest: "" };
}

const LLAMA = { "general.architecture": "llama" };

describe("a file that is not a model is called what it is", () => {
  it.each<[string, GgufHeader, string]>([
    [
      "adapter",
      header({ ...LLAMA, "general.type": "adapter" }, [tensor("x")]),
      "is a LoRA adapter in llama.cpp's form",
    ],
    ["old adapter", header(LLAMA, [tensor("blk.0.attn_q.weight.lora_a")]), "is a LoRA adapter in llama.cpp's form"],
    ["mmproj", header({ "general.architecture": "clip" }, [tensor("v.patch_embd.weight")]), "images or sound (mmproj)"],
    [
      "imatrix",
      header({ "general.type": "imatrix" }, [tensor("blk.0.attn_q.weight.in_sum2")]),
      "is an importance matrix",
    ],
    ["imatrix without a type", header({}, [tensor("a.in_sum2"), tensor("a.counts")]), "is an importance matrix"],
    [
      "control vector",
      header({ "general.architecture": "controlvector" }, [tensor("direction.1")]),
      "is a control vector",
    ],
    ["vocabulary", header(LLAMA, [], 100), "has a tokenizer and no tensors"],
    ["nothing said", header({}, [tensor("a")]), "it has no general.architecture, and 1 tensor."],
  ])("%s", (_, file, message) => {
    expect(() => requireModelFile(file, "x.gguf")).toThrow(`x.gguf `);
    expect(() => requireModelFile(file, "x.gguf")).toThrow(message);
  });

  it("a model is taken, whether it says general.type or not", () => {
    expect(() => requireModelFile(header(LLAMA, [tensor("token_embd.weight")]), "x.gguf")).not.toThrow();
    const typed = header({ ...LLAMA, "general.type": "model" }, [tensor("token_embd.weight")], 4);
    expect(() => requireModelFile(typed, "x.gguf")).not.toThrow();
  });
});

describe("ids of tokens", () => {
  const ids = {
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 4,
    "tokenizer.ggml.padding_token_id": 2 ** 32 - 1,
  };

  it("beyond the vocabulary are left out, each with a note", () => {
    const { header: known, notes } = withKnownIds(header(ids, [tensor("token_embd.weight")], 4), "x.gguf");
    expect(Object.keys(ids).map((key) => [known.metadata.get(key), known.metadata.has(key)])).toEqual([
      [1, true],
      [undefined, false],
      [undefined, false],
    ]);
    expect(notes).toEqual([
      "tokenizer.ggml.eos_token_id is 4, but there are 4 tokens, so it is left out",
      "tokenizer.ggml.padding_token_id is 4294967295, but there are 4 tokens, so it is left out",
    ]);
  });

  it("are kept where all are known, and another number of rows is refused", () => {
    const plain = header({ "tokenizer.ggml.bos_token_id": 3 }, [tensor("token_embd.weight")], 4);
    expect(withKnownIds(plain, "x.gguf")).toEqual({ header: plain, notes: [] });
    const rows = header({}, [tensor("token_embd.weight", 5)], 4);
    expect(() => withKnownIds(rows, "x.gguf")).toThrow("x.gguf has 4 tokens, but token_embd.weight has 5 rows");
    const types = (last: number) =>
      header({ "tokenizer.ggml.token_type": [1, 1, 1, last] }, [tensor("token_embd.weight", 3)], 4);
    expect(withKnownIds(types(5), "x.gguf").notes).toEqual([]);
    expect(() => withKnownIds(types(1), "x.gguf")).toThrow("x.gguf has 4 tokens, but token_embd.weight has 3 rows");
  });
});
