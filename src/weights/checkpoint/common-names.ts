// Brings checkpoints of one model that name or store its tensors differently to the names of one of them: a multimodal
// wrapper and its text model, the names of transformers 4 and 5, experts in one tensor or in many, a tied and an untied head.

import { formatSome, plural } from "../../core/index.js";
import { deltaOfExpert } from "./adapted-parameters.js";
import { STEMS } from "./architectures.js";
import type { Checkpoint, CheckpointTensor } from "./checkpoint.js";
import { untied } from "./config.js";
import { type Place, placeBelow, stemOf } from "./placement.js";

export interface CommonNames {
  /** The checkpoints, renamed where their names differed. */
  readonly checkpoints: ReadonlyMap<string, Checkpoint>;
  readonly notes: readonly string[];
}

/**
 * Names the tensors of all checkpoints as the one with most modules does, such as the multimodal wrapper of a text model.
 * Checkpoints that agree are returned as they are.
 */
export function withCommonNames(checkpoints: ReadonlyMap<string, Checkpoint>): CommonNames {
  const notes: string[] = [];
  const distinct = [...new Set(checkpoints.values())];
  const made = new Map(distinct.map((checkpoint) => [checkpoint, checkpoint]));
  const labelOf = (one: Checkpoint) => [...checkpoints].find(([, other]) => other === one)?.[0] ?? one.name;
  const change = (apply: (one: Checkpoint) => Checkpoint, describe: (labels: string) => string) => {
    const changed = distinct.filter((one) => {
      const before = made.get(one) as Checkpoint;
      made.set(one, apply(before));
      return made.get(one) !== before;
    });
    if (changed.length > 0) notes.push(describe(changed.map(labelOf).join(", ")));
  };

  if (distinct.some((one) => !one.tied && one.layers > 0)) {
    change(
      untie,
      (labels) => `${labels} ties its output head to the embedding, others do not; its embedding is its head`,
    );
  }
  if (new Set(distinct.flatMap((one) => expertForm(one) ?? [])).size > 1) {
    change(
      split,
      (labels) =>
        `${labels} stores all experts of a layer in one tensor, others one by one; they are merged one by one`,
    );
  }
  const layout = layoutOf(made);
  if (layout) {
    const names = new Map([...keysOf(layout)].map(([name, key]) => [key, name]));
    change(
      (one) => rename(one, names, layout),
      (labels) => `${labels} names its tensors differently; the names are those of ${layout.name}`,
    );
  }
  return { checkpoints: new Map([...checkpoints].map(([label, one]) => [label, made.get(one) ?? one])), notes };
}

/**
 * The checkpoint whose names the others take: the one with most modules, of equals one whose files have these names.
 * @param made checkpoints as changed, by what they were
 */
function layoutOf(made: ReadonlyMap<Checkpoint, Checkpoint>): Checkpoint | undefined {
  const size = (one: Checkpoint) => [...one.tensors.values()].filter(({ layer }) => layer === null).length;
  const ranked = [...made].map(([before, one]) => ({ one, size: size(one), isWritten: Number(before === one) }));
  return ranked.sort((a, b) => b.size - a.size || b.isWritten - a.isWritten)[0]?.one;
}

/**
 * How a base names what another, such as an adapter, calls by these names: its tensors, by their names there.
 * @param names those of a part of the model, by which the stem of its layers is known
 */
export function namesOfBase(
  names: readonly string[],
  base: Pick<Checkpoint, "tensors" | "layerPrefix">,
): (name: string) => string | undefined {
  const list = base.layerPrefix.slice(stemOf(base.layerPrefix).length);
  const layerPrefix =
    STEMS.map((stem) => stem + list).find((prefix) => names.some((name) => name.startsWith(prefix))) ??
    base.layerPrefix;
  const byKey = new Map([...keysOf(base)].map(([name, key]) => [key, name]));
  return (name) =>
    base.tensors.has(name) ? name : byKey.get(keyOf({ ...placeBelow(name, layerPrefix), name }, stemOf(layerPrefix)));
}

type Named = Place & { readonly name: string };

/** What each tensor is, whatever its checkpoint calls it. Names that would become equal are kept. */
function keysOf({ tensors, layerPrefix }: Pick<Checkpoint, "tensors" | "layerPrefix">): Map<string, string> {
  const stem = stemOf(layerPrefix);
  const keys = new Map([...tensors].map(([name, tensor]) => [name, keyOf(tensor, stem)]));
  return new Set(keys.values()).size === keys.size ? keys : new Map([...tensors.keys()].map((name) => [name, name]));
}

/** What a tensor is: its name below the decoder's stem, or beside it. */
function keyOf({ name, layer, part }: Named, stem: string): string {
  const inStem = stem !== "" && name.startsWith(stem) && part !== "vision";
  if (layer !== null || inStem) return `decoder ${sameExperts(name.slice(stem.length))}`;
  if (part === "lm_head") return `head ${name.slice(name.lastIndexOf(".") + 1)}`;
  if (stem === "" && BESIDE_STEM.test(name)) return `decoder ${name}`;
  return name.replace(/^model\./, "").replace("vision_tower.vision_model.", "vision_tower.");
}

