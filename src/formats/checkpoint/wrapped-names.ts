// Names of modules that a trainer had wrapped when it saved them.

/** Modules of torch.compile, FSDP, activation checkpointing and DeepSpeed that hold one other, and add their name to its tensors' names. */
const WRAPPERS =
  /(^|\.)(?:_orig_mod|_fsdp_wrapped_module|_fpw_module|_checkpoint_wrapped_module|_forward_module)(?=\.)/g;

const outside = (name: string) => name.replace(WRAPPERS, "").replace(/^\./, "");

/** A tensor's name without the wrappers around modules, DDP's `module.` among them. */
export function unwrapped(name: string): string {
  return outside(name).replace(/^(base_model\.model\.)?(?:module\.)+/, "$1");
}

/** Tensors by their names without wrappers, and a note if some had any. Where two would have one name, all keep theirs. */
export function withoutWrappers<T extends { readonly name: string }>(
  tensors: readonly T[],
): { readonly tensors: readonly T[]; readonly note?: string } {
  // A model can have a module of DDP's name; DDP wraps the whole model.
  const isWhole = tensors.every(({ name }) => outside(name).startsWith("module."));
  const plain = isWhole ? unwrapped : outside;
  const changed = tensors.find(({ name }) => plain(name) !== name);
  if (!changed || new Set(tensors.map(({ name }) => plain(name))).size < tensors.length) return { tensors };
  const note = `tensors are named as a trainer had wrapped their modules, such as ${changed.name}; they are read as ${plain(changed.name)} and the like`;
  return { tensors: tensors.map((tensor) => ({ ...tensor, name: plain(tensor.name) })), note };
}
