// A decoder in ONNX Runtime as the model of an engine.

import { VERSION } from "../core/index.js";
import { DecodingBatch } from "./decoding-batch.js";
import { generateTokens } from "./generate.js";
import type { WeightType } from "./layered-session.js";
import type { LoadedDecoder } from "./loaded-decoder.js";
import { scoreTexts, topNext } from "./score.js";
import type { TokenModel } from "./token-model.js";

export function embeddedModel(decoder: LoadedDecoder, weights: WeightType): TokenModel {
  const { family, vocabularySize, contextLength } = decoder.spec;
  return {
    backend: "engine",
    program: `layergraft ${VERSION}${weights === "float32" ? "" : `, ${weights} weights`}`,
    family,
    vocabularySize,
    contextLength,
    notes: decoder.notes,
    generate: (prompts, options) => generateTokens(decoder, prompts, options),
    score: (requests, options) => scoreTexts(decoder, requests, options),
    topNext: (texts, count, options) => topNext(decoder, texts, count, options),
    openBatch: (rows) => new DecodingBatch(decoder, { rows, eager: true }),
    close: () => decoder.close(),
  };
}
