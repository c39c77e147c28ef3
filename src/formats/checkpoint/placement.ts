// Assigns each tensor a layer and a part, by its family's names or else by the layer numbers in names.
import {
  DECODER_STEMS,
  findFamily,
  isBias,
  type OutsidePart,
  type Part,
  type TensorNames,
  tensorNamesOf,
} from "../../families/index.js";
import { CheckpointError, own } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";
import { moduleTensor } from "../safetensors/index.js";
import { type CheckpointConfig, textOf } from "./config.js";
import { guessPart } from "./guessed-parts.js";

/** The place of a tensor in the model. */
export interface Place {
  /** Layer, counted from 0 at the input; null for tensors outside the layers. */
  readonly layer: number | null;
  readonly part: Part;
  /** Whether a matrix is stored [in, out], as in GPT-2, instead of [out, in]. */
  readonly transposed?: true;
}

export interface Placement {
  /** Displayed name of the architecture; "unknown" if no family has the `model_type`, or the tensors are not named as its are. */
  readonly architecture: string;
  readonly tiedByDefault: boolean;
  readonly places: ReadonlyMap<string, Place>;
  /** Number of layers of the decoder or encoder; 0 where the model has no single stack of layers. */
  readonly layers: number;
  /** Why there are none, as a clause. */
  readonly withoutLayers?: string;
  /** Prefix of a layer's number in tensor names, such as `model.layers.`. */
  readonly layerPrefix: string;
}

/** Where the layers are: their number, and the text before it in names. */
interface LayerNaming {
  readonly prefix: string;
  readonly stem: string;
  readonly layers: number;
  readonly known?: TensorNames;
  /** Names of the norms of its layers, which say what each normalises. */
  readonly norms?: ReadonlySet<string>;
}

/**
 * Places tensors by their names.
 * @throws CheckpointError if the names count other layers than the configuration says
 */
export function placeTensors(names: readonly string[], config: CheckpointConfig): Placement {
  const family = findFamily(config.modelType);
  const known = tensorNamesOf(family);
  const found = (known && findKnownRule(names, known, config)) ?? findGenericRule(names, config);
  const rule = known && typeof found !== "string" && !found.known ? withKnownNames(found, names, known) : found;
  const traits = {
    architecture: family?.name ?? "unknown",
    tiedByDefault: family?.defaults?.tie_word_embeddings === true,
  };
  if (typeof rule === "string") {
    const places = new Map(names.map((name) => [name, { layer: null, part: stackOf(name) }] as const));
    return { ...traits, places, layers: 0, withoutLayers: rule, layerPrefix: "" };
  }
  const places = new Map(names.map((name) => [name, place(name, rule)] as const));
  checkLayers(places, rule, config, predictionLayers(names, rule.prefix, config));
  return {
    ...traits,
    architecture: rule.known || !known ? traits.architecture : "unknown",
    places: moveExtraLayersOutside(places, rule),
    layers: rule.layers,
    layerPrefix: rule.prefix,
  };
}

/**
 * The number of layers that the tensors of a known family count, where the configuration says another; undefined if it says
 * the same, if one is missing between others, if the last ones are unlike the others or the final norm is missing, as where
 * a file was cut, or if it has a list of layers, which no count can correct.
 */
export function countedLayers(names: readonly string[], config: CheckpointConfig): number | undefined {
  const known = tensorNamesOf(findFamily(config.modelType));
  const lists = Object.values(textOf(config.json)).some(
    (value) => Array.isArray(value) && value.length === config.layers,
  );
  if (!known || lists || config.layers === undefined) return undefined;
  const numbers = numbersAfter(names);
  const prefixes = known.stems.map((stem) => `${stem}${known.layers}.`).filter((prefix) => numbers.get(prefix)?.has(0));
  const [prefix = "", another] = prefixes;
  const found = numbers.get(prefix) ?? new Set();
  const more = found.size - config.layers;
  if (more === 0 || another !== undefined || !isWhole(found)) return undefined;
  const isPrediction = more > 0 && more <= predictionLayers(names, prefix, config);
  const doubtful = Math.min(config.layers, found.size) - 1;
  const hasEnd = names.some((name) => outsidePart(name, stemOf(prefix), known) === "final_norm");
  return isPrediction || !hasEnd || hasLoneLayer(names, prefix, doubtful) ? undefined : found.size;
}

