// Brings checkpoints of one model that name or store its tensors differently to the names of one of them: a multimodal
// wrapper and its text model, the names of transformers 4 and 5, experts in one tensor or in many, a tied and an untied head.

import { type LayerPart, type Part, STEMS } from "../../families/index.js";
import { sameShape } from "../../kit/index.js";
import { formatSome, plural } from "../../kit/printing/index.js";
import { deltaOfExpert } from "./adapted-parameters.js";
import type { Checkpoint, CheckpointTensor } from "./checkpoint.js";
import { type CheckpointConfig, textOf, untied } from "./config.js";
import { deltaOfRows } from "./fused-modules.js";
import { type Place, partOutside, placeBelow, stemOf } from "./placement.js";
import { isConverted, namesInMemory } from "./renamings.js";

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

  const untied = distinct.find((one) => headOf(one) !== undefined);
  const head = untied && headOf(untied);
  if (head) {
    change(
      (one) => untie(one, head, untied.config),
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
  if (new Set(distinct.map((one) => unreadOf(one).size)).size > 1) {
    change(
      withoutUnread,
      (labels) =>
        `${labels} stores keys and values of layers that use those of earlier layers, others do not; they are left out`,
    );
  }
  const layout = layoutOf(made);
  if (layout) {
    const names = new Map([...keysInMemory(layout), ...keysOf(layout)].map(([name, key]) => [key, name]));
    change(
      (one) => rename(one, names, layout),
      (labels) => `${labels} names its tensors differently; the names are those of ${layout.name}`,
    );
  }
  return { checkpoints: new Map([...checkpoints].map(([label, one]) => [label, made.get(one) ?? one])), notes };
}

const OF_KEYS: ReadonlySet<Part> = new Set(["k_proj", "v_proj", "k_norm"]);

/** Names of keys and values that published Gemma 3n and 4 store for layers without their own, and transformers does not save. */
function unreadOf({ config, layers, tensors }: Checkpoint): ReadonlySet<string> {
  const shared = Number(textOf(config.json).num_kv_shared_layers ?? 0);
  const isUnread = ({ layer, part }: CheckpointTensor) =>
    layer !== null && layer >= layers - shared && OF_KEYS.has(part);
  return new Set(shared > 0 ? [...tensors].flatMap(([name, tensor]) => (isUnread(tensor) ? [name] : [])) : []);
}

function withoutUnread(checkpoint: Checkpoint): Checkpoint {
  const unread = unreadOf(checkpoint);
  if (unread.size === 0) return checkpoint;
  return { ...checkpoint, tensors: new Map([...checkpoint.tensors].filter(([name]) => !unread.has(name))) };
}

/**
 * The checkpoint whose names the others take: the one with most modules, of equals one whose files have these names.
 * @param made checkpoints as changed, by what they were
 */
function layoutOf(made: ReadonlyMap<Checkpoint, Checkpoint>): Checkpoint | undefined {
  const isOfModel = ({ layer, part }: CheckpointTensor) => layer === null && part !== "module";
  const size = (one: Checkpoint) => [...one.tensors.values()].filter(isOfModel).length;
  const ranked = [...made].map(([before, one]) => ({ one, size: size(one), isWritten: Number(before === one) }));
  return ranked.sort((a, b) => b.size - a.size || b.isWritten - a.isWritten)[0]?.one;
}

/**
 * How a base names what another, such as an adapter, calls by these names: its tensors, by their names there.
 * @param names those of a part of the model, by which the stem of its layers is known
 */
export function namesOfBase(
  names: readonly string[],
  base: Pick<Checkpoint, "tensors" | "layerPrefix" | "config">,
): (name: string) => string | undefined {
  const list = base.layerPrefix.slice(rootOf(base.layerPrefix).length);
  const layerPrefix =
    STEMS.map((stem) => stem + list).find((prefix) => names.some((name) => name.startsWith(prefix))) ??
    base.layerPrefix;
  const byKey = new Map([...keysOf(base)].map(([name, key]) => [key, name]));
  const inMemory = namesInMemory(base.config.json.model_type);
  const byMemory = new Map(inMemory && [...base.tensors.keys()].map((name) => [inMemory(name), name]));
  return (name) =>
    base.tensors.has(name)
      ? name
      : (byMemory.get(name) ?? byKey.get(keyOf({ ...placeBelow(name, layerPrefix), name }, rootOf(layerPrefix))));
}

/** The stem of all of the model's base, of which the stack of BERT's layers (`encoder.layer`) is a part. */
const rootOf = (layerPrefix: string) => stemOf(layerPrefix.replace(/(?<=^|\.)encoder\.(?=layers?\.$)/, ""));

type Named = Place & { readonly name: string };

/** What each tensor is, whatever its checkpoint calls it. Names that would become equal are kept. */
function keysOf({ tensors, layerPrefix }: Pick<Checkpoint, "tensors" | "layerPrefix">): Map<string, string> {
  const stem = rootOf(layerPrefix);
  const keys = new Map([...tensors].map(([name, tensor]) => [name, keyOf(tensor, stem)]));
  return new Set(keys.values()).size === keys.size ? keys : new Map([...tensors.keys()].map((name) => [name, name]));
}

/** The same by the names that the tensors have in memory, where the family renames them. */
function keysInMemory({ tensors, config }: Checkpoint): Map<string, string> {
  const inMemory = namesInMemory(config.json.model_type);
  if (!inMemory) return new Map();
  const named = new Map([...tensors].map(([name, tensor]) => [name, { ...tensor, name: inMemory(name) }]));
  const first = [...named.values()].find(({ layer }) => layer === 0)?.name ?? "";
  const stem = rootOf(first.slice(0, Math.max(0, first.search(/(?<=^|\.)0\./))));
  return new Map([...named].map(([name, tensor]) => [name, keyOf(tensor, stem)]));
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
const BESIDE_STEM =
  /^(embed_tokens|norm|final_layernorm|wte|wpe|ln_f|embed_in|final_layer_norm|embeddings|final_norm|pooler|emb_ln)\./;

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
  const inMemory = keysInMemory(checkpoint);
  const [own, root] = [rootOf(checkpoint.layerPrefix), rootOf(layout.layerPrefix)];
  for (const [name, key] of keysOf(checkpoint)) {
    const tensor = checkpoint.tensors.get(name) as CheckpointTensor;
    // A part of the base that the layout lacks, such as BERT's pooler.
    const alone = tensor.layer === null && key.startsWith("decoder ") ? root + name.slice(own.length) : name;
    const wanted = names.get(key) ?? names.get(inMemory.get(name) ?? "") ?? alone;
    isChanged ||= wanted !== name;
    tensors.set(wanted, { ...tensor, name: wanted });
  }
  const isWhole = tensors.size === checkpoint.tensors.size;
  return isChanged && isWhole ? { ...checkpoint, tensors, layerPrefix: layout.layerPrefix } : checkpoint;
}

/** The head that a checkpoint stores beside its embedding. */
function headOf({ tied, tensors }: Checkpoint): CheckpointTensor | undefined {
  if (tied) return undefined;
  return [...tensors.values()].find(({ part, shape }) => part === "lm_head" && shape.length === 2);
}

/** A checkpoint with its embedding as its head, too. @param like the head of another */
function untie(checkpoint: Checkpoint, like: CheckpointTensor, config: CheckpointConfig): Checkpoint {
  if (!checkpoint.tied || headOf({ ...checkpoint, tied: false })) return checkpoint;
  const embeddings = [...checkpoint.tensors.values()].filter(
    ({ name, part, shape }) =>
      (part === "embed_tokens" || (checkpoint.layers === 0 && partOutside(name) === "embed_tokens")) &&
      sameShape(shape, like.shape),
  );
  const embedding = embeddings.find(({ part }) => part === "decoder") ?? embeddings[0];
  if (!embedding) return checkpoint;
  const head: CheckpointTensor = { ...embedding, name: like.name, part: "lm_head" };
  const tensors = new Map([...checkpoint.tensors, [head.name, head]]);
  return { ...checkpoint, tensors, tied: false, config: untied(checkpoint.config, config) };
}

const FUSED = /^(.*\.experts)\.(gate_up_proj|up_proj|down_proj)$/;

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
    if (
      experts === undefined ||
      tensor.shape.length !== 3 ||
      tensor.lowRank?.transposed ||
      tensor.lowRank?.others?.some(({ transposed }) => transposed) ||
      tensor.gathered ||
      tensor.coded
    )
      tensors.set(name, tensor);
    else {
      const whole: readonly LayerPart[] = projection === "up_proj" ? ["up_proj"] : ["down_proj"];
      const halves: readonly LayerPart[] = projection === "gate_up_proj" ? ["gate_proj", "up_proj"] : whole;
      const bytes = tensor.bytes / count / halves.length;
      const { lowRank: delta, ...stored } = tensor;
      for (let expert = 0; expert < count; expert++) {
        for (const [half, part] of halves.entries()) {
          const own = `${experts}.${expert}.${part}.weight`;
          const offset = tensor.offset + (expert * halves.length + half) * bytes;
          const shape = [rows / halves.length, width];
          const lowRank = delta && changeOfExpert(delta, { expert, half, of: halves.length, rows });
          tensors.set(own, { ...stored, name: own, part, shape, bytes, offset, ...(lowRank ? { lowRank } : {}) });
        }
      }
    }
  }
  return { ...checkpoint, tensors };
}

