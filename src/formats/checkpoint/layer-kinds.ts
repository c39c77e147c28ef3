// Layers that differ in kind: what config.json says of each by its place, and how it says the same of a stack of them.

import { findFamily, type KindRule, SHARED_RULES } from "../../families/index.js";
import { groupBy, isObject, type JsonObject, RecipeError } from "../../kit/index.js";
import { formatRanges, formatSome } from "../../kit/printing/index.js";
import type { Checkpoint } from "./checkpoint.js";
import { type CheckpointConfig, LAYER_COUNTS, mapText, mapTowers, textOf } from "./config.js";

/** Lists of the layers of one kind, and the number of the first layer. */
const PLACES: Readonly<Record<string, number>> = {
  attn_layer_indices: 0, // Bamba
  cross_attention_layers: 0, // Mllama
  full_attn_idxs: 0, // LFM2
  moe_layers: 0, // Llama 4
  hybrid_layer_ids: 0, // Zamba 2
  global_attn_idx: 0, // Hymba
  full_attn_layers: 1, // Kimi Linear
  kda_layers: 1,
};

/** Counts of a decoder's layers, other names of them too, which a stack changes together. */
const COUNTS_IN_STACKS: readonly string[] = [
  ...LAYER_COUNTS,
  ...["decoder_layers", "num_decoder_layers", "num_blocks", "layers"], // BART, ProphetNet, xLSTM, Kosmos-2
];

/** For each layer, the one whose keys and values it reads (Mistral Large 4). */
const SOURCES = "kv_source_layers";

/** Lists with a part for each layer, or for each of a kind, by its place: IDEFICS, Inkling 2, Zamba 2. */
const LISTS_BY_PLACE = /(?:^|\.)(gated_cross_attn_layers|attn_queries|mlp_queries|\w+_adapter_list)\.\d/;

/** Field of Gemma 3n and 4 with which tensors outside the layers hold a part for each layer, by its place. */
const PARTS_BY_PLACE = "hidden_size_per_layer_input";

/** What one field says of each layer. */
interface LayerField {
  readonly name: string;
  readonly kinds: readonly unknown[];
  /** The fields that say this of the layers of a stack, for the fields that are written already; undefined if none do. */
  readonly write: (kinds: readonly unknown[], written: JsonObject) => JsonObject | undefined;
}

const layersUpTo = (count: number) => Array.from({ length: count }, (_, layer) => layer);
const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

function layerFields(text: JsonObject, modelType: string, layers: number): LayerField[] {
  const listed = Object.entries(text).flatMap(([name, value]) => listedField(name, value, layers) ?? []);
  const covered = new Set<string>();
  const own = findFamily(modelType)?.kinds ?? [];
  // The first rule for a field or list counts.
  const ruled = [...own, ...SHARED_RULES].flatMap((rule) => {
    const fields = Object.keys(rule.numbers);
    const applies = own.includes(rule) || fields.some((name) => text[name] != null);
    const { list } = rule;
    const isListed =
      list !== undefined && Array.isArray(text[list]) && (list in PLACES || text[list].length === layers);
    const names = list === undefined ? fields : [...fields, list];
    if (!applies || isListed || names.some((name) => covered.has(name))) return [];
    for (const name of names) covered.add(name);
    return [ruledField(rule, text, layers)];
  });
  return [...listed, ...ruled];
}