/** Whether numbers, none of them twice, count from 0 without a gap. */
const isWhole = (numbers: ReadonlySet<number>) => [...numbers].every((number) => number < numbers.size);

/** Whether one of the layers from a number on has modules that no other layer has. */
function hasLoneLayer(names: readonly string[], prefix: string, from: number): boolean {
  const modules = new Map<number, Set<string>>();
  for (const name of names) {
    const [, number, rest = ""] = (name.startsWith(prefix) && /^(\d+)\.(.*)$/.exec(name.slice(prefix.length))) || [];
    if (number === undefined) continue;
    modules.set(Number(number), (modules.get(Number(number)) ?? new Set()).add(moduleName(rest)));
  }
  // One layer of each kind, and whether there are more.
  const kinds = new Map<string, { readonly layer: number; readonly isLone: boolean }>();
  for (const [layer, set] of modules) {
    const kind = [...set].sort().join();
    kinds.set(kind, { layer, isLone: !kinds.has(kind) });
  }
  return [...kinds.values()].some(({ layer, isLone }) => isLone && layer >= from);
}

function findKnownRule(
  names: readonly string[],
  known: TensorNames,
  config: CheckpointConfig,
): LayerNaming | undefined {
  for (const stem of known.stems) {
    const prefix = `${stem}${known.layers}.`;
    const { layers = numbersAfter(names).get(prefix)?.size } = config;
    const isThere = names.some((name) => name.startsWith(`${prefix}0.`));
    if (isThere && layers !== undefined) return { prefix, stem, layers, known };
  }
  return undefined;
}

/** A rule of another prefix, as within a larger model, with the family's names where its layers have no others. */
function withKnownNames(rule: LayerNaming, names: readonly string[], known: TensorNames): LayerNaming {
  const isKnown = (name: string) =>
    !name.startsWith(rule.prefix) || statedPart(known, moduleInLayer(name, rule.prefix)) !== undefined;
  return names.every(isKnown) ? { ...rule, known } : rule;
}

const moduleInLayer = (name: string, prefix: string) => moduleName(name.slice(prefix.length).replace(/^\d+\./, ""));

/** The text before the name of the list of layers. */
export const stemOf = (layerPrefix: string) => /^(.*\.)?[^.]+\.$/.exec(layerPrefix)?.[1] ?? "";

/** Numbers in names, by the text before them. */
function numbersAfter(names: readonly string[]): Map<string, Set<number>> {
  const numbers = new Map<string, Set<number>>();
  for (const name of names) {
    for (const match of name.matchAll(/(?<=\.)\d+(?=\.)|^\d+(?=\.)/g)) {
      const prefix = name.slice(0, match.index);
      numbers.set(prefix, (numbers.get(prefix) ?? new Set()).add(Number(match[0])));
    }
  }
  return numbers;
}

/** Number of blocks after the last layer that predict further tokens: as the configuration says, or as their names do. */
function predictionLayers(names: readonly string[], prefix: string, config: CheckpointConfig): number {
  const { layers = 0 } = config;
  const beyond = names.flatMap((name) => {
    const found = name.startsWith(prefix) ? /^(\d+)\.(eh_proj|enorm|hnorm)\./.exec(name.slice(prefix.length)) : null;
    return found && Number(found[1]) >= layers ? [Number(found[1])] : [];
  });
  return Math.max(config.predictionLayers, new Set(beyond).size);
}

