// Where a checkpoint stores the weights that a description names: the stem that stands before its decoder's names.
// Not a reader of weights, nor a check of their shapes.
import { CheckpointError, formatSome } from "../../core/index.js";
import type { DecoderSpec, LinearWeights, NormWeights, StoredWeight } from "./families/spec.js";

export interface WeightNames {
  /** Name in the description to name in the checkpoint. */
  readonly stored: ReadonlyMap<string, string>;
  /** Tensors of the decoder's layers that the description has no role for, such as a bias that config.json denies. */
  readonly unused: readonly string[];
}

/** Every weight of a decoder, in the order of the computation; rows of one fused tensor are entries of their own. */
export function weightsOf(spec: DecoderSpec): StoredWeight[] {
  const roles = (weights: object): StoredWeight[] =>
    (Object.values(weights) as (LinearWeights | NormWeights)[]).flatMap(({ weight, bias }) =>
      bias ? [weight, bias] : [weight],
    );
  return [
    spec.embedding,
    ...spec.layers.flatMap(({ weights }) => roles(weights)),
    ...roles({ norm: spec.finalNorm }),
    ...(spec.head ? [spec.head] : []),
  ];
}

/**
 * Finds the weights of a decoder among the tensors of a checkpoint. The stem is read off the names: whatever stands
 * before those of the first layer and of the embedding alike. The head stands beside the decoder or anywhere further
 * out.
 * @param where names the checkpoint in errors
 * @throws {CheckpointError} if the decoder is not among them, or not all of its weights
 */
export function locateWeights(spec: DecoderSpec, names: Iterable<string>, where: string): WeightNames {
  const there = new Set(names);
  const probe = spec.layers[0]?.weights.o.weight.name ?? "";
  const stems = [...there]
    .filter((name) => name === probe || name.endsWith(`.${probe}`))
    .map((name) => name.slice(0, name.length - probe.length))
    .filter((stem) => there.has(`${stem}${spec.embedding.name}`));
  const [stem] = stems;
  if (stem === undefined || stems.length > 1) {
    const found = stems.length > 1 ? `under each of ${formatSome(stems)}` : "nowhere";
    throw new CheckpointError(
      `${where}: the weights of its decoder (${spec.family}) are looked for by ${spec.embedding.name} and ${probe}, which are there ${found}; they are expected once, under one prefix`,
      { file: where, tensor: probe },
    );
  }
  const stored = new Map<string, string>();
  for (const { name } of weightsOf(spec)) {
    stored.set(name, name === spec.head?.name ? findHead(name, stem, there) : `${stem}${name}`);
  }
  const missing = [...stored.values()].filter((name) => !there.has(name));
  const [first] = missing;
  if (first !== undefined) {
    throw new CheckpointError(
      `${where} lacks ${missing.length} of the ${stored.size} weights of its decoder (${spec.family}): ${formatSome(missing)}; a shard is missing, or config.json is of another model`,
      { file: where, tensor: first },
    );
  }
  const used = new Set(stored.values());
  // Buffers that old checkpoints store: they follow from the configuration.
  const isBuffer = (name: string) => name.endsWith("rotary_emb.inv_freq");
  const unused = [...there].filter((name) => name.startsWith(`${stem}layers.`) && !used.has(name) && !isBuffer(name));
  return { stored, unused };
}

/** "lm_head.weight" beside the decoder or further out; "model.language_model." has it at the very front. */
function findHead(name: string, stem: string, there: ReadonlySet<string>): string {
  const parts = stem.split(".").slice(0, -1);
  const places = Array.from({ length: parts.length + 1 }, (_, i) => parts.slice(0, parts.length - i));
  const candidates = places.map((place) => [...place, name].join("."));
  return candidates.find((candidate) => there.has(candidate)) ?? name;
}