/** A field that names the kind of each layer, or the layers of a kind. */
function listedField(name: string, value: unknown, layers: number): LayerField | undefined {
  const first = PLACES[name];
  if (first !== undefined && Array.isArray(value)) {
    const places = value.map(Number);
    const kinds = layersUpTo(layers).map((layer) => places.includes(layer + first));
    return { name, kinds, write: (is) => ({ [name]: is.flatMap((one, place) => (one ? [place + first] : [])) }) };
  }
  if (name === SOURCES && Array.isArray(value) && value.length === layers) {
    const kinds = value.map((source, layer) => Number(source) - layer);
    return { name, kinds, write: (is) => ({ [name]: is.map((by, place) => place + Number(by)) }) };
  }
  if (Array.isArray(value) && value.length === layers && !/^architectures$|token_ids?$/.test(name)) {
    return { name, kinds: value, write: (kinds) => ({ [name]: kinds }) };
  }
  if (typeof value === "string" && value.length === layers && name.endsWith("pattern")) {
    return { name, kinds: [...value], write: (kinds) => ({ [name]: kinds.join("") }) };
  }
  if (!isObject(value)) return undefined;
  const inner = Object.entries(value).flatMap(([key, one]) =>
    key in PLACES ? (listedField(key, one, layers) ?? []) : [],
  );
  if (inner.length > 0) {
    const kinds = layersUpTo(layers).map((layer) => inner.map((field) => field.kinds[layer]));
    const write = (is: readonly unknown[]) => {
      const fields = inner.map((field, i) =>
        field.write(
          is.map((of) => (of as unknown[])[i]),
          {},
        ),
      );
      return { [name]: Object.assign({ ...value }, ...fields) };
    };
    return { name, kinds, write };
  }
  const isByNumber = Object.keys(value).length > 0 && Object.keys(value).every((key) => Number(key) < layers);
  if (!isByNumber || !name.includes("layer")) return undefined;
  const write = (kinds: readonly unknown[]) => {
    return { [name]: Object.fromEntries([...kinds.entries()].filter(([, kind]) => kind !== undefined)) };
  };
  return { name, kinds: layersUpTo(layers).map((layer) => value[layer]), write };
}

/** A field from which kinds follow by a rule. */
function ruledField(rule: KindRule, text: JsonObject, layers: number): LayerField {
  const { list, numbers } = rule;
  const fields = Object.keys(numbers);
  const number = (json: JsonObject, name: string) => {
    const value = json[name];
    return value == null || !Number.isFinite(Number(value)) || Array.isArray(value)
      ? (numbers[name]?.missing ?? 0)
      : Number(value);
  };
  const kindsIn = (json: JsonObject, depth: number) => {
    const values = fields.map((name) => number(json, name));
    return layersUpTo(depth).map((layer) => rule.kind(layer, values, depth, json));
  };
  const write = (kinds: readonly unknown[], written: JsonObject): JsonObject | undefined => {
    if (same(kindsIn(written, kinds.length), kinds)) return {};
    if (rule.write) return rule.write(kinds);
    if (list !== undefined) return { [list]: list in PLACES ? placesOf(kinds) : kinds };
    const choices = fields.map((name) => {
      const least = numbers[name]?.least ?? 0;
      return [number(written, name), ...layersUpTo(kinds.length + 2).filter((value) => value >= least)];
    });
    for (const values of combinations(choices)) {
      const found = Object.fromEntries(fields.map((name, i) => [name, values[i]]));
      if (same(kindsIn({ ...written, ...found }, kinds.length), kinds)) {
        return Object.fromEntries(Object.entries(found).filter(([name, value]) => value !== number(written, name)));
      }
    }
    return undefined;
  };
  const present = fields.filter((name) => text[name] != null);
  return {
    name: list ?? (present.join(" and ") || fields[0]) ?? "attention_types",
    kinds: kindsIn(text, layers),
    write,
  };
}

function* combinations(choices: readonly (readonly number[])[]): Generator<number[]> {
  const [first, ...others] = choices;
  if (!first) yield [];
  else for (const value of first) for (const rest of combinations(others)) yield [value, ...rest];
}

const placesOf = (kinds: readonly unknown[]) => kinds.flatMap((kind, place) => (kind ? [place] : []));

/**
 * The configuration of a stack of a model's layers.
 * @param order layer of the model at each place of the stack
 * @throws RecipeError if no configuration of the family describes it
 */
export function stackedConfig(
  { json, layers = 0, modelType, file }: CheckpointConfig,
  order: readonly number[],
): JsonObject {
  if (same(order, layersUpTo(layers))) return json;
  if (Number(textOf(json)[PARTS_BY_PLACE] ?? 0) > 0) throw partsByPlace(`${PARTS_BY_PLACE} in config.json`, file);
  const counted = mapTowers(json, (key, value) => {
    return COUNTS_IN_STACKS.includes(key) && Number(value) === layers ? order.length : value;
  });
  return mapText(counted, (text) => {
    const fields = layerFields(textOf(json), modelType, layers);
    let stacked = text;
    for (const { name, kinds, write } of fields) {
      const wanted = order.map((layer) => kinds[layer]);
      const written = write(wanted, stacked);
      const last = name === "layer_types" ? findFamily(modelType)?.lastKind : undefined;
      if (!written || (last !== undefined && wanted.at(-1) !== last)) {
        const found =
          last === undefined || !written
            ? `its layers would be ${formatKinds(wanted)}`
            : `its last layer would be ${wanted.at(-1)}, not ${last}`;
        throw RecipeError.at(
          { field: "slices", file },
          `no ${name} in config.json can describe this stack: ${found}; choose slices in which kinds of layers follow each other as in the model`,
        );
      }
      stacked = { ...stacked, ...written };
    }
    return stacked;
  });
}