/** Modules of a decoder whose names have no stem. */
const BESIDE_STEM = /^(embed_tokens|norm|final_layernorm|wte|wpe|ln_f|embed_in|final_layer_norm)\./;

/** Names of experts' matrices, such as Mixtral's first ones, as those that transformers 5 has in memory. */
function sameExperts(name: string): string {
  const projections: Readonly<Record<string, string>> = { w1: "gate_proj", w2: "down_proj", w3: "up_proj" };
  return name
    .replace("block_sparse_moe.", "mlp.")
    .replace(/(?<=\.experts\.\d+\.)w[123](?=\.)/, (written) => projections[written] ?? written);
}

function rename(checkpoint: Checkpoint, names: ReadonlyMap<string, string>, layout: Checkpoint): Checkpoint {
  if (checkpoint === layout) return checkpoint;
  let isChanged = false;
  const tensors = new Map<string, CheckpointTensor>();
  for (const [name, key] of keysOf(checkpoint)) {
    const tensor = checkpoint.tensors.get(name) as CheckpointTensor;
    const wanted = names.get(key) ?? name;
    isChanged ||= wanted !== name;
    tensors.set(wanted, { ...tensor, name: wanted });
  }
  return isChanged ? { ...checkpoint, tensors, layerPrefix: layout.layerPrefix } : checkpoint;
}

const HEAD = "lm_head.weight";

/** A checkpoint with its embedding as its head, too. */
function untie(checkpoint: Checkpoint): Checkpoint {
  const embedding = [...checkpoint.tensors.values()].find(({ part }) => part === "embed_tokens");
  if (!checkpoint.tied || !embedding || checkpoint.layers === 0) return checkpoint;
  const head: CheckpointTensor = { ...embedding, name: HEAD, part: "lm_head" };
  const tensors = new Map([...checkpoint.tensors, [HEAD, head]]);
  return { ...checkpoint, tensors, tied: false, config: untied(checkpoint.config) };
}

const FUSED = /^(.*\.experts)\.(gate_up_proj|down_proj)$/;

/** How the experts of a checkpoint are stored; undefined if it has none. */
function expertForm({ tensors }: Checkpoint): "fused" | "single" | undefined {
  for (const name of tensors.keys()) {
    if (FUSED.test(name)) return "fused";
    if (/\.experts\.\d+\./.test(name)) return "single";
  }
  return undefined;
}

/** A checkpoint with each expert's matrices as tensors of their own: ranges of the bytes of all experts', [E, 2 I, H] and [E, H, I]. */
function split(checkpoint: Checkpoint): Checkpoint {
  if (expertForm(checkpoint) !== "fused") return checkpoint;
  const tensors = new Map<string, CheckpointTensor>();
  for (const [name, tensor] of checkpoint.tensors) {
    const [, experts, projection] = FUSED.exec(name) ?? [];
    const [count = 0, rows = 0, width = 0] = tensor.shape;
    if (experts === undefined || tensor.shape.length !== 3 || tensor.lowRank?.transposed || tensor.gathered)
      tensors.set(name, tensor);
    else {
      const halves = projection === "down_proj" ? (["down_proj"] as const) : (["gate_proj", "up_proj"] as const);
      const bytes = tensor.bytes / count / halves.length;
      for (let expert = 0; expert < count; expert++) {
        for (const [half, part] of halves.entries()) {
          const own = `${experts}.${expert}.${part}.weight`;
          const offset = tensor.offset + (expert * halves.length + half) * bytes;
          const shape = [rows / halves.length, width];
          const lowRank = tensor.lowRank && deltaOfExpert(tensor.lowRank, expert, half, halves.length);
          tensors.set(own, { ...tensor, name: own, part, shape, bytes, offset, ...(lowRank ? { lowRank } : {}) });
        }
      }
    }
  }
  return { ...checkpoint, tensors };
}

/** Names of tensors beside the decoder, which another checkpoint of the model may lack: towers, projectors, prediction blocks. */
function namesBeside({ tensors, layerPrefix }: Checkpoint): string[] {
  const stem = stemOf(layerPrefix);
  const isBeside = ({ name, layer, part }: CheckpointTensor) =>
    layer === null &&
    (part === "vision" || part === "mtp" || (part === "other" && stem !== "" && !name.startsWith(stem)));
  return [...tensors.values()].filter(isBeside).map(({ name }) => name);
}

/** Tensors beside the decoder that only some checkpoints have; undefined where they have the same. */
export function besideDecoder(checkpoints: readonly { readonly label: string; readonly checkpoint: Checkpoint }[]) {
  const all = new Set(checkpoints.flatMap(({ checkpoint }) => namesBeside(checkpoint)));
  const names = new Set([...all].filter((name) => checkpoints.some(({ checkpoint }) => !checkpoint.tensors.has(name))));
  if (names.size === 0) return undefined;
  const owners = checkpoints.filter(({ checkpoint }) => [...names].some((name) => checkpoint.tensors.has(name)));
  const note = `${plural(names.size, "tensor")} beside the decoder (${formatSome([...names])}) come from ${owners.map(({ label }) => label).join(", ")}, as others lack them`;
  return { names, note };
}
