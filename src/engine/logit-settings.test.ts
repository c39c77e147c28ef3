// Edits of logits and whole answers against transformers: see test/fixtures/generation/make_generation.py.
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { golden } from "../../test/support/golden-decoders.js";
import { CheckpointError } from "../kit/index.js";
import { openEngine } from "./engine.js";
import { readGenerationConfig } from "./generation-config.js";
import { editLogits, isEdited, type LogitSettings, withEdits } from "./logit-settings.js";

interface Case {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly prompt: number[];
  readonly ids: number[];
}

interface Recorded {
  readonly stop: number[];
  readonly new: number;
  readonly processed: readonly (Case & { readonly logits: number[]; readonly result: (number | null)[] })[];
  readonly greedy: readonly Case[];
}

const FIXTURE = join(import.meta.dirname, "../../test/fixtures/generation/generation.json");
const recorded = JSON.parse(readFileSync(FIXTURE, "utf8")) as Recorded;
const stopIds = new Set(recorded.stop);

const folder = mkdtempSync(join(tmpdir(), "layergraft-generation-"));
afterAll(() => rmSync(folder, { recursive: true }));

function edited(logits: readonly number[], settings: LogitSettings, prompt: number[], ids: number[], minNewTokens = 0) {
  const row = Float32Array.from(logits);
  const request = { prompt, stopIds, maxNewTokens: recorded.new, minNewTokens, logits: settings };
  return isEdited(request, ids.length)
    ? withEdits(
        row,
        editLogits(request, ids, (id) => row[id]),
      )
    : row;
}

describe("settings of generation_config.json", () => {
  it.each(recorded.processed)("edit logits as transformers: $fields, $prompt, $ids", ({ fields, ...one }) => {
    const { logits: settings, minNewTokens } = readGenerationConfig(fields, "generation_config.json");
    const result = edited(one.logits, settings, one.prompt, one.ids, minNewTokens);
    expect([...result].map((logit) => (logit === Number.NEGATIVE_INFINITY ? null : logit))).toEqual(one.result);
  });

  it("give the answers of transformers, in a batch and one by one", async () => {
    const { folder: from } = golden("llama");
    for (const file of ["config.json", "model.safetensors"]) copyFileSync(join(from, file), join(folder, file));
    const cases = recorded.greedy;
    for (const fields of new Set(cases.map((one) => JSON.stringify(one.fields)))) {
      const alike = cases.filter((one) => JSON.stringify(one.fields) === fields);
      const file = { eos_token_id: recorded.stop, ...JSON.parse(fields) };
      writeFileSync(join(folder, "generation_config.json"), JSON.stringify(file));
      const engine = await openEngine(folder, { threads: 1 });
      const prompts = alike.map(({ prompt }) => prompt);
      const answers = await engine.generate(prompts, { maxNewTokens: recorded.new });
      expect({ fields, answers: answers.map(({ ids }) => ids) }).toEqual({
        fields,
        answers: alike.map(({ ids }) => ids),
      });
      const [alone] = await engine.generate(prompts.slice(0, 1), { maxNewTokens: recorded.new });
      expect(alone?.ids).toEqual(alike[0]?.ids);
      expect(engine.generationConfig.applied).toEqual(JSON.parse(fields));
      await engine.close();
    }
  });

  it("are left out where they are not wanted, and taken from config.json where there is no other file", async () => {
    const [{ fields = {}, prompt = [], ids } = {}] = recorded.greedy;
    const { folder: from } = golden("llama");
    const json = JSON.parse(readFileSync(join(from, "config.json"), "utf8")) as object;
    writeFileSync(join(folder, "config.json"), JSON.stringify({ ...json, ...fields, eos_token_id: recorded.stop }));
    rmSync(join(folder, "generation_config.json"), { force: true });
    const answers: number[][] = [];
    for (const generationConfig of [undefined, false]) {
      const engine = await openEngine(folder, { threads: 1, generationConfig });
      const [answer] = await engine.generate([prompt], { maxNewTokens: recorded.new });
      answers.push([...(answer?.ids ?? [])]);
      expect(engine.notes).toEqual(
        generationConfig === false ? [] : [expect.stringMatching(/repetition_penalty 1.1$/)],
      );
      await engine.close();
    }
    expect(answers[0]).toEqual(ids);
    expect(answers[1]).not.toEqual(ids);
  });

  it("that are not supported are named, and others are not", () => {
    const silent = {
      transformers_version: "5",
      temperature: 0.7,
      num_beams: 1,
      do_sample: true,
      typical_p: 1,
      use_cache: true,
    };
    const nothing = {
      repetition_penalty: 1,
      no_repeat_ngram_size: 0,
      suppress_tokens: [],
      min_length: 0,
      guidance_scale: null,
    };
    expect(readGenerationConfig({ ...silent, ...nothing }, "f")).toEqual({ logits: {}, applied: {}, notes: [] });
    const { notes } = readGenerationConfig(
      { num_beams: 4, guidance_scale: 1.5, my_own: 1, repetition_penalty: 1.2 },
      "a/f",
    );
    expect(notes).toEqual([
      "answers follow the model's own generation settings: repetition_penalty 1.2",
      "f has settings that are not supported and are not applied: num_beams, guidance_scale, my_own",
    ]);
  });

  it.each([
    { repetition_penalty: 0 },
    { repetition_penalty: "1.1" },
    { no_repeat_ngram_size: 1.5 },
    { bad_words_ids: [3] },
    { bad_words_ids: [[]] },
    { forced_eos_token_id: "2" },
    { suppress_tokens: [-1] },
  ])("are refused where they are invalid: %j", (fields) => {
    expect(() => readGenerationConfig(fields, "f")).toThrow(CheckpointError);
  });
});

it("penalties of a request count the answer alone, in the order of vLLM", () => {
  const logits = [1, -1, 2, 0.5, -3, 1.5];
  const settings = { logitBias: new Map([[1, 4]]), repetitionPenalty: 2, frequencyPenalty: 0.5, presencePenalty: 0.25 };
  // 1 is biased, then penalised as a token of the prompt; 4 and 5 are in the answer, the second twice.
  expect([...edited(logits, settings, [1, 5], [4, 5, 5])]).toEqual([1, 1.5, 2, 0.5, -6.75, -0.5]);
  // A token that the model does not have changes nothing.
  expect([...edited(logits, { logitBias: new Map([[99, 4]]) }, [1], [])]).toEqual(logits);
});
