// Placement of every family's tensors, against fixtures labelled by hand from files of transformers.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type CheckpointConfig, parseConfig } from "./config.js";
import { placeTensors } from "./placement.js";

interface Fixture {
  family: string;
  config: Record<string, unknown>;
  tensors: Record<string, number[]>;
  parts: Record<string, string>;
}

const folder = join(import.meta.dirname, "../../../test/fixtures/architectures");
const fixtures = readdirSync(folder)
  .filter((name) => name.endsWith(".json"))
  .map((name) => [name, JSON.parse(readFileSync(join(folder, name), "utf8")) as Fixture] as const);

function configOf({ config }: Fixture, modelType?: string): CheckpointConfig {
  const text = (config.text_config ?? config) as Record<string, unknown>;
  return {
    file: "config.json",
    json: config,
    modelType: modelType ?? String(text.model_type ?? "meta"),
    layers: Number(text.num_hidden_layers ?? text.n_layer ?? text.n_layers),
    layersField: "num_hidden_layers",
    isEncoderDecoder: false,
    predictionLayers: 0,
    tied: undefined,
    vocabularySize: undefined,
    hiddenSize: undefined,
    quantized: undefined,
  };
}

/** The layer number of the text decoder, read off a name in the simplest way; vision towers are marked in `parts`. */
function layerOf(name: string, part: string | undefined): number | null {
  if (part === "vision") return null;
  const match = /(?:^|\.)(?:layers|layer|h)\.(\d+)\./.exec(name);
  return match ? Number(match[1]) : null;
}

describe("known families", () => {
  test.each(fixtures)("%s", (_name, fixture) => {
    const { places, architecture } = placeTensors(Object.keys(fixture.tensors), configOf(fixture));
    expect(architecture).not.toBe("unknown");
    const wanted = Object.fromEntries(
      Object.keys(fixture.tensors).map((name) => [
        name,
        {
          ...{ layer: layerOf(name, fixture.parts[name]), part: fixture.parts[name] },
          // Conv1D of GPT-2 is stored [in, out].
          ...(/\.(c_attn|c_proj|c_fc)\.weight$/.test(name) ? { transposed: true } : {}),
        },
      ]),
    );
    expect(Object.fromEntries(places)).toEqual(wanted);
  });
});

test("routers of ERNIE 4.5 VL and relative positions of Inkling are stored [in, out]", () => {
  const placed = (modelType: string, module: string) =>
    placeTensors(
      [`model.layers.0.${module}`],
      parseConfig({ model_type: modelType, num_hidden_layers: 1 }, "config.json"),
    ).places;
  for (const name of ["mlp.gate.weight", "mlp.gate.weight_1"]) {
    const places = placed("ernie4_5_vl_moe_text", name);
    expect([...places.values()]).toEqual([{ layer: 0, part: "router", transposed: true }]);
  }
  const places = placed("inkling_text", "self_attn.rel_logits_proj.proj");
  expect([...places.values()]).toEqual([{ layer: 0, part: "mixer", transposed: true }]);
});

describe("an unknown family", () => {
  test.each(fixtures)("%s: the layers are found by their numbers", (_name, fixture) => {
    const config = configOf(fixture, "never-heard-of");
    const names = Object.keys(fixture.tensors).filter((name) => fixture.parts[name] !== "vision");
    const { places, architecture } = placeTensors(names, config);
    expect(architecture).toBe("unknown");
    for (const name of names) expect([name, places.get(name)?.layer]).toEqual([name, layerOf(name, undefined)]);
  });

  test.each(fixtures)("%s: projections are recognised by their names", (_name, fixture) => {
    const names = Object.keys(fixture.tensors).filter((name) => fixture.parts[name] !== "vision");
    const { places } = placeTensors(names, configOf(fixture, "never-heard-of"));
    for (const name of names) {
      const part = fixture.parts[name] ?? "";
      if (/_proj$/.test(part)) expect([name, places.get(name)?.part]).toEqual([name, part]);
    }
  });

  test("layer numbers that contradict the configuration are an error that names both", () => {
    const config = { ...configOf({ family: "", config: { n_layer: 4 }, tensors: {}, parts: {} }), modelType: "new" };
    expect(() => placeTensors(["a.0.w", "a.1.w", "a.2.w"], config)).toThrow(
      /says 4 layers, but no tensor names count 0 to 3; the closest, a\.N, counts 3/,
    );
  });

  test("two towers of one depth have no layers, and the reason names both", () => {
    const config = { ...configOf({ family: "", config: { n_layer: 2 }, tensors: {}, parts: {} }), modelType: "t5ish" };
    const names = ["encoder.0.w", "encoder.1.w", "decoder.0.w", "decoder.1.w"];
    const { layers, withoutLayers, places } = placeTensors(names, config);
    expect([layers, withoutLayers]).toEqual([
      0,
      "its tensors count layers in more than one place (encoder., decoder.)",
    ]);
    expect([...places.values()].map(({ layer, part }) => [layer, part])).toEqual([
      [null, "encoder"],
      [null, "encoder"],
      [null, "decoder"],
      [null, "decoder"],
    ]);
  });
});

test("a missing layer of a known family is named", () => {
  const config = { ...configOf({ family: "", config: { n_layer: 3 }, tensors: {}, parts: {} }), modelType: "llama" };
  const names = ["model.layers.0.mlp.up_proj.weight", "model.layers.2.mlp.up_proj.weight"];
  expect(() => placeTensors(names, config)).toThrow(
    /says 3 layers, but under model\.layers\. there are no tensors of layer 1/,
  );
});
