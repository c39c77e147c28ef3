// Finds the weights of a decoder among the tensors of a checkpoint, whose names may have a prefix.

import type { DecoderSpec, ExpertWeights, LinearWeights, NormWeights, StoredWeight } from "../../families/index.js";
import { CheckpointError } from "../../kit/index.js";
import { formatSome } from "../../kit/printing/index.js";

export interface WeightNames {
  /** Name in the checkpoint, by name in the specification. */
  readonly stored: ReadonlyMap<string, string>;
  /** Tensors of the decoder's layers that the specification does not use, such as a bias that config.json turns off. */
  readonly unused: readonly string[];
}

/** Every weight of a decoder, in the order of computation; rows of a fused tensor are separate entries. */
export function weightsOf(spec: DecoderSpec): StoredWeight[] {
  const inputs = spec.layerInputs;
  return [
    spec.embedding,
    ...(inputs ? [inputs.embedding, ...roles({ projection: inputs.projection, norm: inputs.norm })] : []),
    ...spec.layers.flatMap(({ weights, experts }) => [
      ...roles(weights),
      ...(experts ? weightsOfExperts(experts) : []),
    ]),
    ...roles({ norm: spec.finalNorm }),
    ...(spec.head ? [spec.head] : []),
  ];
}

function roles(weights: object): StoredWeight[] {
  return (Object.values(weights) as (LinearWeights | NormWeights)[]).flatMap(({ weight, bias }) =>
    bias ? [weight, bias] : [weight],
  );
}

/** Every weight of a layer's experts, with the router. */
function weightsOfExperts({ gate, up, gateUp, down, ...others }: ExpertWeights): StoredWeight[] {
  const matrices = [gate, up, gateUp, down].filter((one) => one !== undefined);
  return [...roles(others), ...matrices.flatMap(({ weights, bias }) => (bias ? [...weights, bias] : weights))];
}

/**
 * Finds the weights of a decoder among the tensors of a checkpoint. The prefix is the one that the names of the first
 * layer and of the embedding share. The head has the same prefix or a shorter one.
 * @param where names the checkpoint in errors
 * @throws CheckpointError if the decoder is not among them, or not all of its weights
 */
export function locateWeights(spec: DecoderSpec, names: Iterable<string>, where: string): WeightNames {
  const there = new Set(names);
  const [first] = spec.layers;
  const { o, mixed, down } = first?.weights ?? {};
  const probe = (o ?? mixed ?? down ?? first?.experts?.router)?.weight.name ?? "";
  const stems = [...there]
    .filter((name) => name === probe || name.endsWith(`.${probe}`))
    .map((name) => name.slice(0, name.length - probe.length))
    .filter((stem) => there.has(`${stem}${spec.embedding.name}`));
  const [stem] = stems;
  if (stem === undefined || stems.length > 1) {
    const found = stems.length > 1 ? `under each of ${formatSome(stems)}` : "missing";
    throw new CheckpointError(
      `${where} must have ${spec.embedding.name} and ${probe}, as a ${spec.family} decoder, once under one prefix; they are ${found}`,
      { file: where, tensor: probe },
    );
  }
  const stored = new Map<string, string>();
  for (const { name } of weightsOf(spec)) {
    stored.set(name, name === spec.head?.name ? findHead(name, stem, there) : `${stem}${name}`);
  }
  const missing = [...stored.values()].filter((name) => !there.has(name));
  const [lost] = missing;
  if (lost !== undefined) {
    throw new CheckpointError(
      `${where} is missing ${missing.length} of the ${stored.size} weights of its decoder (${spec.family}): ${formatSome(missing)}; download the missing shard, or use this model's own config.json`,
      { file: where, tensor: lost },
    );
  }
  const used = new Set(stored.values());
  // Frequencies follow from the configuration.
  const isBuffer = (name: string) => name.endsWith(".rotary_emb.inv_freq");
  const unused = [...there].filter((name) => name.startsWith(`${stem}layers.`) && !used.has(name) && !isBuffer(name));
  return { stored, unused };
}

/** "lm_head.weight" under the decoder's prefix or a shorter one; with the prefix "model.language_model.", the head has none. */
function findHead(name: string, stem: string, there: ReadonlySet<string>): string {
  const parts = stem.split(".").slice(0, -1);
  const places = Array.from({ length: parts.length + 1 }, (_, i) => parts.slice(0, parts.length - i));
  const candidates = places.map((place) => [...place, name].join("."));
  return candidates.find((candidate) => there.has(candidate)) ?? name;
}