/** What an adapter changes of one expert's matrix, or of the half of its rows. */
function changeOfExpert(
  delta: NonNullable<CheckpointTensor["lowRank"]>,
  {
    expert,
    half,
    of,
    rows,
  }: { readonly expert: number; readonly half: number; readonly of: number; readonly rows: number },
) {
  return delta.rows
    ? deltaOfRows(delta, expert * rows + (half * rows) / of, rows / of)
    : deltaOfExpert(delta, expert, half, of);
}

/** Names of tensors beside the decoder, which another checkpoint of the model may lack: towers, projectors, prediction blocks, modules. */
function namesBeside({ tensors, layerPrefix, config }: Checkpoint): string[] {
  const stem = stemOf(layerPrefix);
  const isUnknown = ({ name, part, shape }: CheckpointTensor) =>
    part === "other" &&
    stem !== "" &&
    !name.startsWith(stem) &&
    // It has a row for each token: a head that other models may compute in another way.
    !(name.endsWith(".weight") && shape.length === 2 && shape[0] === config.vocabularySize);
  const isBeside = (tensor: CheckpointTensor) =>
    tensor.layer === null && (["vision", "mtp", "module"].includes(tensor.part) || isUnknown(tensor));
  return [...tensors.values()].filter(isBeside).map(({ name }) => name);
}