const partsByPlace = (what: string, file: string) =>
  RecipeError.at(
    { field: "slices", file },
    `${what} gives each layer, by its place, a part of other tensors, so the layers of this model cannot be stacked; use a method that keeps their places, such as swap`,
  );

/** `dense 0,4, sparse 1-3` */
function formatKinds(kinds: readonly unknown[]): string {
  const distinct = [...new Set(kinds.map(String))];
  return formatSome(
    distinct.map(
      (kind) => `${kind} ${formatRanges(kinds.flatMap((one, place) => (String(one) === kind ? [place] : [])))}`,
    ),
  );
}

/**
 * Checks that a stack of a model's layers can be described, and that each layer has the tensors that its place then needs.
 * @param order layer of the model at each place of the stack
 * @throws RecipeError if not
 */
export function requireStackable(
  { config, name, tensors, layers, layerPrefix }: Checkpoint,
  order: readonly number[],
): void {
  stackedConfig(config, order);
  const [, list] = [...tensors.keys()].flatMap((one) => LISTS_BY_PLACE.exec(one) ?? []);
  if (list !== undefined && !same(order, layersUpTo(layers)))
    throw partsByPlace(`the list ${list} of ${name}`, config.file);
  const contents = layersUpTo(layers).map((): string[] => []);
  for (const { name: tensor, layer, shape } of tensors.values()) {
    if (layer !== null) contents[layer]?.push(`${tensor.slice(layerPrefix.length).replace(/^\d+/, "")} ${shape}`);
  }
  const content = contents.map((list) => list.sort().join());
  const fields = layerFields(textOf(config.json), config.modelType, layers);
  const kindOf = (layer: number) => JSON.stringify(fields.map(({ kinds }) => kinds[layer]));
  const byKind = groupBy(layersUpTo(layers), kindOf);
  for (const [place, layer] of order.entries()) {
    const alike = byKind.get(kindOf(layer)) ?? [];
    if (place === layer || alike.every((other) => content[other] === content[layer])) continue;
    // The first or last layer can have what others lack, such as the norms of ModernBERT and RWKV.
    const isEnd = ENDS.find((end) =>
      alike.every((a) => alike.every((b) => end(a, layers) !== end(b, layers) || content[a] === content[b])),
    );
    if (isEnd && alike.some((a) => isEnd(a, layers) === isEnd(place, order.length) && content[a] === content[layer]))
      continue;
    throw RecipeError.at(
      { field: "slices", file: config.file },
      `layer ${layer} of ${name} has other tensors than layer ${alike.find((other) => content[other] !== content[layer])}, and no field of config.json is known to say so; choose slices that leave it at its place`,
    );
  }
}

const ENDS = [(layer: number) => layer === 0, (layer: number, layers: number) => layer === layers - 1];

/** Names of transformers 4 for kinds of layers. */
const LEGACY: Readonly<Record<string, string>> = { mamba: "linear_attention", attention: "full_attention" };

/**
 * Kinds of layers by the field that says them, for comparisons of models.
 * @param order layer of the model at each place; default as they are
 */
export function layerKinds(
  config: CheckpointConfig,
  order?: readonly number[],
): ReadonlyMap<string, readonly unknown[]> {
  const { layers = 0 } = config;
  const places = order ?? layersUpTo(layers);
  // Numbers, such as a base of rotary positions, are settings of layers of one kind.
  const fields = layerFields(textOf(config.json), config.modelType, layers).filter(({ kinds }) =>
    kinds.every((kind) => typeof kind !== "object" && (typeof kind !== "number" || kind === 0 || kind === 1)),
  );
  return new Map(
    fields.map(({ name, kinds }) => [name, places.map((layer) => LEGACY[String(kinds[layer])] ?? kinds[layer])]),
  );
}