/** The prefix after which the names count exactly 0..L-1, or why the model has no single stack of layers. */
function findGenericRule(names: readonly string[], config: CheckpointConfig): LayerNaming | string {
  if (config.isEncoderDecoder) return "it has an encoder and a decoder";
  const numbers = numbersAfter(names);
  const whole = [...numbers].filter(([, found]) => isWhole(found));
  const stated = whole.filter(([prefix, found]) => {
    const more = found.size - (config.layers ?? found.size);
    return more === 0 || (more > 0 && more <= predictionLayers(names, prefix, config));
  });
  // A configuration can count each pass through layers that run several times (HRM), or their halves.
  const repeated = whole.filter(
    ([prefix, { size }]) => LIST.test(prefix) && size > 1 && (config.layers ?? 1) % size === 0,
  );
  const counted = stated.length > 0 ? stated : repeated;
  // Experts inside a layer can count to L as well; the outermost numbers are the layers'.
  const prefixes = counted.map(([prefix]) => prefix);
  const outermost = prefixes.filter(
    (prefix) => !prefixes.some((other) => other !== prefix && prefix.startsWith(other)),
  );
  // A tower of images or sound can be as deep as the decoder.
  const decoders = outermost.filter((prefix) => !VISION.test(prefix) && !PREDICTION.test(prefix));
  const candidates = decoders.length > 0 ? decoders : outermost;
  const usual = candidates.filter((prefix) => DECODER_STEMS.some((stem) => prefix === `${stem}layers.`));
  const lists = candidates.filter((prefix) => LIST.test(prefix));
  const [prefix, another] = [usual, lists, candidates].find(({ length }) => length > 0) ?? [];
  if (prefix !== undefined && another === undefined) {
    const { size = 0 } = numbers.get(prefix) ?? {};
    const layers = counted === stated ? (config.layers ?? size) : size;
    const inLayers = names.filter((name) => name.startsWith(prefix));
    const modules = inLayers.map((name) => moduleInLayer(name, prefix));
    const norms = new Set(modules.filter((module) => /norm|(^|[._])ln/i.test(module)));
    return { prefix, layers, norms, stem: stemOf(prefix) };
  }
  if (prefix !== undefined) return `its tensors count layers in more than one place (${formatSome(candidates)})`;
  if (config.layers === undefined) return "its tensors count no layers";
  const [closest] = [...numbers].sort((a, b) => b[1].size - a[1].size);
  const seen = closest ? `; the closest, ${closest[0]}N, counts ${closest[1].size}` : "";
  throw new CheckpointError(
    `${config.file} says ${config.layers} layers, but no tensor names count 0 to ${config.layers - 1}${seen}; the configuration and the weights are not of the same model`,
    { file: config.file, field: config.layersField, expected: `${config.layers} layers` },
  );
}

/** Names of lists of layers; other lists can be as long, such as the heads of several codebooks. */
const LIST = /(^|\.)(layers?|h|blocks?)\.$/;

/** The part of a tensor in a model without one stack of layers. */
function stackOf(name: string): OutsidePart {
  const [, stack] = /(?:^|\.)(encoder|decoder)\./.exec(name) ?? [];
  const isHead = partOutside(name) === "lm_head" && !/\.\d+\./.test(name);
  return !isHead && (stack === "encoder" || stack === "decoder") ? stack : partOutside(name);
}

/** The part of a tensor outside the layers, by its name alone. */
export const partOutside = (name: string): OutsidePart => outsidePart(name, "", undefined);

function place(name: string, rule: LayerNaming): Place {
  const { prefix, stem, known, norms } = rule;
  const isWithin = known !== undefined && norms !== undefined;
  if (name.startsWith(prefix)) {
    const rest = name.slice(prefix.length);
    const dot = rest.indexOf(".");
    if (dot > 0 && /^\d+$/.test(rest.slice(0, dot))) {
      const module = moduleName(rest.slice(dot + 1));
      const part = (known && statedPart(known, module)) ?? guessPart(module, norms);
      const isVector = isBias(name) || part.endsWith("_norm");
      const transposed = known && !isVector && isTransposed(known, module);
      return { layer: Number(rest.slice(0, dot)), part, ...(transposed ? { transposed } : {}) };
    }
  }
  return { layer: null, part: outsidePart(name, stem, isWithin ? undefined : known) };
}

/** The part on the family's page; the bias of a parameter without a module (`down_proj_bias`) has its weight's. */
const statedPart = ({ parts }: TensorNames, module: string) =>
  own(parts, module) ?? (isBias(module) ? own(parts, module.replace(/_bias$/, "")) : undefined);