/**
 * Tensors beside the decoder that only some checkpoints have; undefined where they have the same. Those that transformers
 * makes of others are lacking only where the whole tower is.
 */
export function besideDecoder(checkpoints: readonly { readonly label: string; readonly checkpoint: Checkpoint }[]) {
  const all = new Set(checkpoints.flatMap(({ checkpoint }) => namesBeside(checkpoint)));
  const names = new Set([...all].filter((name) => checkpoints.some(({ checkpoint }) => !checkpoint.tensors.has(name))));
  const withTower = checkpoints.filter(({ checkpoint }) =>
    [...checkpoint.tensors.values()].some(({ part }) => part === "vision"),
  );
  for (const { checkpoint } of checkpoints) {
    const inMemory = namesInMemory(checkpoint.config.json.model_type);
    for (const name of inMemory ? names : []) {
      const isStoredOtherwise = withTower.some((other) => !other.checkpoint.tensors.has(name));
      if (isStoredOtherwise && inMemory && isConverted(inMemory(name))) names.delete(name);
    }
  }
  if (names.size === 0) return undefined;
  const owners = checkpoints.filter(({ checkpoint }) => [...names].some((name) => checkpoint.tensors.has(name)));
  const note = `${plural(names.size, "tensor")} beside the decoder (${formatSome([...names])}) come from ${owners.map(({ label }) => label).join(", ")}, as others lack them`;
  return { names, note };
}