const isTransposed = ({ parts, transposed = [] }: TensorNames, module: string) =>
  transposed === "all" ? Object.hasOwn(parts, module) : transposed.includes(module);

/** The place of a tensor in a model whose layers are counted after a prefix. */
export function placeBelow(name: string, prefix: string): Place {
  return place(name, { prefix, stem: stemOf(prefix), layers: 0 });
}

/** A tensor's name without `.weight` or `.bias`, experts' numbers replaced by `*`. */
function moduleName(name: string): string {
  return name.replace(/\.(weight|bias)$/, "").replace(/(?<=^|\.)experts\.\d+\./, "experts.*.");
}

const EMBEDDING =
  /(^|\.)(embed_tokens|word_embeddings?|tok_embeddings|tokens_embed|embed_in|wte|shared|embeddings?)$|^transformer\.w$/;

const HEAD =
  /(^|\.)(lm_head|generator_lm_head|lm_loss|embed_out|output|output_projection|proj_out|predictions\.decoder|pred_layer\.proj)$|^(head|decoder)$/;

const VISION =
  /(^|\.)(vision|visual|image|multi_modal_projector|mm_projector|embed_vision|audio|speech|embed_audio|qformer)/;

/** Blocks that predict further tokens, where they are beside the layers. */
const PREDICTION = /(^|\.)(mtp|nextn)([._]|$)/;

function outsidePart(name: string, stem: string, known: TensorNames | undefined): OutsidePart {
  if (moduleTensor(name)) return "module";
  if (VISION.test(name)) return "vision";
  if (PREDICTION.test(name)) return "mtp";
  const module = moduleName(name);
  if (known) {
    // The head is often next to the decoder, not inside it: `lm_head` next to `model.`, or one level up.
    const under = module.startsWith(stem) ? module.slice(stem.length) : module;
    const last = module.slice(module.lastIndexOf(".") + 1);
    const head = own(known.outside, last) === "lm_head" ? "lm_head" : undefined;
    return own(known.outside, under) ?? own(known.outside, module) ?? head ?? "other";
  }
  if (/(^|\.)(wpe|embed_positions|position_embeddings?)$/.test(module)) return "position_embeddings";
  // A final norm can be above the module that holds the layers.
  let under = module;
  for (const parent of stem === "" ? ["model"] : stem.split(".").slice(0, -1)) {
    if (under.startsWith(`${parent}.`)) under = under.slice(parent.length + 1);
  }
  if (EMBEDDING.test(module)) return "embed_tokens";
  if (HEAD.test(module)) return "lm_head";
  return /^([^.]*norm[^.]*|(.*\.)?ln_?f)$/.test(under) ? "final_norm" : "other";
}

function checkLayers(
  places: ReadonlyMap<string, Place>,
  { prefix, layers }: LayerNaming,
  config: CheckpointConfig,
  prediction: number,
): void {
  const found = new Set([...places.values()].map((place) => place.layer).filter((layer) => layer !== null));
  const missing = Array.from({ length: layers }, (_, layer) => layer).filter((layer) => !found.has(layer));
  const extra = [...found].filter((layer) => layer >= layers + prediction);
  if (missing.length === 0 && extra.length === 0) return;
  const what =
    missing.length > 0
      ? `there are no tensors of layer ${formatSome(missing.map(String))}`
      : `there are tensors of layer ${formatSome(extra.sort((a, b) => a - b).map(String))}`;
  throw new CheckpointError(
    `${config.file} says ${layers} layers, but under ${prefix} ${what}; the configuration and the weights are not of the same model, or a shard is missing`,
    { file: config.file, field: config.layersField, expected: `${layers} layers`, actual: `${found.size} layers` },
  );
}

/** Blocks that predict further tokens follow the last layer by number but are not part of the decoder. */
function moveExtraLayersOutside(places: Map<string, Place>, { layers }: LayerNaming): Map<string, Place> {
  for (const [name, { layer }] of places) {
    if (layer !== null && layer >= layers) places.set(name, { layer: null, part: "mtp" });
  }
  return places;
}
